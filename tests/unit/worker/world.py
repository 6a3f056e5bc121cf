"""A small world for the worker's runtime: the twin ledger, the in-memory broker, a clock of their own, and ways to hurt them.

The twin stands behind `TwinLeases`, which implements the worker's port in the same task; what the control plane's loops do is
done by one task here, every 50 ms of the mock clock.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from slicelease.cli.memory_broker.core import MemoryBroker
from slicelease.cli.memory_broker.queue import Message
from slicelease.cli.memory_broker.routing import ExchangeKind
from slicelease.cli.memory_broker.trio_adapter import TrioBroker
from slicelease.control_plane.domain import commands, outcomes
from slicelease.control_plane.domain.names import LeaseKey, QueueKey, amqp_queue
from slicelease.control_plane.domain.policy import BUILT_IN_CLASSES, LedgerConfig, QueuePolicy, SliceTerms, TenantPolicy
from slicelease.control_plane.memory_ledger import MemoryLedger
from slicelease.worker.handlers import SliceWorker
from slicelease.worker.leases import (
    Denial,
    Directive,
    Grant,
    ProgressReport,
    Renewal,
    Settlement,
    SliceEnd,
    Ticket,
    Welcome,
)
from slicelease.worker.ports import LeaseServiceUnavailableError
from slicelease.worker.runtime import Runtime, RuntimeOptions
from tests.unit.worker import twin_words

CLASSES = ("interactive", "standard", "bulk")
EPOCH_US = 1_700_000_000_000_000


@dataclass
class Call:
    """One call that reached the lease service, and when."""

    kind: str
    slot: int
    at_s: float
    about: object


class TwinLeases:
    """`worker.ports.LeaseClient` over the twin. `hold` is awaited before each call with its kind, to block or fail it."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self.ledger = ledger
        self.calls: list[Call] = []
        self.hold: Callable[[str], Awaitable[None]] = no_hold
        self.on_directive: Callable[[Directive], None] | None = None
        self.opens_after_s = 0.0
        self.grants: list[Grant] = []
        self._n: dict[int, int] = {}
        self._locks: dict[int, trio.Lock] = {}

    async def run(
        self,
        on_directive: Callable[[Directive], None],
        *,
        task_status: trio.TaskStatus[Welcome] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        await trio.sleep(self.opens_after_s)
        self.on_directive = on_directive
        task_status.started(Welcome(5.0, 15.0))
        await trio.sleep_forever()

    def unready_reason(self) -> str | None:
        return None if self.on_directive is not None else "no session yet"

    async def acquire(self, slot: int, classes: Sequence[str], ticket: Ticket | None, *, within_s: float) -> Grant | Denial:
        async with self._in_turn("acquire", slot, ticket, within_s) as request:
            answer = twin_words.acquired(self._step(twin_words.acquire_command(request, classes, ticket)))
        if isinstance(answer, Grant):
            self.grants.append(answer)
        return answer

    async def progress(self, slot: int, report: ProgressReport, *, within_s: float) -> Renewal:
        async with self._in_turn("progress", slot, report, within_s) as request:
            return twin_words.renewed(self._step(twin_words.renew_command(request, report)))
        raise AssertionError("the request was not sent")

    async def settle(self, slot: int, end: SliceEnd, *, next_among: Sequence[str], within_s: float) -> Settlement:
        async with self._in_turn("settle", slot, end, within_s) as request:
            settlement = twin_words.settled(self._step(twin_words.settle_command(request, end, next_among)))
        if settlement.next_grant is not None:
            self.grants.append(settlement.next_grant)
        return settlement

    def ends(self) -> list[SliceEnd]:
        """The ends that were settled, or tried to be."""
        return [call.about for call in self.calls if isinstance(call.about, SliceEnd)]

    def times(self, kind: str) -> list[float]:
        return [call.at_s for call in self.calls if call.kind == kind]

    @asynccontextmanager
    async def _in_turn(self, kind: str, slot: int, about: object, within_s: float) -> AsyncIterator[commands.SlotRequest]:
        with trio.move_on_after(within_s) as scope:
            async with self._locks.setdefault(slot, trio.Lock()):
                await trio.lowlevel.checkpoint()
                self.calls.append(Call(kind, slot, trio.current_time(), about))
                await self.hold(kind)
                n = self._n[slot] = self._n.get(slot, 0) + 1
                yield commands.SlotRequest("w", slot, n, f"digest-{n}")
        if scope.cancelled_caught:
            raise LeaseServiceUnavailableError(f"no answer within {within_s:g} s")

    def _step(self, command: commands.Command) -> outcomes.Outcome:
        (outcome,) = self.ledger.step([command])
        return twin_words.accepted(outcome)


async def no_hold(_: str) -> None:
    """Nothing is held up."""


def clock_us() -> int:
    return EPOCH_US + round(trio.current_time() * 1_000_000)


@dataclass
class World:
    """Ledger, broker and lease service; `run` a worker in it."""

    config: LedgerConfig = field(default_factory=lambda: LedgerConfig(open_when_new=True, admission_ms=0))
    core: MemoryBroker = field(default_factory=MemoryBroker)

    def __post_init__(self) -> None:
        self.ledger = MemoryLedger(clock_us, self.config)
        self.leases = TwinLeases(self.ledger)
        self.published = 0
        self.core.declare_exchange("dead.unsorted", ExchangeKind.FANOUT)
        self.core.declare_exchange("dead.exchange", ExchangeKind.DIRECT, alternate="dead.unsorted")
        for name in ("dead.unsorted", *(f"attention.{class_id}" for class_id in CLASSES)):
            self.core.declare_queue(name)
        self.core.bind("dead.unsorted", "dead.unsorted")
        for class_id, policy in BUILT_IN_CLASSES.items():
            self.ledger.step([commands.CreateClass(class_id, policy)])

    def create(self, tenant: str, priority_class: str = "standard", **terms: int) -> None:
        """A tenant with its default queue, with slice terms of its own."""
        key = QueueKey(tenant, "default")
        outcome, *_ = self.ledger.step([commands.CreateTenant(tenant, TenantPolicy(priority_class))])
        assert isinstance(outcome, outcomes.TenantView), outcome
        if terms:
            policy = QueuePolicy(terms=SliceTerms(**terms))  # type: ignore[arg-type]
            (updated,) = self.ledger.step([commands.UpdateQueue(key, policy)])
            assert isinstance(updated, outcomes.QueueView), updated
        self.core.declare_queue(amqp_queue(key))

    def publish(self, tenant: str, *bodies: bytes, touch: bool = True, **properties: object) -> None:
        """Work for the tenant's default queue, then its touch. Message ids are `m1`, `m2` ... of the world."""
        key = QueueKey(tenant, "default")
        for body in bodies:
            self.published += 1
            given: dict[str, object] = {"message_id": f"m{self.published}", **properties}
            self.core.publish("", amqp_queue(key), Message(body, **given))  # type: ignore[arg-type]
        if touch:
            self.touch(tenant)

    def touch(self, tenant: str) -> None:
        (outcome,) = self.ledger.step([commands.Touch(QueueKey(tenant, "default"))])
        assert isinstance(outcome, outcomes.Touched), outcome

    def state(self, tenant: str) -> outcomes.QueueView:
        (view,) = self.ledger.step([commands.GetQueue(QueueKey(tenant, "default"))])
        assert isinstance(view, outcomes.QueueView), view
        return view

    def ready(self, queue: str) -> list[bytes]:
        return [message.body for message in self.core.peek(queue)] if self.core.ready_count(queue) is not None else []

    def in_hand(self, queue: str) -> int:
        return self.core.unacked_count(queue) or 0

    def live_leases(self) -> list[LeaseKey]:
        (page,) = self.ledger.step([commands.ListLeases()])
        assert isinstance(page, outcomes.Page)
        return [item.lease for item in page.items if isinstance(item, outcomes.LeaseView)]

    async def loops(self) -> None:
        """What the control plane does meanwhile."""
        while True:
            self.ledger.step([commands.ExpireLapsed(), commands.WakeDue()])
            (owed,) = self.ledger.step([commands.ClaimAnnouncements()])
            assert isinstance(owed, outcomes.Announcements)
            for class_id, announcement in owed.claimed:
                body = b'{"announcement_id":"%s"}' % announcement.encode()
                self.core.publish("", f"attention.{class_id}", Message(body))
                self.ledger.step([commands.MarkPublished(class_id, (announcement,))])
            await trio.sleep(0.05)

    @asynccontextmanager
    async def worker(
        self, app: SliceWorker, *, broker: TrioBroker | None = None, stop: trio.Event | None = None, **options: float
    ) -> AsyncIterator["Worker"]:
        """A worker and the control plane's loops for the time of the block; at its end the worker is shut down."""
        settings = RuntimeOptions(CLASSES, **{"slots": 2, **options})  # type: ignore[arg-type]
        runtime = Runtime(
            app, TrioBroker(self.core) if broker is None else broker, self.leases, settings, random_number=lambda: 0.5
        )
        running = Worker(runtime, trio.Event() if stop is None else stop)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.loops)
            nursery.start_soon(running.run)
            yield running
            running.stop.set()
            with trio.fail_after(120):
                await running.ended.wait()
            nursery.cancel_scope.cancel()


@dataclass
class Worker:
    runtime: Runtime
    stop: trio.Event
    ended: trio.Event = field(default_factory=trio.Event)
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)

    async def run(self) -> None:
        try:
            with self.scope:
                await self.runtime.run(self.stop)
        finally:
            self.ended.set()


async def until(condition: Callable[[], object], within_s: float = 60.0) -> None:
    """Waits on the mock clock until the condition holds."""
    with trio.fail_after(within_s):
        while not condition():  # noqa: ASYNC110  the condition is of any kind
            await trio.sleep(0.01)
