"""Work: from publish requests to messages for the broker, checked.

May live here: what publishers may send. May not know: the broker, the ledger, what exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slicelease.control_plane.domain import names
from slicelease.control_plane.domain.commands import RequestKey
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.ports import WorkMessage
from slicelease.v1 import work_service_pb2 as pb

from .checks import has_controls, new_id, request_key, short_text
from .status import header_refused, invalid_field

MAX_PAYLOAD_BYTES = 1024 * 1024
MAX_HEADERS, MAX_HEADER_NAME_BYTES = 100, 255
MAX_HEADERS_BYTES = 64 * 1024
"""Names and values together: all properties of a message travel in one AMQP frame, of 128 KiB by default."""

_ROUTING_HEADERS = frozenset({"cc", "bcc"})
"""RabbitMQ routes copies by them, into any queue: other tenants' too."""
_OUR_PREFIX = "x-slicelease-"


@dataclass(frozen=True, slots=True)
class Wanted:
    """One message that a caller wants published; its ids are the caller's or new ones."""

    key: QueueKey
    message: WorkMessage
    request: RequestKey | None


def read_publish(request: pb.PublishWorkRequest) -> Wanted:
    """The message; raises CallError, InvalidNameError."""
    key = names.parse_queue("queue", request.queue, default_allowed=True)
    if len(request.payload) > MAX_PAYLOAD_BYTES:
        raise invalid_field("payload", f"at most {MAX_PAYLOAD_BYTES} bytes")
    message = WorkMessage(
        payload=request.payload,
        message_id=short_text("message_id", request.message_id) or new_id(),
        correlation_id=short_text("correlation_id", request.correlation_id) or new_id(),
        content_type=short_text("content_type", request.content_type),
        type=short_text("type", request.type),
        headers=_headers(request.headers),
    )
    return Wanted(key, message, request_key(request))


def _headers(given: Mapping[str, str]) -> dict[str, str]:
    if len(given) > MAX_HEADERS:
        raise invalid_field("headers", f"at most {MAX_HEADERS}")
    headers = {_header_name(name): value for name, value in given.items()}
    if sum(len(name.encode()) + len(value.encode()) for name, value in headers.items()) > MAX_HEADERS_BYTES:
        raise invalid_field("headers", f"names and values are at most {MAX_HEADERS_BYTES} bytes together")
    return headers


def _header_name(name: str) -> str:
    folded = name.strip().lower()
    if folded in _ROUTING_HEADERS:
        raise header_refused(name, "the broker would route copies by it")
    if folded.startswith(_OUR_PREFIX):
        raise header_refused(name, "names of this form are set by the system")
    if not name or len(name.encode()) > MAX_HEADER_NAME_BYTES or has_controls(name):
        raise header_refused(name, f"a name is 1 to {MAX_HEADER_NAME_BYTES} bytes without control characters")
    return name
