"""The system put together, one run of it, and what must hold at the end.

Everything is drawn from the seed: the dice of each part, and the order in which Trio runs tasks that are due together.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import trio

from slicelease.cli.memory_broker.core import MemoryBroker
from slicelease.cli.memory_broker.queue import Message
from slicelease.control_plane.app.observed import may_owe
from slicelease.control_plane.domain import names
from slicelease.control_plane.domain.commands import (
    Command,
    CreateClass,
    CreateTenant,
    EndReason,
    Resume,
    Touch,
    UpdateQueue,
)
from slicelease.control_plane.domain.ledger.audit import faults
from slicelease.control_plane.domain.names import QueueKey, lease_name
from slicelease.control_plane.domain.outcomes import Outcome, QueueState
from slicelease.control_plane.domain.policy import (
    BUILT_IN_CLASSES,
    LedgerConfig,
    Ordering,
    QueuePolicy,
    QueueType,
    SliceTerms,
    TenantPolicy,
)
from slicelease.control_plane.memory_ledger import MemoryLedger
from slicelease.worker.leases import Directive
from slicelease.worker.leases import EndReason as SaidReason

from .freezer import Freezer
from .load import Load, make_app
from .network import Network
from .process import CLASSES, SimProcess
from .record import ACKED, DEAD, FINISHED, BrokenPromiseError, QueueAccount, Record, number_of, payload
from .replica import Replica
from .shape import Shape
from .timeline import Timeline
from .troubles import Troubles

CONFIG = LedgerConfig(open_when_new=True, terms=SliceTerms(20, 5_000, 4, 1_000, 10_000, Ordering.STRICT))
FULL_CHECK_STEPS = 1_000
PUBLISHERS = 4
EPOCH_US = 1_700_000_000_000_000


class World:
    """Everything of one run. `step` is the ledger as anybody reaches it."""

    def __init__(self, seed: int, shape: Shape, nursery: trio.Nursery) -> None:
        self.shape = shape
        self._seed = seed
        self.nursery = nursery
        self.core = MemoryBroker()
        self.ledger = MemoryLedger(lambda: EPOCH_US + round(trio.current_time() * 1_000_000), CONFIG)
        self.record = Record(CONFIG.quarantine_ms, CONFIG.terms.max_attempts)
        self.timeline, self.freezer = Timeline(), Freezer()
        self.network = Network(self.timeline, self.dice("network"), shape, self.call)
        self.keys = [QueueKey(f"t{number:04}", names.DEFAULT_QUEUE) for number in range(shape.tenants)]
        self.load = Load(shape, self.dice("load"), self.keys)
        self.troubles = Troubles(self, self.dice("troubles"))
        self.processes: list[SimProcess] = []
        self.replicas: list[Replica] = []
        self.broker_up_s = self.store_up_s = 0.0
        self.steps = 0
        self.lost_answers = shape.lost_call
        self._dice = self.dice("world")
        self._lives = 0

    def dice(self, name: str) -> Random:
        """A part's own dice: what one part draws changes nothing for the others."""
        return Random(f"{self._seed}/{name}")

    # ---- the ledger --------------------------------------------------------------------------------------------------

    def step(self, commands: Sequence[Command]) -> list[Outcome] | None:
        """One step; None while the store is away."""
        if trio.current_time() < self.store_up_s:
            return None
        outcomes = self.ledger.step(commands)
        self.record.stepped(commands, outcomes, self.ledger.state.last_us // 1_000)
        self.steps += 1
        if self.steps % FULL_CHECK_STEPS == 0:
            self.check_all()
        return outcomes

    def call(self, commands: Sequence[Command]) -> list[Outcome] | None:
        """A step through some replica; None when none is up."""
        up = [replica for replica in self.replicas if replica.up]
        outcomes = self.step(commands) if up else None
        if outcomes is not None and any(map(may_owe, outcomes)):
            self._dice.choice(up).poke()
        return outcomes

    def insist(self, commands: Sequence[Command]) -> None:
        """Tries until the step is done."""
        if self.call(commands) is None:
            self.timeline.after(0.5 + self._dice.random(), lambda: self.insist(commands))

    def tell_holder(self, key: QueueKey) -> None:
        """The pushed half of a pause."""
        state = self.ledger.state
        lease = state.leases.get(names.LeaseKey(*key, state.queues[key].token))
        if lease is not None:
            reason = SaidReason(int(EndReason.PAUSED))
            self.network.direct(lease.session, Directive(lease_name(lease.key), reason))

    # ---- parts that come and go --------------------------------------------------------------------------------------

    def broker_is_up(self) -> bool:
        return trio.current_time() >= self.broker_up_s

    def start_process(self, number: int) -> None:
        """A new life of this worker."""
        self._lives += 1
        process = SimProcess(number, f"w{number}-{self._lives}", self.dice(f"life {self._lives}"), self.freezer, self.timeline)
        app = make_app(process, self.record, self.shape, self.troubles.kill)
        process.build(app, self.core, self.broker_is_up, self.record, self.network, self.shape.slots)
        self.processes.append(process)
        process.start(self.nursery)

    def replace(self, process: SimProcess, after_s: float) -> None:
        """Another life begins, whatever becomes of this one."""
        self.timeline.after(after_s, lambda: self.start_process(process.number))
        self.nursery.start_soon(self._forget, process)

    async def _forget(self, process: SimProcess) -> None:
        await process.ended.wait()
        self.processes.remove(process)

    def start_replica(self) -> Replica:
        self._lives += 1
        dice = self.dice(f"life {self._lives}")
        replica = Replica(self.core, self.step, dice, self.broker_is_up, self.lost_answers)
        self.nursery.start_soon(replica.run)
        return replica

    def replace_replica(self, index: int, after_s: float) -> None:
        self.replicas[index].kill()

        def again() -> None:
            self.replicas[index].kill()
            self.replicas[index] = self.start_replica()

        self.timeline.after(after_s, again)

    # ---- a run -------------------------------------------------------------------------------------------------------

    async def set_up(self) -> None:
        """Topology, classes, tenants; one in ten promises no order."""
        replica = self.start_replica()
        self.replicas = [replica, *(self.start_replica() for _ in range(self.shape.replicas - 1))]
        await replica.broker.declare_topology(CLASSES)
        self.step([CreateClass(class_id, policy) for class_id, policy in BUILT_IN_CLASSES.items()])
        for rank, key in enumerate(self.keys):
            loose = rank % 10 == 9
            terms = SliceTerms(ordering=Ordering.NONE) if loose else SliceTerms()
            self.step([CreateTenant(key.tenant, TenantPolicy(CLASSES[rank % 3]))])
            self.step([UpdateQueue(key, QueuePolicy(terms=terms))])
            await replica.broker.declare_work_queue(key, QueueType.CLASSIC)
            self.record.queues[key] = QueueAccount(strict=not loose)
        for number in range(self.shape.workers):
            self.start_process(number)

    async def publish(self) -> None:
        """One publisher, until cancelled."""
        dice = self._dice
        while True:
            await trio.sleep(self.load.pause_s(PUBLISHERS))
            while not self.broker_is_up():  # noqa: ASYNC110  as clients do
                await trio.sleep(0.5 + dice.random())
            key = self.load.key()
            for _ in range(self.load.burst()):
                self._publish(key)
            if dice.random() >= self.shape.lost_touch:
                self._tell(key)

    def _publish(self, key: QueueKey) -> None:
        fate, name = self.load.fate(), f"m{len(self.record.flags)}"
        for _ in range(2 if self._dice.random() < self.shape.twice else 1):
            number, place = self.record.publishing(key)
            self.core.publish("", names.amqp_queue(key), Message(payload(number, place, fate, key), name))

    def _tell(self, key: QueueKey) -> None:
        if self._dice.random() < 0.5:
            self.insist([Touch(key)])
        else:
            body = f'{{"tenant": "{key.tenant}"}}'.encode()
            self.core.publish(names.ATTENTION_EXCHANGE, names.RAISED_KEY, Message(body))

    def calm(self) -> None:
        """Nothing goes wrong any more, but that bodies meet their fates."""
        self.network.calm()
        self.lost_answers = 0.0
        for replica in self.replicas:
            replica.ledger.lost = 0.0
        for key in self.keys:
            self.insist([Resume(key)])

    # ---- what must hold ----------------------------------------------------------------------------------------------

    def check_all(self) -> None:
        """From scratch: the ledger's own promises, and that the broker holds what was published and not acked."""
        self.record.check()
        found = faults(self.ledger.state, CONFIG)
        if found:
            raise BrokenPromiseError(f"at {trio.current_time():.6f} s: {'; '.join(found)}")
        held = sum(
            (self.core.ready_count(queue) or 0) + (self.core.unacked_count(queue) or 0)
            for queue in map(names.amqp_queue, self.keys)
        )
        if held != self.record.in_broker:
            raise BrokenPromiseError(f"the broker holds {held} messages, {self.record.in_broker} were published and not acked")

    def is_done(self) -> bool:
        """Whether everything is done and at rest."""
        state = self.ledger.state
        return (
            self.record.in_broker == 0
            and not state.leases
            and all(queue.state is QueueState.IDLE for queue in state.queues.values())
        )

    def rest(self) -> str:
        """What is not done, in short."""
        state = self.ledger.state
        queues = [f"{key.tenant} {queue.state.name}" for key, queue in state.queues.items() if queue.state is not QueueState.IDLE]
        return f"{self.record.in_broker} messages, {len(state.leases)} leases, {len(queues)} queues: {', '.join(queues[:10])}"

    def count_dead(self) -> int:
        """Marks and counts the dead letters. Each message was handled, or is one of them."""
        flags, dead = self.record.flags, 0
        for key in self.keys:
            queue = names.dead_queue(key.tenant)
            for message in self.core.peek(queue) if self.core.ready_count(queue) is not None else ():
                flags[number_of(message.body)] |= DEAD
                dead += 1
        lost = [number for number, flag in enumerate(flags) if not flag & ACKED or not flag & (FINISHED | DEAD)]
        if lost:
            raise BrokenPromiseError(f"{len(lost)} messages are lost, {lost[:10]} among them")
        return dead
