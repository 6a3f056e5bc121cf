"""The ledger and the broker as the other parts use them: the same ports, timed, and listened to.

May live here: timing, and who must hear of an outcome. May not know: Redis, AMQP.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

from slicelease.control_plane.domain.commands import Command
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.outcomes import (
    ClassView,
    Expired,
    GivenBack,
    Outcome,
    QueueState,
    QueueView,
    Settled,
    TenantView,
    Touched,
    Woken,
)
from slicelease.control_plane.domain.policy import QueueType
from slicelease.control_plane.metrics import Metrics
from slicelease.control_plane.ports import Broker, Ledger, RaisedAttention, WorkMessage


def may_owe(outcome: Outcome) -> bool:
    """Whether the step may have owed an announcement: some queue came to compete, or more of them may be granted."""
    match outcome:
        case Touched():
            return not outcome.coalesced
        case Settled():
            return outcome.next is None and outcome.state is QueueState.READY
        case Woken():
            return outcome.queues > 0
        case Expired():
            return bool(outcome.leases)
        case GivenBack():
            return outcome.ended
        case QueueView() | TenantView() | ClassView():  # also of mere reading, which is rare
            return True
        case _:
            return False


class ObservedLedger:
    """ports.Ledger over another: each call is timed, and `owed` is called when an announcement may be due."""

    def __init__(self, inner: Ledger, metrics: Metrics, owed: Callable[[], None]) -> None:
        self._inner = inner
        self._metrics = metrics
        self._owed = owed

    async def execute(self, commands: Sequence[Command]) -> list[Outcome]:
        """See the port."""
        begin, result = perf_counter(), "unavailable"
        try:
            outcomes = await self._inner.execute(commands)
            result = "ok"
        finally:
            self._metrics.ledger_called(perf_counter() - begin, len(commands), result)
        if any(map(may_owe, outcomes)):
            self._owed()
        return outcomes


class ObservedBroker:
    """ports.Broker over another: each call but the waiting for raised attention is timed."""

    def __init__(self, inner: Broker, metrics: Metrics) -> None:
        self._inner = inner
        self._timed = metrics.broker_call

    def unready_reason(self) -> str | None:
        """See the port."""
        return self._inner.unready_reason()

    async def declare_topology(self, classes: Sequence[str]) -> None:
        """See the port."""
        with self._timed("declare_topology"):
            await self._inner.declare_topology(classes)

    async def announce(self, class_id: str, bodies: Sequence[bytes]) -> int:
        """See the port."""
        with self._timed("announce"):
            return await self._inner.announce(class_id, bodies)

    async def declare_work_queue(self, key: QueueKey, queue_type: QueueType) -> None:
        """See the port."""
        with self._timed("declare_work_queue"):
            await self._inner.declare_work_queue(key, queue_type)

    async def publish_work(self, key: QueueKey, message: WorkMessage) -> None:
        """See the port."""
        with self._timed("publish_work"):
            await self._inner.publish_work(key, message)

    async def message_counts(self, keys: Sequence[QueueKey]) -> dict[QueueKey, int | None]:
        """See the port."""
        with self._timed("message_counts"):
            return await self._inner.message_counts(keys)

    async def attention_count(self, class_id: str) -> int | None:
        """See the port."""
        with self._timed("attention_count"):
            return await self._inner.attention_count(class_id)

    async def delete_work_queue(self, key: QueueKey, *, if_empty: bool) -> None:
        """See the port."""
        with self._timed("delete_work_queue"):
            await self._inner.delete_work_queue(key, if_empty=if_empty)

    async def take_raised(self, limit: int) -> list[RaisedAttention]:
        """See the port."""
        return await self._inner.take_raised(limit)

    async def ack_raised(self, raised: Sequence[RaisedAttention]) -> None:
        """See the port."""
        with self._timed("ack_raised"):
            await self._inner.ack_raised(raised)

    async def return_raised(self, raised: Sequence[RaisedAttention]) -> None:
        """See the port."""
        with self._timed("return_raised"):
            await self._inner.return_raised(raised)

    async def refuse_raised(self, raised: Sequence[RaisedAttention], reason: str) -> None:
        """See the port."""
        with self._timed("refuse_raised"):
            await self._inner.refuse_raised(raised, reason)
