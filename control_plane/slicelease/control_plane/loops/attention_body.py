"""The body of attention messages: read from publishers, written for tickets. Pure.

May live here: the JSON form of slicelease.v1.Attention. May not know: the broker. A body comes from anybody, so every
cost is bounded by its length before a parser sees it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from slicelease.control_plane.domain.names import DEFAULT_QUEUE, QueueKey, is_id

MAX_BODY_BYTES = 8 * 1024
MAX_CORRELATION_ID = 255
MAX_DEPTH = 32
"""Of nested values. Parsers of different Pythons give up at different depths; what is taken must not depend on that."""


class AttentionFault(StrEnum):
    """Why a body is no attention."""

    TOO_LARGE = "ATTENTION_TOO_LARGE"
    MALFORMED = "ATTENTION_MALFORMED"
    INVALID_NAME = "INVALID_NAME"


class AttentionError(ValueError):
    """The body is no attention; `fault` says why."""

    def __init__(self, fault: AttentionFault) -> None:
        self.fault = fault
        super().__init__(fault.value)


@dataclass(frozen=True, slots=True)
class Attention:
    """The queue that deserves a turn. `correlation_id` is for logs, empty when absent or unusable."""

    key: QueueKey
    correlation_id: str


def parse_attention(body: bytes) -> Attention:
    """Reads a JSON object with `tenant` and `queue`; the latter absent, null or "" means `default`.

    `correlation_id` may be spelled `correlationId`. All else is for people and not read: it can neither help a turn nor
    prevent it. Raises AttentionError for any other bytes, and no other error.
    """
    if len(body) > MAX_BODY_BYTES:
        raise AttentionError(AttentionFault.TOO_LARGE)
    fields = _json_object(body)
    tenant, queue = fields.get("tenant"), fields.get("queue")
    if queue is None or queue == "":
        queue = DEFAULT_QUEUE
    if not isinstance(tenant, str) or not isinstance(queue, str):
        raise AttentionError(AttentionFault.MALFORMED)
    if not is_id(tenant) or not is_id(queue):
        raise AttentionError(AttentionFault.INVALID_NAME)
    return Attention(QueueKey(tenant, queue), _correlation_id(fields))


def ticket_body(announcement_id: str, created_at: datetime) -> bytes:
    """A ticket: the token to ask with, and when it was made, for people."""
    created = created_at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.dumps({"announcement_id": announcement_id, "created_at": created}).encode()


def _correlation_id(fields: dict[str, object]) -> str:
    given = fields.get("correlation_id", fields.get("correlationId"))
    return given if isinstance(given, str) and len(given) <= MAX_CORRELATION_ID else ""


def _json_object(body: bytes) -> dict[str, object]:
    try:
        parsed = json.loads(body.decode())
    except (ValueError, RecursionError):  # undecodable, no JSON, a number of 5,000 digits; nested too deep
        raise AttentionError(AttentionFault.MALFORMED) from None
    if not isinstance(parsed, dict) or _too_deep(parsed):
        raise AttentionError(AttentionFault.MALFORMED)
    return parsed


def _too_deep(value: object) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return False
    return True


def _children(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
