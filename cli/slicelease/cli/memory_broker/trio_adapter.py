"""The worker's view of the in-memory broker, under Trio.

May live here: `worker.ports.WorkerBroker` over the core. May not know: the control plane but for the names of exchanges.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import trio

from slicelease.control_plane.domain import names
from slicelease.worker.ports import (
    BrokerLostError,
    DeadLetterError,
    QueueUnreadableError,
)
from slicelease.worker.ports import Delivery as WorkDelivery

from .channel import Channel, ClosedChannelError, Delivery
from .core import MemoryBroker, UnknownQueueError
from .queue import Message
from .routing import UnknownExchangeError
from .trio_dead_letters import dead_copy, publish_dead
from .trio_tickets import MemoryTicketStream


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

    @property
    def is_open(self) -> bool:
        """Whether it was not closed, by either side."""
        return not self._channel.closed

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
        copy = dead_copy(original, delivery.message_id, headers)
        try:
            self._core.bind(queue, names.DEAD_EXCHANGE, tenant)
        except UnknownExchangeError as missing:
            raise DeadLetterError(str(missing)) from missing
        publish_dead(self._core, names.DEAD_EXCHANGE, tenant, copy)

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


def _derived_id(delivery: Delivery) -> str:
    """The same at each delivery of the same message; two equal messages of one queue share it."""
    message = delivery.message
    parts = (delivery.queue, message.type, message.content_type, message.correlation_id, sorted(message.headers.items()))
    return hashlib.sha256(repr(parts).encode() + message.body).hexdigest()[:32]
