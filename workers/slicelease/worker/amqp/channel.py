"""A channel for Trio tasks: the calls of `ChannelState`, awaited.

May know the connection that carries it; decides nothing about the protocol. What cancellation promises: a call that was
cancelled before it was sent was never sent; one cancelled later runs on without its caller, and its answer is swallowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import trio
from pamqp import commands

from slicelease.worker.amqp.calls import GetCall
from slicelease.worker.amqp.consumer import Consumer
from slicelease.worker.amqp.errors import AmqpError
from slicelease.worker.amqp.message import Message
from slicelease.worker.amqp.properties import NO_PROPERTIES, Properties, encode_properties
from slicelease.worker.amqp.topology import Topology
from slicelease.worker.amqp.values import Value

if TYPE_CHECKING:
    from slicelease.worker.amqp.transport import Connection


class Fetch:
    """Pipelined basic.gets under way. `messages` are those that came so far, in order; nothing is lost by not waiting."""

    __slots__ = ("_call", "_channel")

    def __init__(self, channel: Channel, call: GetCall) -> None:
        self._channel, self._call = channel, call

    @property
    def messages(self) -> list[Message]:
        """What came so far."""
        return self._call.messages

    @property
    def done(self) -> bool:
        """Whether each get has its answer, or the channel is gone."""
        return self._call.done

    async def wait(self) -> list[Message]:
        """Wait for all answers. Cancelled, it may be called again; one task at a time. Raises what closed the channel."""
        await self._channel.connection.wait_call(self._call, abandon=False)
        return self._call.messages


class Channel(Topology):
    """One channel of a connection. Every method raises ChannelClosed or ConnectionLost once it is gone.

    Methods without `async` queue their bytes and return; the connection's writer sends all that is queued at once.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.state, self.opening = connection.state.open_channel(self)
        self.consumers: dict[str, Consumer] = {}

    def __repr__(self) -> str:
        return f"<Channel {self.state.channel_id}, {self.state.phase.value}>"

    @property
    def closed(self) -> AmqpError | None:
        """Why the channel can no longer be used; None while it can."""
        return self.state.closed

    @property
    def abandoned(self) -> tuple[Message, ...]:
        """Messages that came for a get whose caller was cancelled: unacked, nobody's.

        Closing the channel returns them, in order. On a channel that lives on, see `requeue_abandoned`.
        """
        return tuple(self.state.abandoned)

    def requeue_abandoned(self) -> int:
        """Give the abandoned messages back by basic.nack; how many. A quorum queue may put them at its tail."""
        messages, self.state.abandoned = self.state.abandoned, []
        for message in messages:
            self.nack(message.delivery_tag)
        return len(messages)

    # ---- taking messages ---------------------------------------------------------------------------------------------

    async def qos(self, prefetch_count: int) -> None:
        """How many unacked messages each consumer started from now on may hold; 0 is no limit."""
        await self.call(commands.Basic.Qos(prefetch_count=prefetch_count), commands.Basic.QosOk)

    async def get(self, queue: str) -> Message | None:
        """One message, or None when the queue has none ready. Raises QueueMissing."""
        messages = await self.get_many(queue, 1)
        return messages[0] if messages else None

    async def get_many(self, queue: str, count: int) -> list[Message]:
        """At most `count` messages by as many basic.gets in one write, in order. Raises QueueMissing.

        Cancelled, what came or still comes is kept in `abandoned`.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        call = self.state.get(queue, count)
        self.connection.wake_writer()
        await self.connection.wait_call(call)
        return call.messages

    def get_many_nowait(self, queue: str, count: int) -> Fetch:
        """Send `count` basic.gets and go on; several fetches may be under way."""
        fetch = Fetch(self, self.state.get(queue, count))
        self.connection.wake_writer()
        return fetch

    async def consume(
        self,
        queue: str,
        *,
        consumer_tag: str | None = None,
        exclusive: bool = False,
        arguments: Mapping[str, Value] | None = None,
    ) -> Consumer:
        """Start a consumer. Raises QueueMissing, ResourceLocked, AccessRefused.

        Cancelled, the consumer is cancelled too and what it was sent is requeued.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        call = self.state.consume(queue, consumer_tag, exclusive, arguments)
        consumer = self.consumers[call.consumer_tag] = Consumer(self, call.consumer_tag)
        self.connection.wake_writer()
        try:
            await self.connection.wait_call(call)
        except BaseException:
            self.consumers.pop(call.consumer_tag, None)
            raise
        return consumer

    async def cancel_consumer(self, consumer_tag: str) -> None:
        """Stop a consumer; see `Consumer.cancel`. Cancelled half-way, what it is still sent is requeued."""
        await trio.lowlevel.checkpoint_if_cancelled()
        call = self.state.cancel_consumer(consumer_tag)
        self.connection.wake_writer()
        try:
            await self.connection.wait_call(call)
        finally:
            self.end_consumer(consumer_tag, None)

    def ack(self, delivery_tag: int, multiple: bool = False) -> None:
        """Queue a basic.ack; with `multiple` for all up to this tag."""
        self.state.ack(delivery_tag, multiple)
        self.connection.wake_writer()

    def nack(self, delivery_tag: int, *, multiple: bool = False, requeue: bool = True) -> None:
        """Queue a basic.nack; without `requeue` the message is dead-lettered or dropped."""
        self.state.nack(delivery_tag, multiple, requeue)
        self.connection.wake_writer()

    def reject(self, delivery_tag: int, *, requeue: bool = False) -> None:
        """Queue a basic.reject."""
        self.state.reject(delivery_tag, requeue)
        self.connection.wake_writer()

    # ---- publishing --------------------------------------------------------------------------------------------------

    async def confirm_select(self) -> None:
        """Turn publisher confirms on and wait for the answer. `publish` does it by itself, without waiting."""
        await trio.lowlevel.checkpoint_if_cancelled()
        call = self.state.select_confirms(nowait=False)
        self.connection.wake_writer()
        if call is not None:
            await self.connection.wait_call(call)

    async def publish(
        self,
        exchange: str,
        routing_key: str,
        body: bytes,
        properties: Properties | bytes = NO_PROPERTIES,
        *,
        mandatory: bool = True,
        confirm: bool = True,
    ) -> None:
        """Publish and wait for the broker's confirm. Any number of tasks may publish on one channel at once.

        `properties` as bytes are sent as they are (`Message.encoded_properties`). While the connection is blocked, waits
        before anything is sent. Raises Unroutable (returned, so in no queue), PublishRefused (basic.nack),
        ExchangeMissing; ValueError for what cannot be sent. Cancelled after it was sent, or with the channel lost, nobody
        knows whether the broker has it: publish again under the same message id. Without `confirm` nothing is promised,
        and `mandatory` must be off, for there is nobody to tell.
        """
        if mandatory and not confirm:
            raise ValueError("a mandatory publish needs its confirm: pass mandatory=False with confirm=False")
        encoded = properties if isinstance(properties, bytes) else encode_properties(properties)
        await self.connection.wait_room()
        call = self.state.publish(exchange, routing_key, body, encoded, mandatory, confirm)
        self.connection.wake_writer()
        if confirm and call is not None:
            await self.connection.wait_call(call)

    # ---- the end -----------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Close and wait for close-ok: what the channel acked is acked, and its unacked messages are on their way back.

        Other calls of the channel end with ChannelClosed (code 200). Raises what closed the channel before.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        call = self.state.close()
        self.connection.wake_writer()
        self.connection.dispatch()
        await self.connection.wait_call(call)

    def close_nowait(self) -> None:
        """Queue the close and go on; for clean-up that must not wait. Nothing when the channel is closed already."""
        if self.state.closed is None:
            self.state.close().abandoned = True
            self.connection.wake_writer()
            self.connection.dispatch()

    # ---- for the connection ------------------------------------------------------------------------------------------

    def deliver(self, message: Message) -> None:
        """A delivery for a consumer; requeued when nobody listens to it any more."""
        consumer = self.consumers.get(message.consumer_tag or "")
        if consumer is not None:
            consumer.deliver(message)
        elif self.state.closed is None:
            self.nack(message.delivery_tag)

    def end_consumer(self, consumer_tag: str, error: AmqpError | None) -> None:
        """No more deliveries for a consumer."""
        consumer = self.consumers.pop(consumer_tag, None)
        if consumer is not None:
            consumer.end(error)

    def end_consumers(self, error: AmqpError) -> None:
        """The channel is gone."""
        for consumer_tag in list(self.consumers):
            self.end_consumer(consumer_tag, error)
