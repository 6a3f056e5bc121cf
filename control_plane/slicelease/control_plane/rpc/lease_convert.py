"""Lease calls: from protos to commands, checked, and from outcomes into protos. The hot path: tens of thousands a second.

May live here: pure conversion, written for few objects a call. May not know: the ledger, the service, logs.
A `fill_*` function writes into a message that its caller owns, which spares the copy that a constructor would make.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from slicelease.control_plane.domain import names
from slicelease.control_plane.domain.commands import Acquire, EndReason, Renew, Settle, SlotRequest, Totals
from slicelease.control_plane.domain.names import LeaseKey
from slicelease.control_plane.domain.outcomes import DenialReason, Denied, Granted, QueueState, Renewed, Settled
from slicelease.control_plane.domain.policy import SliceTerms
from slicelease.v1 import lease_service_pb2 as pb
from slicelease.v1 import resources_pb2

from .checks import MAX_INTEGER, count, message_id, required
from .status import invalid_field

MAX_CLASSES, MAX_IDS, MAX_SLOT = 64, 10_000, 9_999
_MAX_ANNOUNCEMENT_ID = 64
_REQUEST_ID = re.compile(r"([A-Za-z0-9_-]{1,64})/(0|[1-9][0-9]{0,3})/(0|[1-9][0-9]{0,15})").fullmatch
_SESSION = re.compile(r"[A-Za-z0-9_-]{1,64}").fullmatch
_ANNOUNCEMENT_ID = re.compile(r"[!-~]+").fullmatch
_END_REASONS = {int(reason): reason for reason in EndReason}
_CONTINUE, _STOP = pb.Directive.ACTION_CONTINUE, pb.Directive.ACTION_STOP


# ---- into commands ------------------------------------------------------------------------------------------------------


def check_session(field: str, session: str) -> str:
    """A worker session, `[A-Za-z0-9_-]{1,64}`; raises CallError."""
    if _SESSION(session) is None:
        raise invalid_field(field, "a session is 1 to 64 of A-Z a-z 0-9 _ -")
    return session


def _slot_request(request: Any) -> SlotRequest:
    given = _REQUEST_ID(request.request_id)
    if given is None:
        raise invalid_field("request_id", "the form is {session}/{slot}/{n}, slot 0 to 9,999, n rising")
    session, slot, n = given.groups()
    number = int(n)
    if number > MAX_INTEGER:
        raise invalid_field("request_id", f"n is at most {MAX_INTEGER}")
    content = blake2b(request.SerializeToString(deterministic=True), digest_size=16).hexdigest()
    return SlotRequest(session, int(slot), number, content)


@lru_cache(maxsize=1_024)
def _class_ids(classes: tuple[str, ...]) -> tuple[str, ...]:
    """Checked once for each list: a worker sends the same one with every call."""
    if not 1 <= len(classes) <= MAX_CLASSES:
        raise invalid_field("classes", f"1 to {MAX_CLASSES} class ids")
    return tuple(dict.fromkeys(names.check_class_id("classes", class_id) for class_id in classes))


def read_acquire(request: pb.AcquireLeaseRequest) -> Acquire:
    """The command; raises CallError, InvalidNameError."""
    slot_request = _slot_request(request)
    if request.session != slot_request.session:
        check_session("session", request.session)
        raise invalid_field("request_id", "its session is not that of the request")
    if request.slot != slot_request.slot:
        raise invalid_field("request_id", "its slot is not that of the request")
    classes = _class_ids(tuple(request.classes))
    if not request.HasField("ticket"):
        return Acquire(slot_request, classes)
    ticket_class = names.check_class_id("ticket.class", getattr(request.ticket, "class"))
    return Acquire(slot_request, classes, ticket_class, _announcement_id(request.ticket.announcement_id))


def _announcement_id(value: str) -> str:
    if len(value) > _MAX_ANNOUNCEMENT_ID or (value and _ANNOUNCEMENT_ID(value) is None):
        raise invalid_field("ticket.announcement_id", "not an id that this installation gave")
    return value


def _held(request: Any) -> LeaseKey:
    lease = names.parse_lease("lease", request.lease)
    if request.fencing_token != lease.token:
        raise invalid_field("fencing_token", "not the token of the lease")
    return lease


def _totals(given: pb.SliceTotals) -> Totals:
    handler = given.handler_time
    handler_ms = handler.seconds * 1_000 + handler.nanos // 1_000_000
    if handler_ms < 0:
        raise invalid_field("totals.handler_time", "not negative")
    return Totals(
        count("totals.messages", given.messages),
        count("totals.failed", given.failed),
        count("totals.dead_lettered", given.dead_lettered),
        count("totals.bytes", given.bytes),
        count("totals.handler_time", handler_ms),
    )


def _message_ids(field: str, given: Any) -> tuple[str, ...]:
    if not given:
        return ()
    if len(given) > MAX_IDS:
        raise invalid_field(field, f"at most {MAX_IDS} ids")
    return tuple([message_id(field, each) for each in given])


def read_progress(request: pb.ReportProgressRequest) -> Renew:
    """The command; raises CallError, InvalidNameError."""
    starting = request.starting_message_id
    return Renew(
        _slot_request(request),
        _held(request),
        _totals(request.totals),
        message_id("starting_message_id", starting) if starting else "",
        _message_ids("finished_message_ids", request.finished_message_ids),
    )


def read_settle(request: pb.SettleLeaseRequest) -> Settle:
    """The command; raises CallError, InvalidNameError."""
    end_reason = _END_REASONS.get(request.end_reason)
    if end_reason is None:
        raise invalid_field("end_reason", "required, one of the listed reasons")
    failed_id = message_id("failed.message_id", request.failed.message_id) if request.HasField("failed") else ""
    if failed_id and end_reason is not EndReason.ERROR:
        raise invalid_field("failed", "only with end_reason ERROR")
    return Settle(
        _slot_request(request),
        _held(request),
        end_reason,
        _totals(request.totals),
        _message_ids("returned_message_ids", request.returned_message_ids),
        _message_ids("finished_message_ids", request.finished_message_ids),
        failed_id,
        request.want_next,
        _class_ids(tuple(request.classes)) if request.want_next else (),
    )


def read_call(call: pb.LeaseCall) -> Acquire | Renew | Settle:
    """The command of one call of an exchange; raises CallError, InvalidNameError."""
    kind = call.WhichOneof("call")
    if kind == "settle":
        return read_settle(call.settle)
    if kind == "acquire":
        return read_acquire(call.acquire)
    required("call", kind is not None)
    return read_progress(call.progress)


# ---- from outcomes ------------------------------------------------------------------------------------------------------


def _set_ms(into: Any, milliseconds: int) -> None:
    """Writes a Duration or Timestamp in place."""
    into.seconds, into.nanos = milliseconds // 1_000, milliseconds % 1_000 * 1_000_000


@lru_cache(maxsize=1_024)
def _policy_part(terms: SliceTerms) -> bytes:
    """What a grant says of its terms, serialized: few terms are in use at a time, and merging bytes is one call."""
    part = pb.Granted(ordering=resources_pb2.Ordering.ValueType(terms.ordering))
    part.limits.max_messages = terms.slice_messages
    _set_ms(part.limits.max_duration, terms.slice_ms)
    part.retry_policy.max_attempts = terms.max_attempts
    _set_ms(part.retry_policy.initial_backoff, terms.backoff_ms)
    _set_ms(part.retry_policy.max_backoff, terms.backoff_cap_ms)
    return part.SerializeToString()


def fill_granted(into: pb.Granted, granted: Granted, session: str) -> None:
    """Writes a grant for the session that asked."""
    into.MergeFromString(_policy_part(granted.terms))
    key = granted.lease
    lease = into.lease
    of_queue = key.of_queue
    queue = names.queue_name(of_queue)
    lease.name = f"{queue}/leases/{key.token}"
    lease.queue = queue
    lease.amqp_queue = names.amqp_queue(of_queue)
    lease.priority_class = granted.priority_class
    lease.fencing_token = key.token
    lease.session = session
    _set_ms(lease.grant_time, granted.granted_ms)
    _set_ms(lease.waited, granted.waited_ms)
    if granted.carried == 1:  # a replay says only what remains
        _set_ms(lease.expire_time, granted.granted_ms + granted.valid_ms)
    _set_ms(into.valid_for, granted.valid_ms)


def fill_acquired(into: pb.AcquireLeaseResponse, outcome: Granted | Denied, session: str) -> None:
    """Writes the answer to an acquire."""
    if isinstance(outcome, Granted):
        fill_granted(into.granted, outcome, session)
        return
    into.denied.reason = pb.DenialReason.ValueType(outcome.reason)
    if outcome.retry_after_ms:
        _set_ms(into.denied.retry_after, outcome.retry_after_ms)


def fill_renewed(into: pb.ReportProgressResponse, outcome: Renewed) -> None:
    """Writes the answer to a progress report. A revoked lease is not renewed, so it has no new validity."""
    stop = outcome.stop
    if stop is None:
        into.directive.action = _CONTINUE
    else:
        into.directive.action = _STOP
        into.directive.reason = pb.EndReason.ValueType(stop)
    if stop is not EndReason.REVOKED:
        _set_ms(into.valid_for, outcome.valid_ms)
    if outcome.attempt:
        into.attempt = outcome.attempt


def fill_settled(into: pb.SettleLeaseResponse, outcome: Settled, session: str) -> None:
    """Writes the answer to a settle, with the next lease if there is one."""
    state = outcome.state
    into.disposition = _DISPOSITIONS[state]
    if state is QueueState.WAITING:
        _set_ms(into.waits_for, outcome.waits_ms)
    if outcome.next is not None:
        fill_granted(into.next_lease, outcome.next, session)


_DISPOSITIONS = {
    QueueState.IDLE: pb.DISPOSITION_IDLE,
    QueueState.READY: pb.DISPOSITION_READY,
    QueueState.WAITING: pb.DISPOSITION_WAITING,
    # Settled while another lease of the queue is live: it competes again as far as this holder is concerned.
    QueueState.LEASED: pb.DISPOSITION_READY,
}

DRAINING = Denied(DenialReason.DRAINING, 1_000)
"""The answer of a process that is shutting down to one who asks without a ticket."""
