"""Lease calls between the worker's values and the wire.

May know protobuf. May not know gRPC, Trio, or retries.
"""

from __future__ import annotations

from collections.abc import Sequence

from google.protobuf.duration_pb2 import Duration

from slicelease.v1 import lease_service_pb2 as pb
from slicelease.worker.leases import (
    Denial,
    DenialReason,
    Directive,
    Disposition,
    EndReason,
    Grant,
    ProgressReport,
    Renewal,
    Settlement,
    SliceEnd,
    SliceTotals,
    Ticket,
    Welcome,
)
from slicelease.worker.ports import RequestRefusedError

_STOP = pb.Directive.ACTION_STOP


class StrangeAnswerError(RequestRefusedError):
    """The answer lacks what the contract says it has."""


def acquire_call(session: str, slot: int, classes: Sequence[str], ticket: Ticket | None, request_id: str) -> pb.LeaseCall:
    """An acquire."""
    call = pb.LeaseCall()
    acquire = call.acquire
    acquire.session, acquire.slot, acquire.request_id = session, slot, request_id
    acquire.classes.extend(classes)
    if ticket is not None:
        setattr(acquire.ticket, "class", ticket.class_id)  # the field's name is a Python keyword
        acquire.ticket.announcement_id = ticket.announcement_id
    return call


def progress_call(report: ProgressReport, request_id: str) -> pb.LeaseCall:
    """A progress report."""
    return pb.LeaseCall(
        progress=pb.ReportProgressRequest(
            lease=report.grant.lease,
            fencing_token=report.grant.fencing_token,
            totals=_totals(report.totals),
            request_id=request_id,
            starting_message_id=report.starting_id,
            finished_message_ids=report.finished_ids,
        )
    )


def settle_call(end: SliceEnd, next_among: Sequence[str], request_id: str) -> pb.LeaseCall:
    """A settle; with `next_among` it wants the next lease."""
    call = pb.LeaseCall()
    settle = call.settle
    settle.lease, settle.fencing_token, settle.request_id = end.grant.lease, end.grant.fencing_token, request_id
    settle.end_reason = pb.EndReason.ValueType(int(end.reason))
    settle.totals.CopyFrom(_totals(end.totals))
    settle.returned_message_ids.extend(end.returned_ids)
    settle.finished_message_ids.extend(end.finished_ids)
    if next_among:
        settle.want_next = True
        settle.classes.extend(next_among)
    if end.failed_id:
        settle.failed.message_id = end.failed_id
    return call


def acquire_answer(answer: pb.AcquireLeaseResponse) -> Grant | Denial:
    """Raises StrangeAnswerError."""
    if answer.HasField("granted"):
        return grant(answer.granted)
    if not answer.HasField("denied"):
        raise StrangeAnswerError("neither granted nor denied")
    try:
        reason = DenialReason(answer.denied.reason)
    except ValueError:
        reason = DenialReason.NO_READY_QUEUE  # a reason of a newer control plane is a denial all the same
    return Denial(reason, _seconds(answer.denied.retry_after))


def progress_answer(answer: pb.ReportProgressResponse) -> Renewal:
    """The answer to a progress report."""
    valid_s = _seconds(answer.valid_for) if answer.HasField("valid_for") else None
    return Renewal(valid_s, _stop(answer.directive), answer.attempt)


def settle_answer(answer: pb.SettleLeaseResponse) -> Settlement:
    """Raises StrangeAnswerError."""
    try:
        disposition = Disposition(answer.disposition)
    except ValueError:
        raise StrangeAnswerError(f"disposition {answer.disposition}") from None
    return Settlement(disposition, grant(answer.next_lease) if answer.HasField("next_lease") else None)


def directive(event: pb.LeaseDirective) -> Directive | None:
    """None where it says to go on."""
    stop = _stop(event.directive)
    return None if stop is None else Directive(event.lease, stop)


def welcome(event: pb.Welcome) -> Welcome:
    """The first event of the stream."""
    return Welcome(_seconds(event.max_amqp_heartbeat), _seconds(event.lease_length), event.server_version)


def grant(granted: pb.Granted) -> Grant:
    """Raises StrangeAnswerError."""
    lease, limits = granted.lease, granted.limits
    parts = lease.queue.split("/")
    if len(parts) != 4 or not lease.amqp_queue or not limits.max_messages or not granted.retry_policy.max_attempts:
        raise StrangeAnswerError(f"an incomplete grant of {lease.name!r}")
    return Grant(
        lease=lease.name,
        tenant=parts[1],
        queue=parts[3],
        amqp_queue=lease.amqp_queue,
        priority_class=lease.priority_class,
        fencing_token=lease.fencing_token,
        valid_s=_seconds(granted.valid_for),
        max_messages=limits.max_messages,
        max_duration_s=_seconds(limits.max_duration),
        max_attempts=granted.retry_policy.max_attempts,
    )


def _stop(given: pb.Directive) -> EndReason | None:
    if given.action != _STOP:
        return None
    try:
        return EndReason(given.reason)
    except ValueError:
        return EndReason.REVOKED  # told to stop, for a reason of a newer control plane


def _totals(totals: SliceTotals) -> pb.SliceTotals:
    handler_time = Duration(seconds=totals.handler_us // 1_000_000, nanos=totals.handler_us % 1_000_000 * 1_000)
    return pb.SliceTotals(
        messages=totals.messages,
        failed=totals.failed,
        dead_lettered=totals.dead_lettered,
        bytes=totals.bytes,
        handler_time=handler_time,
    )


def _seconds(duration: Duration) -> float:
    return duration.seconds + duration.nanos / 1_000_000_000
