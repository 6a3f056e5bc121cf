"""From a refusal of the ledger, or an exception of a port, to the error that the caller gets.

May live here: which reason it is, and which resource it speaks of. May not know: codes and details (status.py has the one table).
"""

from __future__ import annotations

from typing import TypeVar

import structlog

from slicelease.control_plane.domain import commands, names
from slicelease.control_plane.domain.commands import Command
from slicelease.control_plane.domain.outcomes import Failed, Outcome, RefusalReason, Refused
from slicelease.control_plane.ports import BrokerUnavailableError, LedgerUnavailableError, LedgerVersionError

from .checks import new_id
from .status import CallError, Fault, Reason, broker_unavailable, internal, invalid_name, ledger_unavailable

_T = TypeVar("_T")
_log = structlog.get_logger("slicelease.rpc")

_TEXTS = {
    RefusalReason.TENANT_NOT_FOUND: "no such tenant",
    RefusalReason.QUEUE_NOT_FOUND: "the tenant has no such queue",
    RefusalReason.PRIORITY_CLASS_NOT_FOUND: "no such priority class",
    RefusalReason.LEASE_NOT_FOUND: "no such live lease",
    RefusalReason.RESOURCE_EXISTS: "a resource of that name exists",
    RefusalReason.ETAG_MISMATCH: "the etag is not the current one; read the resource again",
    RefusalReason.RESOURCE_IN_USE: "the resource still has children or users",
    RefusalReason.REQUEST_ID_REUSED: "this request_id was used with other content",
    RefusalReason.REQUEST_SUPERSEDED: "a later request of the same slot was already answered",
    RefusalReason.REQUEST_IN_PROGRESS: "the same request is being worked on by another call",
    RefusalReason.LEASE_OVER: "the lease has ended; stop the slice at once",
}

_OF_REQUEST = {RefusalReason.REQUEST_ID_REUSED, RefusalReason.REQUEST_SUPERSEDED, RefusalReason.REQUEST_IN_PROGRESS}
_ABOUT_CLASSES = (commands.GetClass, commands.UpdateClass, commands.DeleteClass, commands.CreateClass)


def refusal(refused: Refused, command: Command) -> CallError:
    """The error for a command that the ledger refused."""
    key = "request_id" if refused.reason in _OF_REQUEST else "name"
    missing_class = refused.reason is RefusalReason.PRIORITY_CLASS_NOT_FOUND
    fault = Fault(
        Reason(refused.reason.value),
        _TEXTS[refused.reason],
        {key: _subject(refused, command)},
        max(1, refused.retry_after_ms) if refused.reason is RefusalReason.REQUEST_IN_PROGRESS else refused.retry_after_ms,
        as_reference=missing_class and not isinstance(command, _ABOUT_CLASSES),
    )
    return CallError(fault)


def expect(outcome: Outcome, kind: type[_T], command: Command) -> _T:
    """The outcome, which must be of that kind; raises the CallError of a refusal."""
    if isinstance(outcome, kind):
        return outcome
    if isinstance(outcome, Refused):
        raise refusal(outcome, command)
    if isinstance(outcome, Failed):  # this command alone; the others of its step are not concerned
        raise unexpected(f"the ledger failed at {type(command).__name__}", cause=outcome.cause)
    raise TypeError(f"the ledger answered {type(command).__name__} with {type(outcome).__name__}")


def unexpected(event: str, **detail: object) -> CallError:
    """INTERNAL, with the detail in the log under the incident id that the caller is given."""
    incident = new_id()
    _log.error(event, incident=incident, **detail)
    return internal(incident)


def _subject(refused: Refused, command: Command) -> str:
    if refused.reason in _OF_REQUEST:
        return _request_id(command) or refused.subject
    if refused.reason is RefusalReason.TENANT_NOT_FOUND:
        return names.tenant_name(_tenant(command) or refused.subject)
    if refused.reason is RefusalReason.PRIORITY_CLASS_NOT_FOUND:
        return names.class_name(refused.subject)
    return _target(command) or refused.subject


def _request_id(command: Command) -> str:
    request = getattr(command, "request", None)
    if isinstance(request, commands.SlotRequest):
        return f"{request.session}/{request.slot}/{request.n}"
    return request.request_id if isinstance(request, commands.RequestKey) else ""


def _tenant(command: Command) -> str:
    holder = getattr(command, "key", None) or getattr(command, "lease", None)
    return str(holder.tenant if holder is not None else getattr(command, "tenant", ""))


def _target(command: Command) -> str:
    """The resource name that the command is about; empty where it is about none."""
    if (lease := getattr(command, "lease", None)) is not None:
        return names.lease_name(lease)
    if (key := getattr(command, "key", None)) is not None:
        return names.queue_name(key)
    if class_id := getattr(command, "class_id", ""):
        return names.class_name(class_id)
    tenant, queue = getattr(command, "tenant", ""), getattr(command, "queue", "")
    if tenant and queue:
        return names.queue_name(names.QueueKey(tenant, queue))
    return names.tenant_name(tenant) if tenant else ""


def from_exception(error: Exception) -> CallError | None:
    """The error for an exception that a port or a check raises; None for one that nobody expected."""
    match error:
        case CallError():
            return error
        case names.InvalidNameError():
            return invalid_name(error)
        case LedgerUnavailableError() | LedgerVersionError():
            return ledger_unavailable()
        case BrokerUnavailableError():
            return broker_unavailable()
        case _:
            return None
