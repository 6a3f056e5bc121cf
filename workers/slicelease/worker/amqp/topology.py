"""Queues, exchanges and bindings: the calls of a channel that change what the broker has.

May know the connection that carries them; decides nothing about the protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

import trio
from pamqp import base, commands

from slicelease.worker.amqp import frames
from slicelease.worker.amqp.channel_state import ChannelState
from slicelease.worker.amqp.values import Value

if TYPE_CHECKING:
    from slicelease.worker.amqp.transport import Connection

_Reply = TypeVar("_Reply", bound=base.Frame)


class QueueInfo(NamedTuple):
    """What queue.declare-ok says. `message_count` leaves out what is delivered and unacked."""

    name: str
    message_count: int
    consumer_count: int


class Topology:
    """The half of `Channel` that declares, binds, deletes and purges; cancelled half-way, nobody knows if it was done."""

    connection: Connection
    state: ChannelState

    async def declare_queue(
        self,
        name: str,
        *,
        durable: bool = True,
        arguments: Mapping[str, Value] | None = None,
        passive: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
    ) -> QueueInfo:
        """Declare, or with `passive` only look. Raises QueueMissing, PreconditionFailed, ResourceLocked, AccessRefused."""
        method = commands.Queue.Declare(
            queue=name,
            durable=durable,
            arguments=frames.arguments(arguments),
            passive=passive,
            exclusive=exclusive,
            auto_delete=auto_delete,
        )
        reply = await self.call(method, commands.Queue.DeclareOk)
        return QueueInfo(reply.queue or "", reply.message_count or 0, reply.consumer_count or 0)

    async def look_at_queue(self, name: str) -> QueueInfo:
        """`declare_queue` with `passive`, for those who look often. Raises QueueMissing, ResourceLocked, AccessRefused."""
        await trio.lowlevel.checkpoint_if_cancelled()
        call = self.state.look(name)
        self.connection.wake_writer()
        await self.connection.wait_call(call)
        reply: commands.Queue.DeclareOk = call.result
        return QueueInfo(reply.queue or "", reply.message_count or 0, reply.consumer_count or 0)

    async def declare_exchange(
        self,
        name: str,
        kind: str = "direct",
        *,
        durable: bool = True,
        arguments: Mapping[str, Value] | None = None,
        passive: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
    ) -> None:
        """Declare, or with `passive` only look. Raises ExchangeMissing, PreconditionFailed, AccessRefused."""
        method = commands.Exchange.Declare(
            exchange=name,
            exchange_type=kind,
            durable=durable,
            arguments=frames.arguments(arguments),
            passive=passive,
            auto_delete=auto_delete,
            internal=internal,
        )
        await self.call(method, commands.Exchange.DeclareOk)

    async def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        """Delete an exchange; one that does not exist is no error to RabbitMQ."""
        await self.call(commands.Exchange.Delete(exchange=name, if_unused=if_unused), commands.Exchange.DeleteOk)

    async def bind_queue(
        self, queue: str, exchange: str, routing_key: str = "", *, arguments: Mapping[str, Value] | None = None
    ) -> None:
        """Bind. Raises QueueMissing or ExchangeMissing."""
        method = commands.Queue.Bind(
            queue=queue, exchange=exchange, routing_key=routing_key, arguments=frames.arguments(arguments)
        )
        await self.call(method, commands.Queue.BindOk)

    async def unbind_queue(
        self, queue: str, exchange: str, routing_key: str = "", *, arguments: Mapping[str, Value] | None = None
    ) -> None:
        """Unbind; a binding that does not exist is no error to RabbitMQ."""
        method = commands.Queue.Unbind(
            queue=queue, exchange=exchange, routing_key=routing_key, arguments=frames.arguments(arguments)
        )
        await self.call(method, commands.Queue.UnbindOk)

    async def delete_queue(self, name: str, *, if_empty: bool = False, if_unused: bool = False) -> int:
        """Delete; how many messages went with it. Raises PreconditionFailed when not empty or in use, as asked."""
        method = commands.Queue.Delete(queue=name, if_empty=if_empty, if_unused=if_unused)
        return (await self.call(method, commands.Queue.DeleteOk)).message_count or 0

    async def purge_queue(self, name: str) -> int:
        """Drop what is ready in the queue; how many. Raises QueueMissing."""
        return (await self.call(commands.Queue.Purge(queue=name), commands.Queue.PurgeOk)).message_count or 0

    async def call(self, method: base.Frame, reply: type[_Reply]) -> _Reply:
        """Send and await; the result is the `reply`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        call = self.state.call(method, reply.index)
        self.connection.wake_writer()
        await self.connection.wait_call(call)
        return cast("_Reply", call.result)
