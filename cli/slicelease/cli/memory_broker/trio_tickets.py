"""Tickets of the in-memory broker, under Trio.

May live here: `worker.ports.TicketStream` over the core. May not know: work queues.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

import trio

from slicelease.control_plane.domain import names
from slicelease.worker.ports import BrokerLostError, QueueUnreadableError

from .asyncio_adapter import REASON_HEADER
from .channel import Channel, ClosedChannelError, Consumer, Delivery
from .core import MemoryBroker
from .trio_dead_letters import dead_copy, publish_dead


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
        copy = dead_copy(original, original.message_id, {REASON_HEADER: reason})
        publish_dead(self._core, names.DEAD_UNSORTED_EXCHANGE, "", copy)
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
