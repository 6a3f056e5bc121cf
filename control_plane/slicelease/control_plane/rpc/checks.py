"""Checks of single fields, shared by all services: what is accepted, and the error that names the field.

May live here: bounds and forms of fields. May not know: services, what exists.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from slicelease.control_plane.domain.commands import RequestKey

from .status import invalid_field

MAX_TEXT_BYTES = 255
"""Longest short string of AMQP: ids, types and header names travel as such."""

MAX_INTEGER = 2**53 - 1
"""Largest integer that the ledger counts exactly."""

DEFAULT_PAGE, MAX_PAGE = 100, 1_000
_DIGEST_BYTES = 16
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]").search


def digest(request: Message) -> str:
    """A digest of the request's content: blake2b of its deterministic serialization, 16 bytes in hex."""
    return hashlib.blake2b(request.SerializeToString(deterministic=True), digest_size=_DIGEST_BYTES).hexdigest()


def new_id() -> str:
    """A random id for a message, a correlation or an incident: 32 hex digits."""
    return uuid.uuid4().hex


def short_text(field: str, value: str) -> str:
    """Free text of at most 255 bytes without control characters; raises CallError."""
    if len(value.encode()) > MAX_TEXT_BYTES:
        raise invalid_field(field, f"at most {MAX_TEXT_BYTES} bytes")
    if has_controls(value):
        raise invalid_field(field, "no control characters")
    return value


def has_controls(value: str) -> bool:
    """Whether it holds control characters or line separators; spaces of any script are text."""
    return _CONTROLS(value) is not None


def message_id(field: str, value: str) -> str:
    """An id that a message came with: 1 to 255 bytes of anything."""
    if not value or len(value.encode()) > MAX_TEXT_BYTES:
        raise invalid_field(field, f"each is 1 to {MAX_TEXT_BYTES} bytes")
    return value


def request_key(request: Any) -> RequestKey | None:
    """The identity of an idempotent call, or None where it gave no request_id; raises CallError."""
    value: str = request.request_id
    if not value:
        return None
    if len(value) > 128 or not value.isprintable():
        raise invalid_field("request_id", "1 to 128 printable characters")
    return RequestKey(value, digest(request))


def count(field: str, value: int) -> int:
    """A number that the ledger can hold exactly; raises CallError."""
    if value > MAX_INTEGER:
        raise invalid_field(field, f"at most {MAX_INTEGER}")
    return value


def bounded(field: str, value: int, least: int, most: int) -> int:
    """0, which means absent, or a number between the bounds; raises CallError."""
    if value and not least <= value <= most:
        raise invalid_field(field, f"{least} to {most}")
    return value


def duration_ms(field: str, value: Duration, least_ms: int, most_ms: int) -> int:
    """Whole milliseconds between the bounds, or 0 for none; what is below a millisecond is dropped. Raises CallError."""
    seconds, nanos = value.seconds, value.nanos
    if not seconds and not nanos:
        return 0
    milliseconds = seconds * 1_000 + nanos // 1_000_000
    if seconds < 0 or not 0 <= nanos < 1_000_000_000 or not least_ms <= milliseconds <= most_ms:
        raise invalid_field(field, f"a duration of {_shown_ms(least_ms)} to {_shown_ms(most_ms)}")
    return milliseconds


def _shown_ms(value_ms: int) -> str:
    return f"{value_ms // 1_000} s" if value_ms and value_ms % 1_000 == 0 else f"{value_ms} ms"


def page_size(value: int) -> int:
    """The size of a page: absent means 100, larger than 1,000 is taken as 1,000; raises CallError when negative."""
    if value < 0:
        raise invalid_field("page_size", "1 to 1,000; absent or 0 means 100")
    return min(value or DEFAULT_PAGE, MAX_PAGE)


def required(field: str, present: bool) -> None:
    """Raises the CallError of a missing field."""
    if not present:
        raise invalid_field(field, "required")
