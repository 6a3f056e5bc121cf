"""Frames in: the bytes of methods, decoded.

Pure functions. What comes with every message (get-ok, deliver, confirms) is unpacked here by hand, with the same checks
that pamqp makes and one more: a method fills its frame exactly. All else is pamqp's. `buffer[start:stop]` is the payload
of a method frame, its method number included; nothing beyond `stop` is ever taken for a part of it.
"""

from __future__ import annotations

import struct

from pamqp import base, commands
from pamqp.exceptions import UnmarshalingException

from slicelease.worker.amqp.errors import COMMAND_INVALID, SYNTAX_ERROR, ProtocolViolation, Unroutable
from slicelease.worker.amqp.message import Message, Settles

_U32 = struct.Struct(">I")
_GET_OK = struct.Struct(">QBB")  # delivery tag, redelivered, length of the exchange's name
_TAG_BITS = struct.Struct(">QB")

DECODE_ERRORS = (UnmarshalingException, struct.error, ValueError, IndexError, KeyError, TypeError, OverflowError, RecursionError)
"""What pamqp and struct raise for bytes that are no method."""


def decode_get_ok(buffer: bytes, start: int, stop: int, owner: Settles | None) -> Message:
    """basic.get-ok, as the message whose content follows."""
    tag, redelivered, length = _GET_OK.unpack_from(buffer, start + 4)
    at = start + 14 + length
    exchange = buffer[start + 14 : at].decode(errors="backslashreplace") if length else ""
    key, at = _short_text(buffer, at)
    if at + 4 != stop:
        raise ProtocolViolation(SYNTAX_ERROR, "basic.get-ok does not fill its frame")
    return Message(owner, tag, redelivered != 0, exchange, key, _U32.unpack_from(buffer, at)[0], None)


def decode_deliver(buffer: bytes, start: int, stop: int, owner: Settles | None) -> Message:
    """basic.deliver, as the message whose content follows."""
    consumer_tag, at = _short_text(buffer, start + 4)
    tag, redelivered = _TAG_BITS.unpack_from(buffer, at)
    exchange, at = _short_text(buffer, at + 9)
    key, at = _short_text(buffer, at)
    if at != stop:
        raise ProtocolViolation(SYNTAX_ERROR, "basic.deliver does not fill its frame")
    return Message(owner, tag, redelivered != 0, exchange, key, None, consumer_tag)


def decode_confirm(buffer: bytes, start: int, stop: int) -> tuple[int, bool]:
    """basic.ack or basic.nack of the broker: the tag, and whether all up to it are meant."""
    if stop - start != 13:
        raise ProtocolViolation(SYNTAX_ERROR, "a confirm does not fill its frame")
    tag, bits = _TAG_BITS.unpack_from(buffer, start + 4)
    return tag, bits & 1 == 1


def decode_return(method: commands.Basic.Return) -> Unroutable:
    """basic.return, as the error that its publish will end with."""
    return Unroutable(method.exchange or "", method.routing_key or "", method.reply_code or 0, method.reply_text or "")


def decode_method(payload: bytes) -> tuple[int, base.Frame]:
    """The number and the method of a payload, by pamqp. Raises ProtocolViolation for what is none."""
    if len(payload) < 4:
        raise ProtocolViolation(SYNTAX_ERROR, "a method frame without a method")
    number = int.from_bytes(payload[:4])
    known = commands.INDEX_MAPPING.get(number)
    if known is None:
        raise ProtocolViolation(COMMAND_INVALID, f"unknown method {number >> 16}.{number & 0xFFFF}")
    method: base.Frame = known()
    try:
        method.unmarshal(payload[4:])
    except DECODE_ERRORS:
        raise ProtocolViolation(SYNTAX_ERROR, f"{method.name} cannot be decoded") from None
    return number, method


def _short_text(buffer: bytes, offset: int) -> tuple[str, int]:
    """The short string at `offset` and the offset behind it; a length beyond the frame shows in that."""
    stop = offset + 1 + buffer[offset]
    return buffer[offset + 1 : stop].decode(errors="backslashreplace"), stop
