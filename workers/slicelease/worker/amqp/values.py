"""Field tables: the typed values of AMQP headers and arguments, as RabbitMQ reads and writes them.

Pure functions over bytes. Written here, not taken from pamqp, because pamqp 4 sends every float with 32 bits (0.1 does
not come back), refuses bytes, cuts long names and reads timestamps after 2106 as milliseconds; and because the headers
of each message are on the hot path. Every value that RabbitMQ can carry survives both ways:

    bool t · int I, l (b B s u i read) · float d (f read) · str S · bytes x · None V · Decimal D · datetime T ·
    list A · dict F · LongString S (a long string that is not UTF-8)

Timestamps are whole seconds in UTC. One that no datetime can hold is read as an int of seconds.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import TypeAlias

MAX_DEPTH = 32
"""How deep tables and arrays may nest. Deeper ones are refused before they can exhaust the stack."""

MAX_SHORT_BYTES = 255
"""The longest short string (names, most properties), in UTF-8 bytes."""


class LongString(bytes):
    """A long string that is not UTF-8: goes out again as it came in."""

    __slots__ = ()


Value: TypeAlias = "bool | int | float | str | bytes | Decimal | datetime | Sequence[Value] | Mapping[str, Value] | None"

_U32 = struct.Struct(">I")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")
_U64 = struct.Struct(">Q")
_DOUBLE = struct.Struct(">d")
_DECIMAL = struct.Struct(">Bi")
_FIXED = {
    ord(kind): struct.Struct(layout)
    for kind, layout in {
        "t": ">?", "b": ">b", "B": ">B", "s": ">h", "u": ">H", "I": ">i", "i": ">I", "l": ">q", "f": ">f", "d": ">d",
    }.items()
}  # fmt: skip
_LONG, _BYTES, _TABLE, _ARRAY, _TIME, _DEC, _VOID = (ord(kind) for kind in "SxFATDV")
_MAX_TIMESTAMP = 253_402_300_799  # 9999-12-31T23:59:59Z


def short_string(text: str) -> bytes:
    """`text` as a short string. Raises ValueError when it has more than 255 UTF-8 bytes."""
    raw = text.encode()
    if len(raw) > MAX_SHORT_BYTES:
        raise ValueError(f"a short string takes at most {MAX_SHORT_BYTES} bytes, got {len(raw)}")
    return bytes((len(raw),)) + raw


def decode_table(data: bytes, offset: int = 0, end: int | None = None, depth: int = 0) -> tuple[dict[str, Value], int]:
    """The table at `offset` and the offset behind it. Raises ValueError when it is torn, too deep or of unknown type.

    Bytes of a name that are not UTF-8 are shown as backslash escapes.
    """
    start, stop = _span(data, offset, len(data) if end is None else end, depth)
    table: dict[str, Value] = {}
    while start < stop:
        name_end = start + 1 + data[start]
        if name_end >= stop:
            raise ValueError("a field name runs over the end of its table")
        name = data[start + 1 : name_end].decode(errors="backslashreplace")
        table[name], start = _decode_value(data, name_end, stop, depth)
    return table, stop


def encode_table(table: Mapping[str, Value], depth: int = 0) -> bytes:
    """`table` with its length before it. Raises ValueError or TypeError, naming the field that cannot be sent."""
    if depth > MAX_DEPTH:
        raise ValueError(f"tables nest deeper than {MAX_DEPTH}")
    parts = []
    for name, value in table.items():
        try:
            parts.append(short_string(name) + _encode_value(value, depth))
        except (ValueError, TypeError) as error:
            raise type(error)(f"field {name[:80]!r}: {error}") from None
    payload = b"".join(parts)
    return _U32.pack(len(payload)) + payload


def decode_timestamp(seconds: int) -> datetime | int:
    """POSIX seconds as a datetime in UTC, or the number itself when no datetime can hold it."""
    return datetime.fromtimestamp(seconds, UTC) if seconds <= _MAX_TIMESTAMP else seconds


def encode_timestamp(moment: datetime) -> bytes:
    """Whole POSIX seconds. Raises ValueError without a time zone or before 1970."""
    if moment.tzinfo is None:
        raise ValueError("a timestamp needs a time zone")
    seconds = int(moment.timestamp())
    if seconds < 0:
        raise ValueError("a timestamp before 1970 cannot be sent")
    return _U64.pack(seconds)


def _span(data: bytes, offset: int, end: int, depth: int) -> tuple[int, int]:
    """Start and end of the counted bytes at `offset`, which must lie before `end`."""
    if depth > MAX_DEPTH:
        raise ValueError(f"tables nest deeper than {MAX_DEPTH}")
    start = offset + 4
    if start > end:
        raise ValueError("a length is cut short")
    stop: int = start + _U32.unpack_from(data, offset)[0]
    if stop > end:
        raise ValueError("a value runs over the end of what holds it")
    return start, stop


def _decode_value(data: bytes, offset: int, end: int, depth: int) -> tuple[Value, int]:
    kind = data[offset]
    offset += 1
    fixed = _FIXED.get(kind)
    if fixed is not None:
        if offset + fixed.size > end:
            raise ValueError("a number is cut short")
        return fixed.unpack_from(data, offset)[0], offset + fixed.size
    if kind in (_LONG, _BYTES):
        start, stop = _span(data, offset, end, depth)
        return (_text(data[start:stop]) if kind == _LONG else data[start:stop]), stop
    if kind == _TABLE:
        return decode_table(data, offset, end, depth + 1)
    if kind == _ARRAY:
        return _decode_array(data, offset, end, depth + 1)
    return _decode_rare(kind, data, offset, end)


def _text(raw: bytes) -> str | LongString:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return LongString(raw)


def _decode_array(data: bytes, offset: int, end: int, depth: int) -> tuple[list[Value], int]:
    start, stop = _span(data, offset, end, depth)
    items = []
    while start < stop:
        item, start = _decode_value(data, start, stop, depth)
        items.append(item)
    return items, stop


def _decode_rare(kind: int, data: bytes, offset: int, end: int) -> tuple[Value, int]:
    if kind == _VOID:
        return None, offset
    if kind == _TIME and offset + 8 <= end:
        return decode_timestamp(_U64.unpack_from(data, offset)[0]), offset + 8
    if kind == _DEC and offset + 5 <= end:
        scale, digits = _DECIMAL.unpack_from(data, offset)
        return Decimal(digits).scaleb(-scale), offset + 5
    raise ValueError(f"a value of type {chr(kind)!r} is unknown or cut short")


def _encode_value(value: Value, depth: int) -> bytes:
    if isinstance(value, str):
        raw = value.encode()
        return b"S" + _U32.pack(len(raw)) + raw
    if isinstance(value, bool):
        return b"t\x01" if value else b"t\x00"
    if isinstance(value, int):
        return _encode_int(value)
    if value is None:
        return b"V"
    if isinstance(value, bytes | bytearray):
        return (b"S" if isinstance(value, LongString) else b"x") + _U32.pack(len(value)) + value
    if isinstance(value, float):
        return b"d" + _DOUBLE.pack(value)
    if isinstance(value, Mapping):
        return b"F" + encode_table(value, depth + 1)
    return _encode_rare(value, depth)


def _encode_int(value: int) -> bytes:
    if -0x8000_0000 <= value <= 0x7FFF_FFFF:
        return b"I" + _I32.pack(value)
    if -0x8000_0000_0000_0000 <= value <= 0x7FFF_FFFF_FFFF_FFFF:
        return b"l" + _I64.pack(value)
    raise ValueError("an integer beyond 64 bits cannot be sent")


def _encode_rare(value: Value, depth: int) -> bytes:
    if isinstance(value, datetime):
        return b"T" + encode_timestamp(value)
    if isinstance(value, Decimal):
        return b"D" + _encode_decimal(value)
    if isinstance(value, list | tuple):
        if depth >= MAX_DEPTH:
            raise ValueError(f"tables nest deeper than {MAX_DEPTH}")
        payload = b"".join(_encode_value(item, depth + 1) for item in value)
        return b"A" + _U32.pack(len(payload)) + payload
    raise TypeError(f"a value of type {type(value).__name__} cannot be sent")


def _encode_decimal(value: Decimal) -> bytes:
    if not value.is_finite():
        raise ValueError("a decimal must be finite")
    scale = max(0, -int(value.as_tuple().exponent))
    number = int(value.scaleb(scale))
    if scale > 255 or not -0x8000_0000 <= number <= 0x7FFF_FFFF:
        raise ValueError("a decimal takes at most 255 places and 32 bits of digits")
    return _DECIMAL.pack(scale, number)
