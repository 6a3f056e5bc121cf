"""The consumer of raised attention, `attention.work`.

May live here: subscribing again whenever the subscription ends, deliveries in hand, acks. May not know: what a body
means. A delivery is answered on the channel that brought it, or not at all: then the broker delivers it again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from aio_pika.exceptions import ChannelInvalidStateError
from aiormq import spec
from aiormq.abc import AbstractChannel, AbstractConnection, DeliveredMessage
from aiormq.channel import Channel

from slicelease.control_plane.domain import names
from slicelease.control_plane.ports import BrokerUnavailableError, RaisedAttention

from .backoff import Backoff
from .channels import close_channel
from .errors import BrokerCall
from .link import Link, open_channel

_log = structlog.get_logger(__name__)

_PREFETCH = 1_000
_BACKOFF_BASE_S = 0.1
_BACKOFF_CAP_S = 5.0


@dataclass(slots=True, eq=False)
class Delivery:
    """Where a raised attention came from, and its properties. A second answer to one tag would cost the channel."""

    channel: AbstractChannel
    tag: int
    properties: spec.Basic.Properties
    answered: bool = False


class RaisedConsumer:
    """Keeps one consumer on `attention.work` while `run` runs. `declare` makes the queue when it is missing."""

    def __init__(
        self, link: Link, declare: Callable[[], Awaitable[None]], random: Callable[[], float], *, timeout_s: float
    ) -> None:
        self._link = link
        self._declare = declare
        self._backoff = Backoff(_BACKOFF_BASE_S, _BACKOFF_CAP_S, random)
        self._timeout_s = timeout_s
        self._waiting: deque[RaisedAttention] = deque()
        self._arrived = asyncio.Event()
        self._subscribed = False

    def unready_reason(self) -> str | None:
        """Why raised attention does not arrive now, or None."""
        return None if self._subscribed else f"{names.RAISED_QUEUE} is not consumed yet"

    async def run(self) -> None:
        """Subscribes, waits for the end of the subscription, and so on until cancelled."""
        while True:
            try:
                with BrokerCall("subscribe"):
                    await self._subscription(await self._link.connection())
            except BrokerUnavailableError as error:
                _log.warning("raised attention is not consumed", reason=str(error))
            await asyncio.sleep(self._backoff.next_s())

    async def take(self, limit: int) -> list[RaisedAttention]:
        """Waits for raised attention, 1 to `limit`; raises BrokerUnavailableError after `timeout_s` unsubscribed."""
        while not self._waiting:
            try:
                async with asyncio.timeout(self._timeout_s):
                    await self._arrived.wait()
            except TimeoutError:
                if not self._subscribed:
                    raise BrokerUnavailableError(self._link.unready_reason() or str(self.unready_reason())) from None
        taken = [self._waiting.popleft() for _ in range(min(limit, len(self._waiting)))]
        self._note_waiting()
        return taken

    async def ack(self, raised: Sequence[RaisedAttention]) -> None:
        """Acks those whose channel lives."""
        await self._answer(raised, lambda channel, tag: channel.basic_ack(tag, wait=False))

    async def give_back(self, raised: Sequence[RaisedAttention]) -> None:
        """Requeues those whose channel lives."""
        await self._answer(raised, lambda channel, tag: channel.basic_nack(tag, requeue=True, wait=False))

    async def _answer(self, raised: Sequence[RaisedAttention], send: Callable[[AbstractChannel, int], Awaitable[object]]) -> None:
        with BrokerCall("take an answer"):
            async with asyncio.timeout(self._timeout_s):
                for delivery in map(delivery_of, raised):
                    if delivery.answered or delivery.channel.is_closed:
                        continue  # of a dead channel: the broker delivers it again
                    delivery.answered = True
                    with contextlib.suppress(ChannelInvalidStateError):
                        await send(delivery.channel, delivery.tag)

    async def _subscription(self, connection: AbstractConnection) -> None:
        async with asyncio.timeout(self._timeout_s):
            channel = await open_channel(connection, confirms=False)
        try:
            cancelled = asyncio.Event()
            channel.on_consumer_cancel_callbacks.add(lambda _: cancelled.set())
            async with asyncio.timeout(self._timeout_s):
                await self._consume(channel)
            await _first(channel.closing, asyncio.ensure_future(cancelled.wait()))
            _log.warning("the subscription ended; subscribing again", queue=names.RAISED_QUEUE)
        finally:
            self._subscribed = False
            if channel.is_closed:
                self._waiting.clear()  # the broker delivers them again; those of a deleted queue it does not
                self._note_waiting()
            await close_channel(channel)

    async def _consume(self, channel: Channel) -> None:
        await self._declare()
        await channel.basic_qos(prefetch_count=_PREFETCH)
        await channel.basic_consume(names.RAISED_QUEUE, self._arrive)
        self._subscribed = True
        self._backoff.reset()

    async def _arrive(self, message: DeliveredMessage) -> None:
        delivery = Delivery(message.channel, message.delivery_tag or 0, message.header.properties)
        self._waiting.append(RaisedAttention(message.body, delivery))
        self._note_waiting()

    def _note_waiting(self) -> None:
        if self._waiting:
            self._arrived.set()
        else:
            self._arrived.clear()


async def _first(*futures: asyncio.Future[Any]) -> None:
    try:
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for future in futures:
            future.cancel()


def delivery_of(raised: RaisedAttention) -> Delivery:
    """The adapter's own part of a raised attention."""
    if not isinstance(raised.handle, Delivery):
        raise TypeError("this attention came from another broker")
    return raised.handle
