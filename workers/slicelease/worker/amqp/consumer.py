"""A consumer: deliveries as an async iterator with a clear end.

May know its channel; decides nothing about the protocol.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Self

import trio

from slicelease.worker.amqp.errors import AmqpError, ConsumerCancelled
from slicelease.worker.amqp.message import Message

if TYPE_CHECKING:
    from slicelease.worker.amqp.channel import Channel


class Consumer:
    """Iterate over it for messages; ack each, or the prefetch fills up.

    The iteration ends by itself after `cancel()`, once what had been delivered is taken. It raises ConsumerCancelled
    likewise when the broker ended the consumer (its queue was deleted), and ChannelClosed or ConnectionLost at once when
    those ended: what was delivered but not taken has gone back to the queue.
    """

    def __init__(self, channel: Channel, consumer_tag: str) -> None:
        self.channel = channel
        self.consumer_tag = consumer_tag
        self._messages: deque[Message] = deque()
        self._ended = False
        self._error: AmqpError | None = None
        self._waiting: trio.lowlevel.ParkingLot = trio.lowlevel.ParkingLot()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        await trio.lowlevel.checkpoint()
        while not self._messages:
            if self._error is not None:
                raise self._error.fresh()
            if self._ended:
                raise StopAsyncIteration
            await self._waiting.park()
        return self._messages.popleft()

    def receive_nowait(self) -> Message:
        """A message that is already here. Raises trio.WouldBlock when there is none."""
        if not self._messages:
            raise trio.WouldBlock
        return self._messages.popleft()

    @property
    def ended(self) -> AmqpError | None:
        """What ended the consumer, if it was not `cancel()`."""
        return self._error

    async def cancel(self) -> None:
        """Stop: returns after the broker's answer, when all that will be delivered has been. Raises like a call."""
        if not self._ended:
            await self.channel.cancel_consumer(self.consumer_tag)

    # ---- for the channel ---------------------------------------------------------------------------------------------

    def deliver(self, message: Message) -> None:
        """A delivery came."""
        self._messages.append(message)
        if self._waiting:
            self._waiting.unpark()

    def end(self, error: AmqpError | None) -> None:
        """No more will come: `error` is None after cancel."""
        if self._ended:
            return
        self._ended, self._error = True, error
        if error is not None and not isinstance(error, ConsumerCancelled):
            self._messages.clear()
        self._waiting.unpark_all()
