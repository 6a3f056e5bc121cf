"""The worker's view of the in-memory broker, under Trio.

May live here: `worker.ports.WorkerBroker` over the core. May not know: the control plane but for the names of exchanges.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

import trio

from slicelease.control_plane.domain import names
from slicelease.worker.ports import (
    BrokerLostError,
    DeadLetterError,
    QueueUnreadableError,
)
from slicelease.worker.ports import Delivery as WorkDelivery

from .asyncio_adapter import REASON_HEADER
from .channel import Channel, ClosedChannelError, Consumer, Delivery
from .core import Fate, MemoryBroker, UnknownQueueError
from .queue import Message
from .routing import UnknownExchangeError


class MemoryDelivery:
    """A message of work in hand."""

    __slots__ = ("body", "message_id", "properties", "redelivered", "tag")

    def __init__(self, delivery: Delivery) -> None:
        self.tag = delivery.tag
        self.body = delivery.message.body
        self.redelivered = delivery.redelivered
        self.properties = delivery.message
        self.message_id = delivery.message.message_id or _derived_id(delivery)


class MemoryWorkChannel:
    """A channel to take work with."""

    def __init__(self, core: MemoryBroker, channel: Channel) -> None:
        self._core = core
        self._channel = channel

    async def fetch(self, amqp_queue: str, most: int) -> Sequence[MemoryDelivery]:
        """Takes up to `most` messages; fewer mean that the queue was seen empty."""
        await trio.lowlevel.checkpoint()
        try:
            return [MemoryDelivery(delivery) for delivery in self._channel.fetch(amqp_queue, most)]
        except UnknownQueueError as missing:
            self._channel.close()  # as a broker does
            raise QueueUnreadableError(str(missing)) from missing
        except ClosedChannelError as closed:
            raise BrokerLostError(str(closed)) from closed

    def ack(self, delivery: WorkDelivery) -> None:
        """Settles a message that this channel fetched."""
        if not isinstance(delivery, MemoryDelivery):
            raise TypeError("this delivery came from another broker")
        try:
            self._channel.ack(delivery.tag)
        except ClosedChannelError as closed:
            raise BrokerLostError(str(closed)) from closed

    async def barrier(self, amqp_queue: str) -> None:
        """Acks are done when they are made, so only the queue is looked for."""
        await trio.lowlevel.checkpoint()
        if self._channel.closed:
            raise BrokerLostError("the channel is closed")
        if self._core.ready_count(amqp_queue) is None:
            self._channel.close()
            raise QueueUnreadableError(f"no queue {amqp_queue!r}")

    async def close(self) -> None:
        """Gives back everything unacked, in order."""
        self._channel.close()
        await trio.lowlevel.checkpoint()


class MemoryTicket:
    """A ticket in hand."""

    def __init__(self, core: MemoryBroker, channel: Channel, delivery: Delivery) -> None:
        self._core = core
        self._channel = channel
        self._delivery = delivery

    @property
    def body(self) -> bytes:
        """As announced."""
        return self._delivery.message.body

    def ack(self) -> None:
        """The ledger has answered."""
        try:
            self._channel.ack(self._delivery.tag)
        except ClosedChannelError as closed:
            raise BrokerLostError(str(closed)) from closed

    def nack(self) -> None:
        """Back to the attention queue."""
        try:
            self._channel.nack(self._delivery.tag)
        except ClosedChannelError as closed:
            raise BrokerLostError(str(closed)) from closed

    async def refuse(self, reason: str) -> None:
        """Moves it to the unsorted dead letters with the reason."""
        await trio.lowlevel.checkpoint()
        original = self._delivery.message
        copy = _copy(original, original.message_id, {REASON_HEADER: reason})
        _publish_dead(self._core, names.DEAD_UNSORTED_EXCHANGE, "", copy)
        self.ack()


class MemoryTicketStream:
    """Tickets of one class, as they are delivered."""

    def __init__(self, core: MemoryBroker, channel: Channel, queue: str, prefetch: int) -> None:
        self._core = core
        self._channel = channel
        self._token = trio.lowlevel.current_trio_token()
        self._waiting = trio.lowlevel.ParkingLot()
        self._stopped = False
        self._consumer: Consumer = channel.consume(queue, prefetch, self._notify)

    def __aiter__(self) -> AsyncIterator[MemoryTicket]:
        """Deliveries in order."""
        return self

    async def __anext__(self) -> MemoryTicket:
        """The next one; ends after `stop`."""
        await trio.lowlevel.checkpoint()
        while True:
            if self._stopped:
                raise StopAsyncIteration
            if (delivery := self._consumer.take()) is not None:
                return MemoryTicket(self._core, self._channel, delivery)
            self._check_alive()
            await self._waiting.park()

    async def stop(self) -> None:
        """No more deliveries. Tickets in hand stay in hand."""
        self._stopped = True
        self._channel.cancel(self._consumer)
        self._waiting.unpark_all()
        await trio.lowlevel.checkpoint()

    def _check_alive(self) -> None:
        if self._channel.closed:
            raise BrokerLostError("the channel is closed")
        if self._consumer.cancelled:
            raise QueueUnreadableError(f"queue {self._consumer.queue} was deleted")

    def _notify(self) -> None:
        with suppress(trio.RunFinishedError):  # nobody waits any more
            self._token.run_sync_soon(self._waiting.unpark_all, idempotent=True)


class TrioBroker:
    """One worker's connection to the broker, for one Trio run."""

    def __init__(self, core: MemoryBroker) -> None:
        self._core = core
        self._connected: trio.Event = trio.Event()
        self._channels: set[Channel] = set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Connected for as long as it runs; then everything in hand goes back."""
        self._connected.set()
        task_status.started()
        try:
            await trio.sleep_forever()
        finally:
            self._connected = trio.Event()
            for channel in self._channels:
                channel.close()
            self._channels.clear()

    def unready_reason(self) -> str | None:
        """Why the broker cannot be used now, or None."""
        return None if self._connected.is_set() else "the broker connection is not running"

    async def wait_connected(self) -> None:
        """Returns while there is a link."""
        await self._connected.wait()

    @asynccontextmanager
    async def consume_tickets(self, class_id: str, prefetch: int) -> AsyncIterator[MemoryTicketStream]:
        """Consumes `attention.<class>` for the time of the block."""
        channel = self._open_channel()
        try:
            yield self._begin(channel, names.attention_queue(class_id), prefetch)
        finally:
            channel.close()
            self._channels.discard(channel)

    async def open_work_channel(self) -> MemoryWorkChannel:
        """A channel to take work with."""
        await trio.lowlevel.checkpoint()
        self._channels = {channel for channel in self._channels if not channel.closed}
        return MemoryWorkChannel(self._core, self._open_channel())

    async def dead_letter(self, tenant: str, delivery: WorkDelivery, headers: Mapping[str, str]) -> None:
        """Puts a copy into `dead.<tenant>`, with `headers` added."""
        await trio.lowlevel.checkpoint()
        original = delivery.properties if isinstance(delivery, MemoryDelivery) else Message(delivery.body)
        queue = names.dead_queue(tenant)
        self._core.declare_queue(queue)
        copy = _copy(original, delivery.message_id, headers)
        try:
            self._core.bind(queue, names.DEAD_EXCHANGE, tenant)
        except UnknownExchangeError as missing:
            raise DeadLetterError(str(missing)) from missing
        _publish_dead(self._core, names.DEAD_EXCHANGE, tenant, copy)

    def _begin(self, channel: Channel, queue: str, prefetch: int) -> MemoryTicketStream:
        try:
            return MemoryTicketStream(self._core, channel, queue, prefetch)
        except UnknownQueueError as missing:
            raise QueueUnreadableError(str(missing)) from missing

    def _open_channel(self) -> Channel:
        if not self._connected.is_set():
            raise BrokerLostError("the broker connection is not running")
        channel = self._core.open_channel()
        self._channels.add(channel)
        return channel


def _copy(original: Message, message_id: str, headers: Mapping[str, str]) -> Message:
    return Message(
        original.body,
        message_id,
        original.correlation_id,
        original.content_type,
        original.type,
        {**original.headers, **headers},
    )


def _publish_dead(core: MemoryBroker, exchange: str, key: str, message: Message) -> None:
    try:
        fate = core.publish(exchange, key, message)
    except UnknownExchangeError as missing:
        raise DeadLetterError(str(missing)) from missing
    if fate is not Fate.ROUTED:
        raise DeadLetterError(f"exchange {exchange}: {fate.value}")


def _derived_id(delivery: Delivery) -> str:
    """The same at each delivery of the same message; two equal messages of one queue share it."""
    message = delivery.message
    parts = (delivery.queue, message.type, message.content_type, message.correlation_id, sorted(message.headers.items()))
    return hashlib.sha256(repr(parts).encode() + message.body).hexdigest()[:32]
