"""RabbitMQ as ports.Broker: two connections, and what each method does on them.

May live here: the port's methods, put together from the other files; the life of the background tasks. The consuming
connection never publishes, so a memory alarm, which stops the reading of those that do, leaves acks and declares alone.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Sequence
from types import TracebackType
from typing import Any, Self

import structlog
from aiormq import spec

from slicelease.control_plane.domain import names
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.policy import QueueType
from slicelease.control_plane.ports import BrokerUnavailableError, QueueFullError, QueueGoneError, RaisedAttention, WorkMessage

from .channels import ChannelPool
from .confirms import PERSISTENT, Publisher, check_headers
from .errors import BrokerCall
from .link import Link, amqp_url
from .message_counts import message_count, message_counts
from .raised import RaisedConsumer, delivery_of
from .refusals import refused_properties
from .topology import declare_topology
from .work_queues import WorkQueues

_log = structlog.get_logger(__name__)

_WORK_LANES = 4
_PROBE_PERIOD_S = 2.0


class RabbitBroker:
    """ports.Broker on RabbitMQ; an asynchronous context manager, which starts whether or not the broker is there.

    `heartbeat_s` is asked of the broker; `timeout_s` bounds each call. `name` is what operators see at the broker.
    """

    def __init__(self, url: str, *, heartbeat_s: int = 5, timeout_s: float = 5.0, name: str = "slicelease control plane") -> None:
        self._timeout_s = timeout_s
        dice = random.SystemRandom().random
        self._publishing = Link(amqp_url(url, heartbeat_s=heartbeat_s, name=f"{name}: publishing"), dice)
        self._consuming = Link(amqp_url(url, heartbeat_s=heartbeat_s, name=f"{name}: consuming"), dice)
        # Apart from each other, for a missing exchange ends the channel and all that is in flight on it.
        self._work = Publisher(self._publishing, timeout_s=timeout_s, lanes=_WORK_LANES)
        self._tickets = Publisher(self._publishing, timeout_s=timeout_s, lanes=1)
        self._dead = Publisher(self._publishing, timeout_s=timeout_s, lanes=1)
        self._channels = ChannelPool(self._consuming)
        self._queues = WorkQueues(self._consuming, self._channels, timeout_s=timeout_s)
        self._raised = RaisedConsumer(self._consuming, lambda: self.declare_topology(()), dice, timeout_s=timeout_s)
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        runs = (self._publishing.run(), self._consuming.run(), self._raised.run(), self._probe())
        self._tasks = [asyncio.create_task(_reported(run)) for run in runs]
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    def unready_reason(self) -> str | None:
        """Why the broker cannot be used now, or None."""
        return self._publishing.unready_reason() or self._consuming.unready_reason() or self._raised.unready_reason()

    async def declare_topology(self, classes: Sequence[str]) -> None:
        """See the port."""
        await declare_topology(self._channels, classes, self._timeout_s)

    async def announce(self, class_id: str, bodies: Sequence[bytes]) -> int:
        """See the port."""
        sends = (self._announce_one(class_id, body) for body in bodies)
        fates = await asyncio.gather(*sends, return_exceptions=True)
        for sure, fate in enumerate(fates):
            if isinstance(fate, (QueueGoneError, QueueFullError)) or (fate is not None and sure > 0):
                return sure
            if fate is not None:
                raise fate
        return len(bodies)

    async def _announce_one(self, class_id: str, body: bytes) -> None:
        properties = spec.Basic.Properties(content_type="application/json", delivery_mode=PERSISTENT)
        await self._tickets.publish(names.ATTENTION_EXCHANGE, class_id, body, properties)

    async def declare_work_queue(self, key: QueueKey, queue_type: QueueType) -> None:
        """See the port."""
        await self._queues.declare(key, queue_type)

    async def publish_work(self, key: QueueKey, message: WorkMessage) -> None:
        """See the port. Raises ValueError for headers CC and BCC, and for more than 64 KiB of headers."""
        check_headers(dict(message.headers))
        try:
            await self._work.publish("", names.amqp_queue(key), message.payload, _work_properties(message))
        except QueueGoneError:
            self._queues.forget(key)
            raise

    async def message_counts(self, keys: Sequence[QueueKey]) -> dict[QueueKey, int | None]:
        """See the port."""
        with BrokerCall("count messages"):
            async with asyncio.timeout(self._timeout_s):
                counts = await message_counts(self._channels, [names.amqp_queue(key) for key in keys])
        for key, count in zip(keys, counts, strict=True):
            if count is None:
                self._queues.forget(key)
        return dict(zip(keys, counts, strict=True))

    async def attention_count(self, class_id: str) -> int | None:
        """See the port."""
        with BrokerCall("count messages"):
            async with asyncio.timeout(self._timeout_s):
                return await message_count(self._channels, names.attention_queue(class_id))

    async def delete_work_queue(self, key: QueueKey, *, if_empty: bool) -> None:
        """See the port."""
        await self._queues.delete(key, if_empty=if_empty)

    async def take_raised(self, limit: int) -> list[RaisedAttention]:
        """See the port. Without a subscription for the time of a call it raises BrokerUnavailableError."""
        return await self._raised.take(limit)

    async def ack_raised(self, raised: Sequence[RaisedAttention]) -> None:
        """See the port."""
        await self._raised.ack(raised)

    async def return_raised(self, raised: Sequence[RaisedAttention]) -> None:
        """See the port."""
        await self._raised.give_back(raised)

    async def refuse_raised(self, raised: Sequence[RaisedAttention], reason: str) -> None:
        """See the port."""
        fates = await self._bury_all(raised, reason)
        if homeless := [each for each, fate in zip(raised, fates, strict=True) if isinstance(fate, QueueGoneError)]:
            await self.declare_topology(())
            fates = [fate for fate in fates if not isinstance(fate, QueueGoneError)]
            fates += await self._bury_all(homeless, reason)
        for fate in fates:
            if fate is not None:
                raise fate

    async def _bury_all(self, raised: Sequence[RaisedAttention], reason: str) -> list[BaseException | None]:
        """Moves each and acks those that were moved; what became of each."""
        fates = await asyncio.gather(*(self._bury(each, reason) for each in raised), return_exceptions=True)
        await self._raised.ack([each for each, fate in zip(raised, fates, strict=True) if fate is None])
        return fates

    async def _bury(self, raised: RaisedAttention, reason: str) -> None:
        # Not through the dead exchange: there every routing key may be some tenant's id.
        properties = refused_properties(delivery_of(raised).properties, reason)
        await self._dead.publish(names.DEAD_UNSORTED_EXCHANGE, names.RAISED_QUEUE, raised.body, properties)

    async def _probe(self) -> None:
        """Publishes nothing to nowhere every two seconds, so that a memory alarm is known before a publisher meets it."""
        while True:
            await asyncio.sleep(_PROBE_PERIOD_S)
            try:
                await self._work.probe()
            except BrokerUnavailableError as error:
                _log.debug("the probe failed", reason=str(error))


def _work_properties(message: WorkMessage) -> spec.Basic.Properties:
    return spec.Basic.Properties(
        content_type=message.content_type or None,
        headers=dict(message.headers),
        delivery_mode=PERSISTENT,
        correlation_id=message.correlation_id or None,
        message_id=message.message_id,
        message_type=message.type or None,
    )


async def _reported(run: Coroutine[Any, Any, None]) -> None:
    try:
        await run
    except Exception:
        _log.exception("a background task of the broker's adapter ended")
        raise
