"""The broker's port over AMQP: two links, one to take work and tickets with, one to publish dead letters.

May know the AMQP client and the ports. May not know leases or slices. Under a memory alarm the broker does not read from
connections that have published, not even their acks: so nothing is ever published on the link that takes.
"""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Self

import structlog
import trio

from . import amqp
from .amqp_dead_letters import DeadLetters
from .amqp_link import AmqpLink
from .ports import (
    BrokerLostError,
    Delivery,
    MalformedMessageError,
    QueueUnreadableError,
)

_log = structlog.get_logger(__name__)

_CLOSE_WITHIN_S = 1.0


@contextmanager
def _translated() -> Iterator[None]:
    """The AMQP client's errors as the port's."""
    try:
        yield
    except amqp.ChannelClosed as error:
        raise QueueUnreadableError(str(error)) from error
    except amqp.AmqpError as error:
        raise BrokerLostError(str(error)) from error


def derived_id(amqp_queue: str, encoded_properties: bytes, body: bytes) -> str:
    """An id for a message without one: the same at each delivery; equal messages of one queue share it."""
    digest = hashlib.sha256()
    for part in (amqp_queue.encode(), encoded_properties, body):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return f"derived-{digest.hexdigest()[:32]}"


class AmqpDelivery:
    """A fetched message."""

    __slots__ = ("_id", "_queue", "body", "message", "redelivered")

    def __init__(self, message: amqp.Message, amqp_queue: str) -> None:
        self.message = message
        self.body = message.body
        self.redelivered = message.redelivered
        self._queue = amqp_queue
        self._id = ""

    @property
    def properties(self) -> amqp.Properties:
        """Raises MalformedMessageError."""
        try:
            return self.message.properties
        except amqp.MalformedMessage as error:
            raise MalformedMessageError(str(error)) from None

    @property
    def message_id(self) -> str:
        """The publisher's, or one derived."""
        if not self._id:
            self._id = self._published_id() or derived_id(self._queue, self.message.encoded_properties, self.body)
        return self._id

    def _published_id(self) -> str | None:
        try:
            published = self.message.properties.message_id
        except amqp.MalformedMessage:
            return None
        # Bytes that are not UTF-8 are read as escapes, which may be longer than any id can be on the wire.
        return published if published is not None and len(published.encode()) <= 255 else None


class AmqpWorkChannel:
    """The means of one slot to take work."""

    def __init__(self, channel: amqp.Channel) -> None:
        self._channel = channel

    @property
    def is_open(self) -> bool:
        """Whether neither the channel nor its connection has ended."""
        return self._channel.closed is None and self._channel.connection.closed is None

    async def fetch(self, amqp_queue: str, most: int) -> Sequence[AmqpDelivery]:
        """`most` basic.gets in one write."""
        with _translated():
            messages = await self._channel.get_many(amqp_queue, most)
        return [AmqpDelivery(message, amqp_queue) for message in messages]

    def ack(self, delivery: Delivery) -> None:
        """Queues a basic.ack."""
        assert isinstance(delivery, AmqpDelivery)  # noqa: S101  this channel fetched it
        try:
            self._channel.ack(delivery.message.delivery_tag)
        except amqp.ChannelClosed as error:
            raise QueueUnreadableError(str(error)) from error
        except amqp.AmqpError as error:
            raise BrokerLostError(str(error)) from error

    async def barrier(self, amqp_queue: str) -> None:
        """A passive declare: its answer comes from the queue, behind the acks that went before."""
        with _translated():
            await self._channel.look_at_queue(amqp_queue)

    async def close(self) -> None:
        """channel.close and its answer."""
        with _translated():
            await self._channel.close()


class AmqpTicket:
    """A ticket in hand."""

    def __init__(self, message: amqp.Message, refuse: Callable[[amqp.Message, str], Awaitable[None]]) -> None:
        self._message = message
        self._refuse = refuse

    @property
    def body(self) -> bytes:
        """As announced."""
        return self._message.body

    def ack(self) -> None:
        """Queues a basic.ack."""
        with _lost_either_way():
            self._message.ack()

    def nack(self) -> None:
        """Queues a basic.nack with requeue, which no delivery limit counts (a reject would)."""
        with _lost_either_way():
            self._message.nack()

    async def refuse(self, reason: str) -> None:
        """A confirmed copy in the unsorted dead letters, then an ack."""
        await self._refuse(self._message, reason)
        self.ack()


@contextmanager
def _lost_either_way() -> Iterator[None]:
    try:
        yield
    except amqp.AmqpError as error:
        raise BrokerLostError(str(error)) from error


class AmqpTicketStream:
    """Tickets of one class."""

    def __init__(self, consumer: amqp.Consumer, refuse: Callable[[amqp.Message, str], Awaitable[None]]) -> None:
        self._consumer = consumer
        self._refuse = refuse

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AmqpTicket:
        """The next one."""
        try:
            return AmqpTicket(await anext(self._consumer), self._refuse)
        except (amqp.ChannelClosed, amqp.ConsumerCancelled) as error:
            raise QueueUnreadableError(str(error)) from error
        except amqp.AmqpError as error:
            raise BrokerLostError(str(error)) from error

    async def stop(self) -> None:
        """Cancels the consumer; its channel stays."""
        with _translated():
            await self._consumer.cancel()


class AmqpBroker:
    """Implements `ports.WorkerBroker` on RabbitMQ. `random_number` gives numbers in [0, 1), for jitter.

    `on_connected` is told the purpose of each connection that was opened: "take" or "publish".
    """

    def __init__(
        self,
        where: amqp.ConnectionParameters,
        *,
        heartbeat_s: int,
        name: str,
        random_number: Callable[[], float],
        ssl_context: ssl.SSLContext | None = None,
        on_connected: Callable[[str], None] = lambda _: None,
    ) -> None:
        def link(purpose: str) -> AmqpLink:
            return AmqpLink(
                lambda: amqp.open_connection(where, heartbeat_s=heartbeat_s, name=f"{name} {purpose}", ssl_context=ssl_context),
                random_number,
                f"{where.address}, to {purpose}",
                lambda: on_connected(purpose),
            )

        self._taking = link("take")
        self._publishing = link("publish")
        self._dead = DeadLetters(self._publishing)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """See `ports.WorkerBroker.run`. Raises amqp.LoginRefused for a login refused at the start."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._taking.run)
            nursery.start_soon(self._publishing.run)
            task_status.started()

    def unready_reason(self) -> str | None:
        """See `ports.WorkerBroker.unready_reason`."""
        return self._taking.unready_reason()

    def statistics(self) -> amqp.ConnectionStatistics:
        """Counters of the connection that takes. Raises BrokerLostError while there is none."""
        return self._taking.connection().statistics()

    async def wait_connected(self) -> None:
        """See `ports.WorkerBroker.wait_connected`."""
        await self._taking.wait_connected()

    @asynccontextmanager
    async def consume_tickets(self, class_id: str, prefetch: int) -> AsyncIterator[AmqpTicketStream]:
        """See `ports.WorkerBroker.consume_tickets`."""
        with _translated():
            channel = self._taking.connection().open_channel_nowait()
            try:
                await channel.qos(prefetch)
                consumer = await channel.consume(f"attention.{class_id}")
                yield AmqpTicketStream(consumer, self._dead.refuse)
            finally:
                await _close_quietly(channel)

    async def open_work_channel(self) -> AmqpWorkChannel:
        """Usable at once: its first call follows its channel.open in the same write."""
        with _translated():
            return AmqpWorkChannel(self._taking.connection().open_channel_nowait())

    async def dead_letter(self, tenant: str, delivery: Delivery, headers: Mapping[str, str]) -> None:
        """See `ports.WorkerBroker.dead_letter`."""
        assert isinstance(delivery, AmqpDelivery)  # noqa: S101  this broker fetched it
        await self._dead.put(tenant, delivery.message, delivery.message_id, headers)


async def _close_quietly(channel: amqp.Channel) -> None:
    """Gives back what is in hand; when the broker does not answer, it does so with the connection."""
    if channel.closed is not None:
        return
    with trio.move_on_after(_CLOSE_WITHIN_S, shield=True):
        try:
            await channel.close()
        except amqp.AmqpError as error:
            _log.debug("channel ended before it was closed", why=str(error))
