"""One channel, without I/O: its states, its outstanding calls, the content that is just arriving.

May know frames and calls; knows no stream, no clock, no Trio. The connection hands it the frames of its number and it
appends bytes to the connection's output and events to the connection's list.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING

from pamqp import base, commands

from slicelease.worker.amqp import frames
from slicelease.worker.amqp.calls import Call, ConsumeCall, GetCall, PublishCall
from slicelease.worker.amqp.channel_phase import CHANNEL_TRANSITIONS, ChannelPhase, ChannelTrigger
from slicelease.worker.amqp.confirms import Confirms
from slicelease.worker.amqp.content import ContentAssembler
from slicelease.worker.amqp.errors import (
    COMMAND_INVALID,
    REPLY_SUCCESS,
    SYNTAX_ERROR,
    UNEXPECTED_FRAME,
    AmqpError,
    ProtocolViolation,
    channel_closed,
)
from slicelease.worker.amqp.events import ChannelGone, ConsumerGone
from slicelease.worker.amqp.incoming import decode_confirm, decode_deliver, decode_get_ok, decode_method, decode_return
from slicelease.worker.amqp.message import Message, Settles
from slicelease.worker.amqp.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slicelease.worker.amqp.connection import ConnectionState


_U32 = struct.Struct(">I")
_GET_REPLIES = (frames.BASIC_GET_OK, frames.BASIC_GET_EMPTY)


class ChannelState:
    """A channel of `connection`. `owner` is what its messages settle through."""

    def __init__(self, connection: ConnectionState, channel_id: int, owner: Settles | None) -> None:
        self.connection = connection
        self.channel_id = channel_id
        self.owner = owner
        self.phase = ChannelPhase.OPENING
        self.closed: AmqpError | None = None
        self.abandoned: list[Message] = []
        self.confirms = Confirms()
        self.confirming = False
        self.consumer_tags: set[str] = set()
        self._given_up_tags: set[str] = set()
        self._calls: deque[Call] = deque()
        self._content = ContentAssembler()
        self._tags_made = 0

    # ---- calls: each queues its bytes at once, whole -----------------------------------------------------------------

    def call(self, method: base.Frame, *replies: int) -> Call:
        """Send a synchronous method; the result is pamqp's reply. Raises what closed the channel."""
        self._usable()
        return self._expect(Call(self, replies), frames.method_frame(self.channel_id, method))

    def look(self, queue: str) -> Call:
        """A passive declare; the result is pamqp's reply. Raises like `call`."""
        self._usable()
        return self._expect(Call(self, (frames.QUEUE_DECLARE_OK,)), frames.look_frame(self.channel_id, queue))

    def get(self, queue: str, count: int) -> GetCall:
        """`count` basic.gets in a row."""
        self._usable()
        if count < 0:
            raise ValueError(f"cannot get {count} messages")
        wire = frames.get_frame(self.channel_id, queue) * count
        call = GetCall(self, _GET_REPLIES, count)
        if count == 0:
            call.done = True
            return call
        self._calls.append(call)
        self.connection.send(wire, count)
        return call

    def consume(self, queue: str, tag: str | None, exclusive: bool, arguments: Mapping[str, Value] | None) -> ConsumeCall:
        """Start a consumer; without a tag it gets one of ours."""
        self._usable()
        self._tags_made += 1
        tag = tag or f"c{self.channel_id}.{self._tags_made}"
        if tag in self.consumer_tags:
            raise ValueError(f"consumer tag {tag!r} is in use on this channel")
        method = commands.Basic.Consume(queue=queue, consumer_tag=tag, exclusive=exclusive, arguments=frames.arguments(arguments))
        wire = frames.method_frame(self.channel_id, method)
        self.consumer_tags.add(tag)
        call = ConsumeCall(self, (frames.BASIC_CONSUME_OK,), tag)
        self._expect(call, wire)
        return call

    def cancel_consumer(self, tag: str) -> Call:
        """End a consumer; its deliveries on the way still arrive before the answer."""
        return self.call(commands.Basic.Cancel(consumer_tag=tag), frames.BASIC_CANCEL_OK)

    def give_up_consumer(self, tag: str) -> None:
        """End a consumer that nobody listens to; what it still delivers is requeued at once."""
        if tag in self.consumer_tags and self.phase in (ChannelPhase.OPENING, ChannelPhase.OPEN):
            self._given_up_tags.add(tag)
            self.cancel_consumer(tag).abandoned = True

    def select_confirms(self, nowait: bool) -> Call | None:
        """Turn publisher confirms on. With `nowait` there is nothing to wait for."""
        self._usable()
        self.confirming = True
        method = commands.Confirm.Select(nowait=nowait)
        if not nowait:
            return self.call(method, commands.Confirm.SelectOk.index)
        self.connection.send(frames.method_frame(self.channel_id, method), 1)
        return None

    def publish(
        self, exchange: str, routing_key: str, body: bytes, properties: bytes, mandatory: bool, confirm: bool
    ) -> PublishCall | None:
        """Send a message; the call is done when the broker confirms it (None on a channel without confirms)."""
        self._usable()
        wire, count = frames.publish_frames(
            self.channel_id, exchange, routing_key, mandatory, properties, body, self.connection.frame_max
        )
        if confirm and not self.confirming:
            self.select_confirms(nowait=True)
        self.connection.send(wire, count)
        if not self.confirming:
            return None
        call = PublishCall(self, self.confirms.next_sequence(), exchange, routing_key, properties, body)
        self.confirms.add(call, mandatory)
        call.abandoned = not confirm
        return call

    def ack(self, delivery_tag: int, multiple: bool) -> None:
        """Queue a basic.ack."""
        if self.closed is not None:
            raise self.closed.fresh()
        self.connection.send(frames.ack_frame(self.channel_id, delivery_tag, multiple), 1)

    def nack(self, delivery_tag: int, multiple: bool, requeue: bool) -> None:
        """Queue a basic.nack."""
        self._usable()
        self.connection.send(frames.nack_frame(self.channel_id, delivery_tag, multiple, requeue), 1)

    def reject(self, delivery_tag: int, requeue: bool) -> None:
        """Queue a basic.reject."""
        self._usable()
        self.connection.send(frames.reject_frame(self.channel_id, delivery_tag, requeue), 1)

    def close(self) -> Call:
        """Send channel.close. Other calls of the channel end now; its unacked messages go back to their queues."""
        self._usable()
        self._end(channel_closed(REPLY_SUCCESS, "closed by this client", (0, 0)), ChannelTrigger.CLOSE_SENT)
        method = commands.Channel.Close(reply_code=REPLY_SUCCESS, reply_text="done", class_id=0, method_id=0)
        return self._expect(Call(self, (frames.CHANNEL_CLOSE_OK,)), frames.method_frame(self.channel_id, method))

    def abandon(self, call: Call) -> None:
        """The caller went away. The call keeps its place; what it would have brought is not lost.

        Messages of a get are kept in `abandoned` (unacked; closing the channel returns them in order, which a nack does
        not do on every queue type). A consumer is cancelled and what it delivers is requeued; a channel is closed.
        """
        call.abandoned = True
        if isinstance(call, GetCall):
            self.abandoned += call.messages
        elif isinstance(call, ConsumeCall):
            self.give_up_consumer(call.consumer_tag)
        elif frames.CHANNEL_OPEN_OK in call.replies and self.closed is None:
            self.close().abandoned = True

    # ---- frames in ---------------------------------------------------------------------------------------------------

    def receive_method(self, buffer: bytes, start: int, stop: int) -> None:
        """A method frame's payload is buffer[start:stop]."""
        if stop - start < 4:
            raise ProtocolViolation(SYNTAX_ERROR, "a method frame without a method")
        method = _U32.unpack_from(buffer, start)[0]
        if self.phase is ChannelPhase.CLOSING and method not in (frames.CHANNEL_CLOSE, frames.CHANNEL_CLOSE_OK):
            return
        if self._content.awaited is not None:
            raise ProtocolViolation(UNEXPECTED_FRAME, "a method came before the content of the last one was whole")
        if method == frames.BASIC_GET_OK:
            self._receive_get_ok(buffer, start, stop)
        elif method == frames.BASIC_DELIVER:
            self._receive_deliver(buffer, start, stop)
        elif method == frames.BASIC_ACK or method == frames.BASIC_NACK:
            self._receive_confirm(method, buffer, start, stop)
        else:
            self._receive_rare(buffer[start:stop])

    def receive_header(self, buffer: bytes, start: int, stop: int) -> None:
        """A content header frame's payload is buffer[start:stop]."""
        if self.phase is not ChannelPhase.CLOSING:
            body = self._content.header(buffer, start, stop)
            if body is not None:
                self._content_whole(body)

    def receive_body(self, piece: bytes) -> None:
        """A body frame's payload."""
        if self.phase is not ChannelPhase.CLOSING:
            body = self._content.body(piece)
            if body is not None:
                self._content_whole(body)

    def connection_gone(self, error: AmqpError) -> None:
        """The connection ended; so does everything here."""
        if self.phase is not ChannelPhase.CLOSED:
            self._end(error, ChannelTrigger.CONNECTION_GONE)

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _usable(self) -> None:
        if self.closed is not None:
            raise self.closed.fresh()

    def _expect(self, call: Call, wire: bytes) -> Call:
        self._calls.append(call)
        self.connection.send(wire, 1)
        return call

    def _move(self, trigger: ChannelTrigger) -> None:
        following = CHANNEL_TRANSITIONS[self.phase].get(trigger)
        if following is None:
            raise ProtocolViolation(COMMAND_INVALID, f"{trigger.value} on a channel that is {self.phase.value}")
        self.phase = following

    def _receive_get_ok(self, buffer: bytes, start: int, stop: int) -> None:
        if not self._calls or not isinstance(self._calls[0], GetCall):
            raise ProtocolViolation(COMMAND_INVALID, "basic.get-ok, but no basic.get is next in line")
        self._content.awaited = decode_get_ok(buffer, start, stop, self.owner)

    def _receive_deliver(self, buffer: bytes, start: int, stop: int) -> None:
        message = decode_deliver(buffer, start, stop, self.owner)
        if message.consumer_tag not in self.consumer_tags:
            raise ProtocolViolation(COMMAND_INVALID, "basic.deliver for a consumer that does not exist")
        self._content.awaited = message

    def _receive_confirm(self, method: int, buffer: bytes, start: int, stop: int) -> None:
        tag, multiple = decode_confirm(buffer, start, stop)
        for call in self.confirms.settle(tag, multiple=multiple, refused=method == frames.BASIC_NACK):
            if not call.abandoned:
                self.connection.events.append(call)

    def _receive_rare(self, payload: bytes) -> None:
        number, method = decode_method(payload)
        if number == frames.BASIC_GET_EMPTY:
            self._got_nothing()
        elif isinstance(method, commands.Channel.Close):
            self._receive_close(method)
        elif isinstance(method, commands.Basic.Cancel):
            self._receive_cancel(method)
        elif isinstance(method, commands.Basic.Return):
            self._content.awaited = decode_return(method)
        else:
            self._receive_reply(number, method)

    def _receive_reply(self, number: int, method: base.Frame) -> None:
        if not self._calls or number not in self._calls[0].replies:
            raise ProtocolViolation(COMMAND_INVALID, f"{method.name}, which answers nothing that was asked")
        if number == frames.CHANNEL_OPEN_OK:
            self._move(ChannelTrigger.OPEN_OK)
        elif number == frames.CHANNEL_CLOSE_OK:
            self._move(ChannelTrigger.CLOSE_OK)
            self.connection.forget(self)
        elif isinstance(method, commands.Basic.CancelOk):
            self._forget_consumer(method.consumer_tag or "")
        self._done(self._calls.popleft(), method)

    def _done(self, call: Call, result: object) -> None:
        call.done, call.result = True, result
        if not call.abandoned:
            self.connection.events.append(call)

    def _got_nothing(self) -> None:
        call = self._calls[0] if self._calls else None
        if not isinstance(call, GetCall):
            raise ProtocolViolation(COMMAND_INVALID, "basic.get-empty, but no basic.get is next in line")
        self._got_one(call)

    def _got_one(self, call: GetCall) -> None:
        call.remaining -= 1
        if call.remaining == 0:
            self._calls.popleft()
            self._done(call, None)

    def _content_whole(self, body: bytes) -> None:
        content, self._content.awaited = self._content.awaited, None
        if isinstance(content, Message):
            content.body = body
            content.encoded_properties = self._content.properties
            self._hand_over(content)
        elif content is not None:
            self.confirms.give_back(content, self._content.properties, body)

    def _hand_over(self, message: Message) -> None:
        if message.consumer_tag is None:
            call = self._calls[0]
            assert isinstance(call, GetCall)  # noqa: S101  seen when the get-ok came; nothing answers in between
            (self.abandoned if call.abandoned else call.messages).append(message)
            self._got_one(call)
        elif message.consumer_tag in self._given_up_tags:
            self.nack(message.delivery_tag, multiple=False, requeue=True)
        else:
            self.connection.events.append(message)

    def _receive_cancel(self, method: commands.Basic.Cancel) -> None:
        if method.consumer_tag in self.consumer_tags:
            self._forget_consumer(method.consumer_tag)
            self.connection.events.append(ConsumerGone(self, method.consumer_tag))
        if not method.nowait:
            reply = commands.Basic.CancelOk(consumer_tag=method.consumer_tag)
            self.connection.send(frames.method_frame(self.channel_id, reply), 1)

    def _forget_consumer(self, tag: str) -> None:
        self.consumer_tags.discard(tag)
        self._given_up_tags.discard(tag)

    def _receive_close(self, method: commands.Channel.Close) -> None:
        self.connection.send(frames.method_frame(self.channel_id, commands.Channel.CloseOk()), 1)
        if self.phase is ChannelPhase.CLOSING:
            self._move(ChannelTrigger.CLOSE_RECEIVED)
            return
        error = channel_closed(method.reply_code or 0, method.reply_text or "", (method.class_id or 0, method.method_id or 0))
        self._end(error, ChannelTrigger.CLOSE_RECEIVED)
        self.connection.forget(self)

    def _end(self, error: AmqpError, trigger: ChannelTrigger) -> None:
        """Close for `error`: every waiting call ends with it."""
        self._move(trigger)
        if self.closed is None:
            self.closed = error
            self.connection.events.append(ChannelGone(self, error))
        waiting = [*self._calls, *self.confirms.take_all()]
        self._calls.clear()
        self.abandoned.clear()
        self._content.clear()
        for call in waiting:
            call.done, call.error = True, error
            if not call.abandoned:
                self.connection.events.append(call)
