"""A ledger with a clock in the test's hands and a broker that fails when told: what a loop sees, without an event loop."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from slicelease.control_plane.domain.commands import Command, GetQueue
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.outcomes import Failed, Outcome, QueueState, QueueView
from slicelease.control_plane.domain.policy import LedgerConfig, QueueType
from slicelease.control_plane.memory_ledger import MemoryLedger
from slicelease.control_plane.ports import (
    BrokerUnavailableError,
    LedgerUnavailableError,
    QueueArgumentsDifferError,
    QueueNotEmptyError,
    RaisedAttention,
    WorkMessage,
)

START_US = 1_700_000_000_000_000
NOW = datetime(2024, 5, 6, 7, 8, 9, 123_456, tzinfo=UTC)


class FakeLedger:
    """The specification, which can be away, and tells what was asked of it."""

    def __init__(self) -> None:
        self.now_us = START_US
        self.twin = MemoryLedger(lambda: self.now_us, LedgerConfig(open_when_new=True))
        self.away: Callable[[Command], bool] = lambda _: False
        self.breaks_at: Callable[[Command], bool] = lambda _: False
        self.steps: list[list[Command]] = []

    async def execute(self, commands: Sequence[Command]) -> list[Outcome]:
        if any(map(self.away, commands)):
            raise LedgerUnavailableError
        self.steps.append(list(commands))
        outcomes = iter(self.twin.step([command for command in commands if not self.breaks_at(command)]))
        return [Failed("broken") if self.breaks_at(command) else next(outcomes) for command in commands]

    def do(self, command: Command) -> Outcome:
        """Asked by the test itself."""
        (outcome,) = self.twin.step([command])
        return outcome

    def state_of(self, key: QueueKey) -> QueueState:
        view = self.do(GetQueue(key))
        assert isinstance(view, QueueView)
        return view.state

    def advance(self, ms: int) -> None:
        self.now_us += ms * 1_000


class FakeBroker:
    """Queues are numbers. What is raised is answered once; a second answer is without effect."""

    def __init__(self) -> None:
        self.work: dict[QueueKey, int] = {}
        self.types: dict[QueueKey, QueueType] = {}
        self.tickets: dict[str, list[bytes]] = {}
        self.raised: list[RaisedAttention] = []
        self.acked: list[bytes] = []
        self.returned: list[bytes] = []
        self.dead: defaultdict[str, list[bytes]] = defaultdict(list)
        self.differing: set[QueueKey] = set()
        self.away: Callable[[str], bool] = lambda _: False
        self.counted: list[int] = []
        self.on_count: Callable[[], None] = lambda: None
        self._answered: set[int] = set()

    def raise_all(self, *bodies: bytes) -> None:
        self.raised += [RaisedAttention(body, object()) for body in bodies]

    def _check(self, call: str) -> None:
        if self.away(call):
            raise BrokerUnavailableError(call)

    def _answer(self, raised: Sequence[RaisedAttention]) -> list[bytes]:
        new = [each for each in raised if id(each.handle) not in self._answered]
        self._answered |= {id(each.handle) for each in new}
        return [each.body for each in new]

    def unready_reason(self) -> str | None:
        return None

    async def declare_topology(self, classes: Sequence[str]) -> None:
        self._check("declare_topology")
        for class_id in classes:
            self.tickets.setdefault(class_id, [])

    async def announce(self, class_id: str, bodies: Sequence[bytes]) -> int:
        self._check(f"announce {class_id}")
        if class_id not in self.tickets:
            return 0
        self.tickets[class_id] += bodies
        return len(bodies)

    async def declare_work_queue(self, key: QueueKey, queue_type: QueueType) -> None:
        self._check("declare_work_queue")
        if key in self.differing:
            raise QueueArgumentsDifferError(key.member, "x-queue-type")
        self.work.setdefault(key, 0)
        self.types[key] = queue_type

    async def publish_work(self, key: QueueKey, message: WorkMessage) -> None:
        raise NotImplementedError  # no loop publishes work

    async def message_counts(self, keys: Sequence[QueueKey]) -> dict[QueueKey, int | None]:
        self._check("message_counts")
        self.counted.append(len(keys))
        self.on_count()
        return {key: self.work.get(key) for key in keys}

    async def attention_count(self, class_id: str) -> int | None:
        self._check("attention_count")
        return None if class_id not in self.tickets else len(self.tickets[class_id])

    async def delete_work_queue(self, key: QueueKey, *, if_empty: bool) -> None:
        if if_empty and self.work.get(key):
            raise QueueNotEmptyError(key.member, self.work[key])
        self.work.pop(key, None)

    async def take_raised(self, limit: int) -> list[RaisedAttention]:
        taken, self.raised = self.raised[:limit], self.raised[limit:]
        assert taken, "the test would wait for ever"
        return taken

    async def ack_raised(self, raised: Sequence[RaisedAttention]) -> None:
        self.acked += self._answer(raised)

    async def return_raised(self, raised: Sequence[RaisedAttention]) -> None:
        self.returned += self._answer(raised)

    async def refuse_raised(self, raised: Sequence[RaisedAttention], reason: str) -> None:
        self._check(f"refuse {reason}")
        self.dead[reason] += self._answer(raised)


class Seen:
    """LoopObserver that remembers."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def attention_raised(self, count: int) -> None:
        self.counts["raised"] += count

    def attention_duplicate(self, count: int) -> None:
        self.counts["duplicate"] += count

    def attention_coalesced(self, count: int) -> None:
        self.counts["coalesced"] += count

    def attention_refused(self, reason: str, count: int) -> None:
        self.counts[f"refused {reason}"] += count

    def tickets_published(self, class_id: str, count: int) -> None:
        self.counts[f"published {class_id}"] += count

    def tickets_lost(self, class_id: str, count: int) -> None:
        self.counts[f"lost {class_id}"] += count

    def lease_expired(self, class_id: str) -> None:
        self.counts[f"expired {class_id}"] += 1

    def reconcile_touched(self, count: int) -> None:
        self.counts["touched"] += count

    def reconcile_redeclared(self, count: int) -> None:
        self.counts["redeclared"] += count

    def reconcile_began(self) -> None:
        self.counts["rounds began"] += 1

    def reconcile_ended(self) -> None:
        self.counts["rounds ended"] += 1
