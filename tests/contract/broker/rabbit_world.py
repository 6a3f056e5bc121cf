"""The surroundings of the RabbitMQ adapter: a vhost of a private node and a client of its own."""

import contextlib
from collections.abc import AsyncIterator, Mapping

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

from slicelease.control_plane.broker import RabbitBroker
from slicelease.control_plane.domain import names
from slicelease.control_plane.ports import Broker
from tests.contract.broker.world import Seen


class RabbitWorld:
    """World on RabbitMQ."""

    def __init__(self, broker: Broker, channel: AbstractChannel) -> None:
        self.broker = broker
        self._channel = channel

    async def raise_attention(self, body: bytes, headers: Mapping[str, object] | None = None) -> bool:
        exchange = await self._channel.get_exchange(names.ATTENTION_EXCHANGE, ensure=False)
        message = aio_pika.Message(body, headers=dict(headers or {}), delivery_mode=2)  # type: ignore[arg-type]
        try:
            await exchange.publish(message, names.RAISED_KEY, mandatory=True)
        except aio_pika.exceptions.PublishError:
            return False
        return True

    async def drain(self, queue: str) -> list[Seen]:
        source = await self._channel.get_queue(queue, ensure=False)
        seen = []
        while message := await source.get(fail=False):
            await message.ack()
            seen.append(_seen(message))
        return seen

    async def declare_queue(self, name: str, arguments: Mapping[str, str | int]) -> None:
        await self._channel.declare_queue(name, durable=True, arguments=dict(arguments))

    async def delete_queue(self, name: str) -> None:
        queue = await self._channel.get_queue(name, ensure=False)
        await queue.delete(if_unused=False, if_empty=False)


@contextlib.asynccontextmanager
async def rabbit_world(amqp_url: str) -> AsyncIterator[RabbitWorld]:
    async with RabbitBroker(amqp_url) as broker, await aio_pika.connect(amqp_url) as connection:
        yield RabbitWorld(broker, await connection.channel(on_return_raises=True))


def _seen(message: AbstractIncomingMessage) -> Seen:
    return Seen(
        message.body,
        message.message_id or "",
        message.correlation_id or "",
        message.content_type or "",
        message.type or "",
        {name: value for name, value in message.headers.items() if name != "x-delivery-count"},  # a quorum queue's own
    )
