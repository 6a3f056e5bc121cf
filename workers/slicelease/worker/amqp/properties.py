"""The properties of a message and the content header frame's payload that carries them.

Pure functions over bytes. Written here, not taken from pamqp, for the reasons of `values.py`, and because decoding a
header was half of the codec's time per message.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from slicelease.worker.amqp.values import Value, decode_table, decode_timestamp, encode_table, encode_timestamp
from slicelease.worker.amqp.values import short_string as _short

PERSISTENT = 2
"""The delivery mode of a message that survives a broker's restart (on a durable queue)."""

_U16 = struct.Struct(">H")
_U64 = struct.Struct(">Q")
_TEXT, _OCTET, _TABLE, _TIME = range(4)


class Properties(NamedTuple):
    """Basic properties, in wire order; None means absent.

    Short strings take at most 255 UTF-8 bytes; bytes that are not UTF-8 are shown as backslash escapes when read.
    `expiration` is text in milliseconds; `timestamp` has whole seconds (an int when no datetime can hold it).
    """

    content_type: str | None = None
    content_encoding: str | None = None
    headers: Mapping[str, Value] | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: datetime | int | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None


_KINDS = tuple(
    {"headers": _TABLE, "delivery_mode": _OCTET, "priority": _OCTET, "timestamp": _TIME}.get(name, _TEXT)
    for name in Properties._fields
)
_ABSENT: tuple[None, ...] = (None,) * len(_KINDS)
_KNOWN_FLAGS = sum(0x8000 >> index for index in range(len(_KINDS)))
NO_PROPERTIES = Properties()


@lru_cache(maxsize=256)
def _present(flags: int) -> tuple[tuple[int, int], ...]:
    """(index, kind) of the properties that `flags` says are there."""
    if flags & ~_KNOWN_FLAGS:
        raise ValueError("unknown property flags")
    return tuple((index, kind) for index, kind in enumerate(_KINDS) if flags & (0x8000 >> index))


def encode_properties(properties: Properties) -> bytes:
    """Flags and values. Raises ValueError or TypeError, naming the property that cannot be sent."""
    flags, parts = 0, [b""]
    for index, value in enumerate(properties):
        if value is not None:
            flags |= 0x8000 >> index
            try:
                parts.append(_encode_property(_KINDS[index], value))
            except (ValueError, TypeError, AttributeError) as error:
                raise ValueError(f"property {Properties._fields[index]}: {error}") from None
    parts[0] = _U16.pack(flags)
    return b"".join(parts)


def _encode_property(kind: int, value: object) -> bytes:
    if kind == _TEXT and isinstance(value, str):
        return _short(value)
    if kind == _OCTET and isinstance(value, int):
        return bytes((value,))
    if kind == _TABLE and isinstance(value, Mapping):
        return encode_table(value)
    if kind == _TIME and isinstance(value, datetime):
        return encode_timestamp(value)
    if kind == _TIME and isinstance(value, int) and 0 <= value < 1 << 64:
        return _U64.pack(value)
    raise TypeError(f"{type(value).__name__} cannot be sent")


def decode_properties(data: bytes) -> Properties:
    """The properties in the flags and values `data`. Raises ValueError when they are torn or unknown."""
    if len(data) < 2:
        raise ValueError("property flags are cut short")
    values: list[object] = list(_ABSENT)
    offset, end = 2, len(data)
    for index, kind in _present(data[0] << 8 | data[1]):
        if offset >= end:
            raise ValueError("properties are cut short")
        if kind == _TEXT:
            stop = offset + 1 + data[offset]
            values[index] = data[offset + 1 : stop].decode(errors="backslashreplace")
            offset = stop
        elif kind == _TABLE:
            values[index], offset = decode_table(data, offset)
        elif kind == _OCTET:
            values[index] = data[offset]
            offset += 1
        else:
            values[index], offset = _decode_time(data, offset), offset + 8
    if offset != end:
        raise ValueError("properties are cut short or followed by something else")
    return Properties._make(values)


def _decode_time(data: bytes, offset: int) -> datetime | int:
    if offset + 8 > len(data):
        raise ValueError("a timestamp is cut short")
    return decode_timestamp(_U64.unpack_from(data, offset)[0])
