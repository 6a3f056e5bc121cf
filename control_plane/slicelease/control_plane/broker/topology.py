"""The fixed exchanges and queues, and how an existing one with other arguments is treated.

May live here: names, arguments and bindings. May not know: messages. Everything is durable. Attention queues are
classic and have no delivery limit: a ticket may come back any number of times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog
from aio_pika.exceptions import ChannelPreconditionFailed
from aiormq.channel import Channel
from pamqp.common import FieldTable

from slicelease.control_plane.domain import names

from .channels import ChannelPool
from .errors import BrokerCall, differing_argument

_log = structlog.get_logger(__name__)

# Said although it is the default: a virtual host may have another default, and a quorum queue of RabbitMQ 4 has a limit.
_CLASSIC: FieldTable = {"x-queue-type": "classic"}

Step = Callable[[Channel], Awaitable[object]]


async def declare_topology(channels: ChannelPool, classes: Sequence[str], timeout_s: float) -> None:
    """Declares what is missing of the fixed part and of the classes' attention queues; raises BrokerUnavailableError."""
    with BrokerCall("declare exchanges and queues"):
        async with asyncio.timeout(timeout_s):
            await _declare_exchange(channels, names.DEAD_UNSORTED_EXCHANGE, "fanout", {})
            await _declare_exchange(channels, names.DEAD_EXCHANGE, "direct", {"alternate-exchange": names.DEAD_UNSORTED_EXCHANGE})
            await _declare_exchange(channels, names.ATTENTION_EXCHANGE, "direct", {})
            await _declare_queue(channels, names.DEAD_UNSORTED_QUEUE, names.DEAD_UNSORTED_EXCHANGE, "")
            await _declare_queue(channels, names.RAISED_QUEUE, names.ATTENTION_EXCHANGE, names.RAISED_KEY)
            for class_id in classes:
                await _declare_queue(channels, names.attention_queue(class_id), names.ATTENTION_EXCHANGE, class_id)


async def _declare_exchange(channels: ChannelPool, name: str, kind: str, arguments: FieldTable) -> None:
    await _declare_or_adopt(
        channels,
        name,
        lambda channel: channel.exchange_declare(name, exchange_type=kind, durable=True, arguments=arguments),
        lambda channel: channel.exchange_declare(name, passive=True),
    )


async def _declare_queue(channels: ChannelPool, name: str, exchange: str, routing_key: str) -> None:
    await _declare_or_adopt(
        channels,
        name,
        lambda channel: channel.queue_declare(name, durable=True, arguments=_CLASSIC),
        lambda channel: channel.queue_declare(name, passive=True),
    )
    async with channels.lent() as channel:
        await channel.queue_bind(name, exchange, routing_key)


async def _declare_or_adopt(channels: ChannelPool, name: str, declare: Step, look: Step) -> None:
    try:
        async with channels.lent() as channel:
            await declare(channel)
    except ChannelPreconditionFailed as error:
        async with channels.lent() as channel:
            await look(channel)
        _log.warning("exists at RabbitMQ with other arguments; used as it is", name=name, argument=differing_argument(error))
