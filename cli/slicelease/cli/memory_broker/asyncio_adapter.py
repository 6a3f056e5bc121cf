"""The control plane's view of the in-memory broker, under asyncio.

May live here: `control_plane.ports.Broker` over the core. May not know: the worker. Calls do not wait for the core (its
lock is held for microseconds); only `take_raised` waits, for a message.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from dataclasses import replace

from slicelease.control_plane.domain import names
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.policy import QueueType
from slicelease.control_plane.ports import (
    BrokerUnavailableError,
    QueueArgumentsDifferError,
    QueueFullError,
    QueueGoneError,
    QueueNotEmptyError,
    RaisedAttention,
    WorkMessage,
)

from .channel import Channel, ClosedChannelError, Consumer, Delivery, UnknownTagError
from .core import ArgumentsDifferError, Fate, MemoryBroker, NotEmptyError, UnknownQueueError
from .queue import Message
from .routing import ExchangeKind, UnknownExchangeError

_RAISED_PREFETCH = 1_000
REASON_HEADER = "x-slicelease-reason"


class AsyncioBroker:
    """One control plane's connection to the broker, for one event loop."""

    def __init__(self, core: MemoryBroker) -> None:
        self._core = core
        self._intake: _Intake | None = None

    def unready_reason(self) -> str | None:
        """Never: it lives in this process."""
        return None

    def close(self) -> None:
        """Gives back raised attention in hand; harmless when done twice."""
        if self._intake is not None:
            self._intake.close()
            self._intake = None

    # ---- topology

    async def declare_topology(self, classes: Sequence[str]) -> None:
        """Declares exchanges and attention queues, where missing."""
        self._declare_fixed()
        for class_id in classes:
            self._declare_bound(names.attention_queue(class_id), names.ATTENTION_EXCHANGE, class_id)

    def _declare_fixed(self) -> None:
        core = self._core
        core.declare_exchange(names.ATTENTION_EXCHANGE, ExchangeKind.DIRECT)
        core.declare_exchange(names.DEAD_EXCHANGE, ExchangeKind.DIRECT, alternate=names.DEAD_UNSORTED_EXCHANGE)
        core.declare_exchange(names.DEAD_UNSORTED_EXCHANGE, ExchangeKind.FANOUT)
        self._declare_bound(names.DEAD_UNSORTED_QUEUE, names.DEAD_UNSORTED_EXCHANGE, "")
        self._declare_bound(names.RAISED_QUEUE, names.ATTENTION_EXCHANGE, names.RAISED_KEY)

    def _declare_bound(self, queue: str, exchange: str, key: str) -> None:
        # One that exists with other arguments is used as it is.
        with contextlib.suppress(ArgumentsDifferError):
            self._core.declare_queue(queue)
        self._core.bind(queue, exchange, key)

    async def declare_work_queue(self, key: QueueKey, queue_type: QueueType) -> None:
        """Declares the work queue with its dead-letter target. Raises QueueArgumentsDifferError."""
        arguments = {"x-dead-letter-exchange": names.DEAD_EXCHANGE, "x-dead-letter-routing-key": key.tenant}
        if queue_type is QueueType.QUORUM:
            arguments["x-queue-type"] = "quorum"
        try:
            self._core.declare_queue(names.amqp_queue(key), arguments)
        except ArgumentsDifferError as differs:
            raise QueueArgumentsDifferError(differs.queue, differs.argument) from None

    async def delete_work_queue(self, key: QueueKey, *, if_empty: bool) -> None:
        """Deletes the queue, if there is one. Raises QueueNotEmptyError with `if_empty`."""
        try:
            self._core.delete_queue(names.amqp_queue(key), if_empty=if_empty)
        except NotEmptyError as full:
            raise QueueNotEmptyError(full.queue, full.messages) from None

    async def message_counts(self, keys: Sequence[QueueKey]) -> dict[QueueKey, int | None]:
        """Messages ready in each queue; None where there is none of that name."""
        return {key: self._core.ready_count(names.amqp_queue(key)) for key in keys}

    async def attention_count(self, class_id: str) -> int | None:
        """Messages ready in `attention.<class>`; None where it is missing."""
        return self._core.ready_count(names.attention_queue(class_id))

    # ---- publishing

    async def announce(self, class_id: str, bodies: Sequence[bytes]) -> int:
        """Publishes tickets; the number of leading ones that reached the queue."""
        for done, body in enumerate(bodies):
            message = Message(body, content_type="application/json")
            if self._publish(names.ATTENTION_EXCHANGE, class_id, message) is not Fate.ROUTED:
                return done
        return len(bodies)

    async def publish_work(self, key: QueueKey, message: WorkMessage) -> None:
        """Publishes work. Raises QueueGoneError, QueueFullError."""
        queue = names.amqp_queue(key)
        stored = Message(
            message.payload,
            message.message_id,
            message.correlation_id,
            message.content_type,
            message.type,
            dict(message.headers),
        )
        fate = self._publish("", queue, stored)
        if fate is Fate.UNROUTABLE:
            raise QueueGoneError(queue)
        if fate is Fate.REFUSED:
            raise QueueFullError(queue)

    def _publish(self, exchange: str, routing_key: str, message: Message) -> Fate:
        try:
            return self._core.publish(exchange, routing_key, message)
        except UnknownExchangeError as missing:
            raise BrokerUnavailableError(f"the topology is incomplete: {missing}") from missing

    # ---- raised attention

    async def take_raised(self, limit: int) -> list[RaisedAttention]:
        """Waits for raised attention and returns what is there, 1 to `limit`."""
        while True:
            intake = self._consuming()
            if taken := intake.take(limit):
                return [RaisedAttention(delivery.message.body, (intake.channel, delivery)) for delivery in taken]
            await intake.wait()

    async def ack_raised(self, raised: Sequence[RaisedAttention]) -> None:
        """They are recorded."""
        for one in raised:
            channel, delivery = _in_hand(one)
            with contextlib.suppress(ClosedChannelError, UnknownTagError):
                channel.ack(delivery.tag)

    async def return_raised(self, raised: Sequence[RaisedAttention]) -> None:
        """They could not be recorded now: back to the queue."""
        for one in raised:
            channel, delivery = _in_hand(one)
            with contextlib.suppress(ClosedChannelError, UnknownTagError):
                channel.nack(delivery.tag)

    async def refuse_raised(self, raised: Sequence[RaisedAttention], reason: str) -> None:
        """Moves them to the unsorted dead letters with the reason."""
        self._declare_fixed()
        for one in raised:
            self._bury(one, reason)
            await self.ack_raised([one])

    def _bury(self, raised: RaisedAttention, reason: str) -> None:
        _, delivery = _in_hand(raised)
        headers = {**delivery.message.headers, REASON_HEADER: reason}
        if self._publish(names.DEAD_UNSORTED_EXCHANGE, "", replace(delivery.message, headers=headers)) is not Fate.ROUTED:
            raise BrokerUnavailableError("the unsorted dead letters cannot be reached")

    def _consuming(self) -> _Intake:
        """The consumer of `attention.work`, begun anew, with its queue, when that was deleted."""
        if self._intake is not None and self._intake.lost:
            self.close()
        if self._intake is None:
            self._declare_fixed()
            try:
                self._intake = _Intake(self._core)
            except UnknownQueueError as missing:
                raise BrokerUnavailableError(f"the topology is incomplete: {missing}") from missing
        return self._intake


class _Intake:
    """A consumer of raised attention that an event loop can wait for."""

    def __init__(self, core: MemoryBroker) -> None:
        self.channel = core.open_channel()
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._changed = asyncio.Event()
        self._consumer: Consumer = self.channel.consume(names.RAISED_QUEUE, _RAISED_PREFETCH, self._notify)

    @property
    def lost(self) -> bool:
        """Whether its queue was deleted, and nothing is left to take."""
        return self._consumer.cancelled and not self._consumer.inbox

    def take(self, limit: int) -> list[Delivery]:
        """What is there, at most `limit`."""
        self._changed.clear()
        count = min(limit, len(self._consumer.inbox))
        return [delivery for _ in range(count) if (delivery := self._consumer.take()) is not None]

    async def wait(self) -> None:
        """Returns when there may be more, or when it is lost."""
        if not self._consumer.cancelled:
            await self._changed.wait()

    def close(self) -> None:
        """Gives back what is in hand."""
        self.channel.close()

    def _notify(self) -> None:
        if threading.get_ident() == self._thread_id:
            self._changed.set()
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._changed.set)


def _in_hand(raised: RaisedAttention) -> tuple[Channel, Delivery]:
    match raised.handle:
        case (Channel() as channel, Delivery() as delivery):
            return channel, delivery
    raise TypeError("this raised attention came from another broker")
