"""Outstanding calls: one object for each request that waits for an answer of the broker.

No I/O. A call is queued on its channel when its bytes are queued, takes its place in the order of answers, and keeps it
when its caller goes away: an **abandoned** call still swallows its own answer, so the next call never sees it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slicelease.worker.amqp.errors import AmqpError

if TYPE_CHECKING:
    from slicelease.worker.amqp.channel_state import ChannelState
    from slicelease.worker.amqp.message import Message


class Call:
    """A request and, once `done`, its `result` (pamqp's reply) or its `error`.

    `replies` are the methods that may answer it. `waiter` belongs to whoever drives the connection.
    """

    __slots__ = ("abandoned", "channel", "done", "error", "replies", "result", "waiter")

    def __init__(self, channel: ChannelState, replies: tuple[int, ...]) -> None:
        self.channel = channel
        self.replies = replies
        self.result: Any = None
        self.error: AmqpError | None = None
        self.done = False
        self.abandoned = False
        self.waiter: Any = None


class GetCall(Call):
    """`remaining` pipelined basic.gets of one queue; `messages` are those that came, in order."""

    __slots__ = ("messages", "remaining")

    def __init__(self, channel: ChannelState, replies: tuple[int, ...], count: int) -> None:
        super().__init__(channel, replies)
        self.remaining = count
        self.messages: list[Message] = []


class ConsumeCall(Call):
    """A basic.consume for `consumer_tag`."""

    __slots__ = ("consumer_tag",)

    def __init__(self, channel: ChannelState, replies: tuple[int, ...], consumer_tag: str) -> None:
        super().__init__(channel, replies)
        self.consumer_tag = consumer_tag


class PublishCall(Call):
    """A publish that the broker will confirm. What it carried is kept to recognise it when it is returned."""

    __slots__ = ("body", "exchange", "properties", "returned", "routing_key", "sequence")

    def __init__(
        self, channel: ChannelState, sequence: int, exchange: str, routing_key: str, properties: bytes, body: bytes
    ) -> None:
        super().__init__(channel, ())
        self.sequence = sequence
        self.exchange = exchange
        self.routing_key = routing_key
        self.properties = properties
        self.body = body
        self.returned: AmqpError | None = None
