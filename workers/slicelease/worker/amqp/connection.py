"""The AMQP 0-9-1 connection without I/O: bytes in, events out; calls in, bytes out.

May know the codec (pamqp and `frames.py`) and channels; knows no stream, no Trio, no clock. Drive it like this: `start()`,
then send `data_to_send()` whenever there is some, hand what arrives to `receive_data()`, and read `take_events()` after
each step. Every fault of the peer closes the connection with the code that AMQP has for it, ends each waiting call with
one error, and is the last event.
"""

from __future__ import annotations

import struct
from collections import deque

from pamqp import base, commands

from slicelease.worker.amqp import frames
from slicelease.worker.amqp.calls import Call
from slicelease.worker.amqp.channel_state import ChannelState
from slicelease.worker.amqp.connection_phase import OPENING, TRANSITIONS, Phase, Trigger
from slicelease.worker.amqp.errors import (
    CHANNEL_ERROR,
    COMMAND_INVALID,
    FRAME_ERROR,
    REPLY_SUCCESS,
    SYNTAX_ERROR,
    UNEXPECTED_FRAME,
    AmqpError,
    ConnectionClosed,
    ConnectionLost,
    ProtocolViolation,
    TooManyChannels,
    connection_closed,
)
from slicelease.worker.amqp.events import Blocked, ConnectionGone, Event, Opened, Unblocked
from slicelease.worker.amqp.handshake import Handshake, agree, start_ok
from slicelease.worker.amqp.incoming import DECODE_ERRORS, decode_method
from slicelease.worker.amqp.message import Settles

_ENVELOPE = struct.Struct(">BHI")
_FRAME_TYPES = frozenset((frames.METHOD, frames.HEADER, frames.BODY, frames.HEARTBEAT))


class ConnectionState:
    """One connection; `events` and `send` are for its channels."""

    def __init__(self, handshake: Handshake) -> None:
        self._handshake = handshake
        self.phase = Phase.NEW
        self.frame_max = handshake.frame_max
        self.channel_max = handshake.channel_max
        self.heartbeat_s = 0
        self.server_properties: dict[str, object] = {}
        self.closed: AmqpError | None = None
        self.events: list[Event] = []
        self.frames_sent_total = 0
        self.frames_received_total = 0
        self.bytes_queued = 0
        self._out: list[bytes] = []
        self._rest = b""
        self._channels: dict[int, ChannelState] = {}
        self._free_ids: deque[int] = deque()
        self._ids_made = 0

    # ---- bytes and events out ----------------------------------------------------------------------------------------

    def send(self, wire: bytes, frame_count: int) -> None:
        """Queue whole frames."""
        self._out.append(wire)
        self.bytes_queued += len(wire)
        self.frames_sent_total += frame_count

    def data_to_send(self) -> bytes:
        """Everything that is queued, in one piece; empty when nothing is."""
        data, self._out, self.bytes_queued = b"".join(self._out), [], 0
        return data

    def take_events(self) -> list[Event]:
        """What happened since the last call, in order."""
        events, self.events = self.events, []
        return events

    # ---- calls in ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Queue the protocol header."""
        self._move(Trigger.HEADER_SENT)
        self.send(frames.PROTOCOL_HEADER, 0)

    def open_channel(self, owner: Settles | None = None) -> tuple[ChannelState, Call]:
        """A channel and the call that opens it; it may be used at once, behind its channel.open.

        Raises TooManyChannels, or what closed the connection.
        """
        if self.closed is not None:
            raise self.closed.fresh()
        channel_id = self._free_id()
        channel = ChannelState(self, channel_id, owner)
        self._channels[channel_id] = channel
        return channel, channel.call(commands.Channel.Open(), frames.CHANNEL_OPEN_OK)

    def heartbeat(self) -> None:
        """Queue a heartbeat."""
        self.send(frames.HEARTBEAT_FRAME, 1)

    def close(self) -> None:
        """Close in good order; the last event comes with the broker's answer. Waiting calls end now."""
        if self.phase is not Phase.OPEN:
            self.lost(ConnectionClosed(REPLY_SUCCESS, "closed by this client", by_broker=False))
            return
        self._move(Trigger.CLOSE_SENT)
        self._send_close(REPLY_SUCCESS, "done")
        self.closed = ConnectionClosed(REPLY_SUCCESS, "closed by this client", by_broker=False)
        self._end_channels(self.closed)

    def lost(self, error: AmqpError) -> None:
        """The stream broke (or was given up) for `error`."""
        if self.phase is not Phase.CLOSED:
            self._end(error, Trigger.LOST)

    def forget(self, channel: ChannelState) -> None:
        """A channel is closed on both sides: its number is free."""
        if self._channels.pop(channel.channel_id, None) is not None:
            self._free_ids.append(channel.channel_id)

    # ---- bytes in ----------------------------------------------------------------------------------------------------

    def receive_data(self, data: bytes) -> None:
        """Take what the stream brought, however it was cut. An empty `data` is the end of the stream."""
        if self.phase is Phase.CLOSED:
            return
        if not data:
            self.lost(ConnectionLost("the broker closed the stream without a word" + self._torn_note()))
            return
        try:
            self._receive_frames(self._rest + data if self._rest else data)
        except ProtocolViolation as violation:
            self._violated(violation)
        except DECODE_ERRORS:
            self._violated(ProtocolViolation(SYNTAX_ERROR, "a frame cannot be decoded"))

    def _receive_frames(self, buffer: bytes) -> None:
        offset, end, channels = 0, len(buffer), self._channels
        while end - offset >= 7:
            kind, channel_id, size = _ENVELOPE.unpack_from(buffer, offset)
            start = offset + 7
            stop = start + size
            if stop >= end or kind == frames.HEARTBEAT or stop - offset >= self.frame_max:
                self._check_envelope(buffer, offset, kind, size)
                if stop >= end:
                    break
            if buffer[stop] != frames.FRAME_END:
                raise ProtocolViolation(FRAME_ERROR, "a frame does not end with the frame-end octet")
            self.frames_received_total += 1
            channel = channels.get(channel_id)
            if channel is None:
                self._receive_elsewhere(kind, channel_id, buffer[start:stop])
            elif kind == frames.METHOD:
                channel.receive_method(buffer, start, stop)
            elif kind == frames.HEADER:
                channel.receive_header(buffer, start, stop)
            elif kind == frames.BODY:
                channel.receive_body(buffer[start:stop])
            else:
                self._unknown_frame(kind)
            offset = stop + 1
            if self.phase is Phase.CLOSED:
                return
        self._rest = buffer[offset:]

    def _check_envelope(self, buffer: bytes, offset: int, kind: int, size: int) -> None:
        """Refuse a bad head before its payload is waited for."""
        if self.phase is Phase.AWAITS_START and buffer[offset : offset + 4] == b"AMQP":
            raise ProtocolViolation(COMMAND_INVALID, "the server does not speak AMQP 0-9-1")
        if kind not in _FRAME_TYPES:
            self._unknown_frame(kind)
        if size + frames.OVERHEAD > self.frame_max or (kind == frames.HEARTBEAT and size):
            raise ProtocolViolation(FRAME_ERROR, f"a frame of {size} bytes, more than agreed")

    def _unknown_frame(self, kind: int) -> None:
        code, what = (UNEXPECTED_FRAME, "a heartbeat on a channel") if kind == 8 else (FRAME_ERROR, f"frame type {kind}")
        raise ProtocolViolation(code, what)

    def _receive_elsewhere(self, kind: int, channel_id: int, payload: bytes) -> None:
        """A frame for channel 0, or for none."""
        if kind not in _FRAME_TYPES:
            self._unknown_frame(kind)
        if channel_id:
            if self.phase is not Phase.CLOSING:
                raise ProtocolViolation(CHANNEL_ERROR, f"a frame for channel {channel_id}, which is not open")
        elif kind == frames.METHOD:
            self._receive_method(decode_method(payload)[1])
        elif kind != frames.HEARTBEAT:
            raise ProtocolViolation(UNEXPECTED_FRAME, "content on channel 0")

    def _receive_method(self, method: base.Frame) -> None:
        match method:
            case commands.Connection.Start():
                self._move(Trigger.START)
                self._answer_start(method)
            case commands.Connection.Tune():
                self._move(Trigger.TUNE)
                self._answer_tune(method)
            case commands.Connection.OpenOk():
                self._move(Trigger.OPEN_OK)
                self.events.append(Opened())
            case commands.Connection.Close():
                self._receive_close(method)
            case commands.Connection.CloseOk():
                self._end(self.closed or ConnectionLost("closed"), Trigger.CLOSE_OK)
            case commands.Connection.Blocked() if self.phase is Phase.OPEN:
                self.events.append(Blocked(method.reason or ""))
            case commands.Connection.Unblocked() if self.phase is Phase.OPEN:
                self.events.append(Unblocked())
            case _ if self.phase is not Phase.CLOSING:
                raise ProtocolViolation(COMMAND_INVALID, f"{method.name} while the connection {self.phase.value}")

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _move(self, trigger: Trigger) -> None:
        following = TRANSITIONS[self.phase].get(trigger)
        if following is None:
            raise ProtocolViolation(COMMAND_INVALID, f"{trigger.value} on a connection that is {self.phase.value}")
        self.phase = following

    def _answer_start(self, method: commands.Connection.Start) -> None:
        self.server_properties = dict(method.server_properties or {})
        self._send_method(start_ok(self._handshake, method))

    def _answer_tune(self, method: commands.Connection.Tune) -> None:
        limits = agree(self._handshake, method)
        self.channel_max, self.frame_max, self.heartbeat_s = limits.channel_max, limits.frame_max, limits.heartbeat_s
        self._send_method(commands.Connection.TuneOk(limits.channel_max, limits.frame_max, limits.heartbeat_s))
        self._send_method(commands.Connection.Open(self._handshake.vhost))

    def _receive_close(self, method: commands.Connection.Close) -> None:
        opening = self.phase in OPENING
        self._send_method(commands.Connection.CloseOk())
        error = connection_closed(method.reply_code or 0, method.reply_text or "", while_opening=opening)
        self._end(error, Trigger.CLOSE_RECEIVED)

    def _violated(self, violation: ProtocolViolation) -> None:
        if self.phase in (Phase.AWAITS_OPEN_OK, Phase.OPEN):
            self._send_close(violation.code, violation.text)
        self.lost(violation)

    def _send_close(self, code: int, text: str) -> None:
        self._send_method(commands.Connection.Close(reply_code=code, reply_text=text[:127], class_id=0, method_id=0))

    def _send_method(self, method: base.Frame) -> None:
        self.send(frames.method_frame(0, method), 1)

    def _end(self, error: AmqpError, trigger: Trigger) -> None:
        self._move(trigger)
        self.closed = self.closed or error
        self._rest = b""
        self._end_channels(self.closed)
        self.events.append(ConnectionGone(self.closed))

    def _end_channels(self, error: AmqpError) -> None:
        for channel in list(self._channels.values()):
            channel.connection_gone(error)
        self._channels.clear()

    def _free_id(self) -> int:
        if self._ids_made < self.channel_max:  # used ones rest as long as there are fresh ones
            self._ids_made += 1
            return self._ids_made
        if not self._free_ids:
            raise TooManyChannels(f"all {self.channel_max} channels of the connection are in use")
        return self._free_ids.popleft()

    def _torn_note(self) -> str:
        return ", in the middle of a frame" if self._rest else ""
