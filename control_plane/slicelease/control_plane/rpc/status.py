"""The one table of errors: reason -> code, text and details, and how refusals and exceptions come to a reason.

May live here: everything that decides how a failed call looks on the wire. May not know: services, stores, brokers. The text
of a driver's exception never leaves this process: a status says what its reason says, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2 as details
from google.rpc.status_pb2 import Status

from slicelease.control_plane.domain.names import InvalidNameError, shown

DOMAIN = "slicelease"
DETAILS_KEY = "grpc-status-details-bin"
"""Trailing metadata key under which gRPC carries a google.rpc.Status."""

AWAY_RETRY_MS = 1_000
"""When asking again makes sense while the store or the broker is away, and nothing better is known."""


class Reason(StrEnum):
    """The values of ErrorReason without their prefix, as ErrorInfo carries them."""

    INVALID_NAME = "INVALID_NAME"
    INVALID_FIELD = "INVALID_FIELD"
    TENANT_NOT_FOUND = "TENANT_NOT_FOUND"
    QUEUE_NOT_FOUND = "QUEUE_NOT_FOUND"
    PRIORITY_CLASS_NOT_FOUND = "PRIORITY_CLASS_NOT_FOUND"
    LEASE_NOT_FOUND = "LEASE_NOT_FOUND"
    RESOURCE_EXISTS = "RESOURCE_EXISTS"
    ETAG_MISMATCH = "ETAG_MISMATCH"
    RESOURCE_IN_USE = "RESOURCE_IN_USE"
    REQUEST_ID_REUSED = "REQUEST_ID_REUSED"
    REQUEST_SUPERSEDED = "REQUEST_SUPERSEDED"
    REQUEST_IN_PROGRESS = "REQUEST_IN_PROGRESS"
    LEASE_OVER = "LEASE_OVER"
    LEDGER_UNAVAILABLE = "LEDGER_UNAVAILABLE"
    BROKER_UNAVAILABLE = "BROKER_UNAVAILABLE"
    QUEUE_FULL = "QUEUE_FULL"
    QUEUE_ARGUMENTS_DIFFER = "QUEUE_ARGUMENTS_DIFFER"
    QUEUE_NOT_EMPTY = "QUEUE_NOT_EMPTY"
    HEADER_REFUSED = "HEADER_REFUSED"
    PROTOCOL_UNSUPPORTED = "PROTOCOL_UNSUPPORTED"
    SHUTTING_DOWN = "SHUTTING_DOWN"
    INTERNAL = "INTERNAL"


@dataclass(frozen=True, slots=True)
class Fault:
    """One failed call, before it is put on the wire.

    `text` is for people; `metadata` goes into ErrorInfo; `retry_after_ms` 0 leaves RetryInfo out; `as_reference` says that the
    missing thing was named by another resource.
    """

    reason: Reason
    text: str
    metadata: Mapping[str, str]
    retry_after_ms: int = 0
    as_reference: bool = False


def _bad_request(fault: Fault) -> Any:
    field = fault.metadata.get("field") or ("headers" if "header" in fault.metadata else "request_id")
    return details.BadRequest(field_violations=[details.BadRequest.FieldViolation(field=field, description=fault.text)])


def _resource(fault: Fault) -> Any:
    name = fault.metadata.get("name", "")
    return details.ResourceInfo(resource_type=f"{DOMAIN}/{_kind(name)}", resource_name=name, description=fault.text)


def _kind(name: str) -> str:
    collections = name.split("/")[::2]
    return {"tenants": "Tenant", "queues": "Queue", "leases": "Lease"}.get(collections[-1], "PriorityClass")


def _precondition(fault: Fault) -> Any:
    subject = fault.metadata.get("name") or fault.metadata.get("request_id") or fault.metadata.get("field", "")
    violation = details.PreconditionFailure.Violation(type=fault.reason.value, subject=subject, description=fault.text)
    return details.PreconditionFailure(violations=[violation])


def _quota(fault: Fault) -> Any:
    violation = details.QuotaFailure.Violation(subject=fault.metadata.get("name", ""), description=fault.text)
    return details.QuotaFailure(violations=[violation])


_Detail = Callable[[Fault], Any]
_Code = grpc.StatusCode

TABLE: Mapping[Reason, tuple[grpc.StatusCode, tuple[_Detail, ...]]] = {
    Reason.INVALID_NAME: (_Code.INVALID_ARGUMENT, (_bad_request,)),
    Reason.INVALID_FIELD: (_Code.INVALID_ARGUMENT, (_bad_request,)),
    Reason.HEADER_REFUSED: (_Code.INVALID_ARGUMENT, (_bad_request,)),
    Reason.REQUEST_ID_REUSED: (_Code.INVALID_ARGUMENT, (_bad_request,)),
    Reason.TENANT_NOT_FOUND: (_Code.NOT_FOUND, (_resource,)),
    Reason.QUEUE_NOT_FOUND: (_Code.NOT_FOUND, (_resource,)),
    Reason.PRIORITY_CLASS_NOT_FOUND: (_Code.NOT_FOUND, (_resource,)),
    Reason.LEASE_NOT_FOUND: (_Code.NOT_FOUND, (_resource,)),
    Reason.RESOURCE_EXISTS: (_Code.ALREADY_EXISTS, (_resource,)),
    Reason.ETAG_MISMATCH: (_Code.ABORTED, (_resource,)),
    Reason.REQUEST_IN_PROGRESS: (_Code.ABORTED, ()),
    Reason.RESOURCE_IN_USE: (_Code.FAILED_PRECONDITION, (_precondition,)),
    Reason.REQUEST_SUPERSEDED: (_Code.FAILED_PRECONDITION, (_precondition,)),
    Reason.LEASE_OVER: (_Code.FAILED_PRECONDITION, (_precondition,)),
    Reason.QUEUE_ARGUMENTS_DIFFER: (_Code.FAILED_PRECONDITION, (_precondition,)),
    Reason.QUEUE_NOT_EMPTY: (_Code.FAILED_PRECONDITION, (_precondition,)),
    Reason.PROTOCOL_UNSUPPORTED: (_Code.FAILED_PRECONDITION, (_precondition,)),
    Reason.QUEUE_FULL: (_Code.RESOURCE_EXHAUSTED, (_quota,)),
    Reason.LEDGER_UNAVAILABLE: (_Code.UNAVAILABLE, ()),
    Reason.BROKER_UNAVAILABLE: (_Code.UNAVAILABLE, ()),
    Reason.SHUTTING_DOWN: (_Code.UNAVAILABLE, ()),
    Reason.INTERNAL: (_Code.INTERNAL, ()),
}
"""Reason -> code and the details it carries besides ErrorInfo and, where a time is known, RetryInfo."""

_REFERENCE = (_Code.FAILED_PRECONDITION, (_resource, _precondition))
"""The row of a missing resource that another resource names: the call's own target is there."""


class CallError(Exception):
    """A call failed for a reason of the table; services raise it, the interceptor or an exchange's answer sends it."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        super().__init__(f"{fault.reason}: {fault.text}")

    @property
    def code(self) -> grpc.StatusCode:
        """The gRPC code that the reason has."""
        return _row(self.fault)[0]

    def status(self) -> Any:
        """The google.rpc.Status with all its details."""
        return to_status(self.fault)


def _row(fault: Fault) -> tuple[grpc.StatusCode, tuple[_Detail, ...]]:
    return _REFERENCE if fault.as_reference else TABLE[fault.reason]


def to_status(fault: Fault) -> Any:
    """The google.rpc.Status of a fault: its code and text, ErrorInfo first, then RetryInfo, then what the table says."""
    code, builders = _row(fault)
    status = Status(code=code.value[0], message=fault.text)
    info = details.ErrorInfo(reason=fault.reason.value, domain=DOMAIN, metadata=dict(fault.metadata))
    status.details.add().Pack(info)
    if fault.retry_after_ms:
        delay = Duration(seconds=fault.retry_after_ms // 1_000, nanos=fault.retry_after_ms % 1_000 * 1_000_000)
        status.details.add().Pack(details.RetryInfo(retry_delay=delay))
    for build in builders:
        status.details.add().Pack(build(fault))
    return status


# ---- faults that services find themselves -------------------------------------------------------------------------------


def invalid_field(field: str, text: str) -> CallError:
    """INVALID_ARGUMENT: the field (a path as in an update mask) is out of range, missing or contradictory."""
    return CallError(Fault(Reason.INVALID_FIELD, f"{field}: {text}", {"field": field}))


def invalid_name(error: InvalidNameError) -> CallError:
    """INVALID_ARGUMENT: a name or id breaks the one rule."""
    return CallError(Fault(Reason.INVALID_NAME, str(error), {"field": error.field, "value": error.value}))


def header_refused(name: str, why: str) -> CallError:
    """INVALID_ARGUMENT: publishers may not set this header."""
    return CallError(Fault(Reason.HEADER_REFUSED, f"header {shown(name)}: {why}", {"header": shown(name).strip("'\"")}))


def request_id_reused(request_id: str) -> CallError:
    """INVALID_ARGUMENT: the same request_id came with other content."""
    return CallError(Fault(Reason.REQUEST_ID_REUSED, "this request_id was used with other content", {"request_id": request_id}))


def request_in_progress(request_id: str, retry_after_ms: int) -> CallError:
    """ABORTED: another call works on the same request."""
    text = "the same request is being worked on by another call"
    return CallError(Fault(Reason.REQUEST_IN_PROGRESS, text, {"request_id": request_id}, max(1, retry_after_ms)))


def ledger_unavailable() -> CallError:
    """UNAVAILABLE: the ledger's store does not answer, or not as a ledger."""
    return CallError(Fault(Reason.LEDGER_UNAVAILABLE, "the ledger is not available; retry", {}, AWAY_RETRY_MS))


def broker_unavailable(retry_after_ms: int = AWAY_RETRY_MS) -> CallError:
    """UNAVAILABLE: the broker does not answer or blocks publishers; what was sent may or may not be there."""
    text = "the message broker is not available; retry, with the same request_id if one was given"
    return CallError(Fault(Reason.BROKER_UNAVAILABLE, text, {}, retry_after_ms))


def queue_full(name: str, retry_after_ms: int = AWAY_RETRY_MS) -> CallError:
    """RESOURCE_EXHAUSTED: the queue is at its length limit."""
    return CallError(Fault(Reason.QUEUE_FULL, "queue full: it is at its length limit", {"name": name}, retry_after_ms))


def arguments_differ(name: str, argument: str) -> CallError:
    """FAILED_PRECONDITION: the broker has a queue of that name with another value of `argument`."""
    text = f"the broker has this queue with another {argument}; delete it there or ask for what it is"
    return CallError(Fault(Reason.QUEUE_ARGUMENTS_DIFFER, text, {"name": name, "argument": argument}))


def queue_not_empty(name: str, messages: int) -> CallError:
    """FAILED_PRECONDITION: the queue holds messages and `force` was not given."""
    text = f"the queue holds {messages} messages; pass force to delete them with it"
    return CallError(Fault(Reason.QUEUE_NOT_EMPTY, text, {"name": name, "messages": str(messages)}))


def queue_in_use(name: str) -> CallError:
    """FAILED_PRECONDITION: a slice has messages of the queue in hand, or gave some back, and `force` was not given."""
    text = (
        "work of the queue is in hand or waits to be tried again; pause it and repeat, or pass force to delete the work with it"
    )
    return CallError(Fault(Reason.QUEUE_NOT_EMPTY, text, {"name": name}))


def protocol_unsupported(caller: int, supported: int) -> CallError:
    """FAILED_PRECONDITION: the worker speaks another version of the lease protocol."""
    text = f"the worker speaks lease protocol {caller}, this control plane speaks {supported}; upgrade the older of the two"
    return CallError(Fault(Reason.PROTOCOL_UNSUPPORTED, text, {"caller": str(caller), "supported": str(supported)}))


def heartbeat_too_long(asked_ms: int, longest_ms: int) -> CallError:
    """FAILED_PRECONDITION: a worker's AMQP heartbeat would outlive what the ledger waits after a lost lease."""
    text = (
        f"amqp_heartbeat: {asked_ms} ms is longer than the installation's {longest_ms} ms; "
        "shorten the worker's SLICELEASE_AMQP_HEARTBEAT or raise the control plane's"
    )
    metadata = {"field": "amqp_heartbeat", "longest_ms": str(longest_ms)}
    return CallError(Fault(Reason.PROTOCOL_UNSUPPORTED, text, metadata))


def shutting_down() -> CallError:
    """UNAVAILABLE: this process drains; another replica will answer."""
    return CallError(Fault(Reason.SHUTTING_DOWN, "this server is shutting down; another will answer", {}, AWAY_RETRY_MS))


def internal(incident: str) -> CallError:
    """INTERNAL: a fault of ours; the log has the detail under the incident id."""
    text = f"internal fault; the log has it under incident {incident}"
    return CallError(Fault(Reason.INTERNAL, text, {"incident": incident}))
