"""Frames out: the bytes of each method that this client sends.

Pure functions. Methods that come with every message (get, ack, nack, reject, publish and its content) are packed here by
hand; all others are pamqp's. Also the numbers of the methods, as one integer: class id × 65536 + method id.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, cast

from pamqp import base, commands, common, frame

from slicelease.worker.amqp.values import Value, short_string

METHOD: Final = 1
HEADER: Final = 2
BODY: Final = 3
HEARTBEAT: Final = 8
FRAME_END: Final = 0xCE
OVERHEAD: Final = 8
"""Bytes of a frame beside its payload: type, channel, size, and the end octet."""
FRAME_MIN_SIZE: Final = 4096
FRAME_MAX_SIZE: Final = 131_072
CHANNEL_MAX: Final = 2047

CHANNEL_OPEN_OK: Final = commands.Channel.OpenOk.index
CHANNEL_CLOSE: Final = commands.Channel.Close.index
CHANNEL_CLOSE_OK: Final = commands.Channel.CloseOk.index
QUEUE_DECLARE_OK: Final = commands.Queue.DeclareOk.index
BASIC_CONSUME_OK: Final = commands.Basic.ConsumeOk.index
BASIC_CANCEL: Final = commands.Basic.Cancel.index
BASIC_CANCEL_OK: Final = commands.Basic.CancelOk.index
BASIC_RETURN: Final = commands.Basic.Return.index
BASIC_DELIVER: Final = commands.Basic.Deliver.index
BASIC_GET_OK: Final = commands.Basic.GetOk.index
BASIC_GET_EMPTY: Final = commands.Basic.GetEmpty.index
BASIC_ACK: Final = commands.Basic.Ack.index
BASIC_NACK: Final = commands.Basic.Nack.index

_GET, _PUBLISH, _REJECT = commands.Basic.Get.index, commands.Basic.Publish.index, commands.Basic.Reject.index
_DECLARE = commands.Queue.Declare.index
_BASIC_CLASS = 60

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
HEARTBEAT_FRAME: Final = struct.pack(">BHIB", HEARTBEAT, 0, 0, FRAME_END)

_ENVELOPE = struct.Struct(">BHI")
_METHOD_HEAD = struct.Struct(">BHII")  # type, channel, size, method
_SETTLE = struct.Struct(">BHIIQBB")  # type, channel, size, method, delivery tag, bits, end
_CONTENT = struct.Struct(">BHIHHQ")  # type, channel, size, class, weight, body size
_END = bytes((FRAME_END,))


def method_frame(channel_id: int, method: base.Frame) -> bytes:
    """A method of pamqp as one frame."""
    return frame.marshal(method, channel_id)


def arguments(table: Mapping[str, Value] | None) -> common.FieldTable | None:
    """The arguments of a method, as pamqp's types want them."""
    return cast("common.FieldTable", dict(table)) if table else None


def get_frame(channel_id: int, queue: str) -> bytes:
    """basic.get with acknowledgement."""
    name = short_string(queue)
    return b"%b\x00\x00%b\x00\xce" % (_METHOD_HEAD.pack(METHOD, channel_id, 7 + len(name), _GET), name)


def look_frame(channel_id: int, queue: str) -> bytes:
    """queue.declare, passive, without arguments."""
    name = short_string(queue)
    return b"%b\x00\x00%b\x01\x00\x00\x00\x00\xce" % (_METHOD_HEAD.pack(METHOD, channel_id, 11 + len(name), _DECLARE), name)


def ack_frame(channel_id: int, delivery_tag: int, multiple: bool) -> bytes:
    """basic.ack."""
    return _SETTLE.pack(METHOD, channel_id, 13, BASIC_ACK, delivery_tag, multiple, FRAME_END)


def nack_frame(channel_id: int, delivery_tag: int, multiple: bool, requeue: bool) -> bytes:
    """basic.nack."""
    return _SETTLE.pack(METHOD, channel_id, 13, BASIC_NACK, delivery_tag, multiple | requeue << 1, FRAME_END)


def reject_frame(channel_id: int, delivery_tag: int, requeue: bool) -> bytes:
    """basic.reject."""
    return _SETTLE.pack(METHOD, channel_id, 13, _REJECT, delivery_tag, requeue, FRAME_END)


def publish_frames(
    channel_id: int,
    exchange: str,
    routing_key: str,
    mandatory: bool,
    properties: bytes,
    body: bytes,
    frame_max: int,
) -> tuple[bytes, int]:
    """basic.publish with its content as one piece of bytes, and the number of frames in it.

    One piece, so that no cancellation can tear it. No frame is longer than `frame_max` bytes; raises ValueError when the
    properties alone would be (AMQP cannot split them).
    """
    if len(properties) + 12 + OVERHEAD > frame_max:
        raise ValueError(f"properties of {len(properties)} bytes do not fit a frame of {frame_max}")
    where = short_string(exchange) + short_string(routing_key)
    size = len(body)
    pieces = [
        _METHOD_HEAD.pack(METHOD, channel_id, 7 + len(where), _PUBLISH), b"\x00\x00", where, bytes((mandatory, FRAME_END)),
        _CONTENT.pack(HEADER, channel_id, 12 + len(properties), _BASIC_CLASS, 0, size), properties, _END,
    ]  # fmt: skip
    room = frame_max - OVERHEAD
    for start in range(0, size, room):
        part = body if size <= room else body[start : start + room]
        pieces += (_ENVELOPE.pack(BODY, channel_id, len(part)), part, _END)
    return b"".join(pieces), 2 + (size + room - 1) // room
