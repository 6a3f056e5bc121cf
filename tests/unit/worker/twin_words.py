"""The worker's words as commands of the twin ledger, and its outcomes as the worker's words. Pure.

What protobuf, gRPC and both sides' conversions do in the product, for fakes of the lease service that have the twin behind them.
"""

from collections.abc import Sequence

from slicelease.control_plane.domain import commands, outcomes
from slicelease.control_plane.domain.names import amqp_queue, lease_name, parse_lease
from slicelease.worker.leases import (
    Denial,
    DenialReason,
    Disposition,
    EndReason,
    Grant,
    ProgressReport,
    Renewal,
    Settlement,
    SliceEnd,
    SliceTotals,
    Ticket,
)
from slicelease.worker.ports import LeaseOverError, RequestRefusedError


def acquire_command(request: commands.SlotRequest, classes: Sequence[str], ticket: Ticket | None) -> commands.Acquire:
    ticket_class, announcement = (ticket.class_id, ticket.announcement_id) if ticket else ("", "")
    return commands.Acquire(request, tuple(classes), ticket_class, announcement)


def renew_command(request: commands.SlotRequest, report: ProgressReport) -> commands.Renew:
    key = parse_lease("lease", report.grant.lease)
    return commands.Renew(request, key, _totals(report.totals), report.starting_id, report.finished_ids)


def settle_command(request: commands.SlotRequest, end: SliceEnd, next_among: Sequence[str]) -> commands.Settle:
    return commands.Settle(
        request,
        parse_lease("lease", end.grant.lease),
        commands.EndReason(int(end.reason)),
        _totals(end.totals),
        end.returned_ids,
        end.finished_ids,
        end.failed_id,
        bool(next_among),
        tuple(next_among),
    )


def accepted(outcome: outcomes.Outcome) -> outcomes.Outcome:
    """The outcome unless it is a refusal. Raises LeaseOverError, RequestRefusedError."""
    if isinstance(outcome, outcomes.Refused):
        if outcome.reason is outcomes.RefusalReason.LEASE_OVER:
            raise LeaseOverError(outcome.subject)
        raise RequestRefusedError(outcome.reason)
    return outcome


def acquired(outcome: outcomes.Outcome) -> Grant | Denial:
    if isinstance(outcome, outcomes.Denied):
        return Denial(DenialReason(int(outcome.reason)), outcome.retry_after_ms / 1000)
    assert isinstance(outcome, outcomes.Granted), outcome
    return grant_of(outcome)


def renewed(outcome: outcomes.Outcome) -> Renewal:
    assert isinstance(outcome, outcomes.Renewed), outcome
    stop = None if outcome.stop is None else EndReason(int(outcome.stop))
    return Renewal(outcome.valid_ms / 1000, stop, outcome.attempt)


def settled(outcome: outcomes.Outcome) -> Settlement:
    assert isinstance(outcome, outcomes.Settled), outcome
    following = None if outcome.next is None else grant_of(outcome.next)
    return Settlement(Disposition[outcome.state.name], following)


def grant_of(granted: outcomes.Granted) -> Grant:
    key, terms = granted.lease, granted.terms
    return Grant(
        lease_name(key),
        key.tenant,
        key.queue,
        amqp_queue(key.of_queue),
        granted.priority_class,
        key.token,
        granted.valid_ms / 1000,
        terms.slice_messages,
        terms.slice_ms / 1000,
        terms.max_attempts,
    )


def _totals(totals: SliceTotals) -> commands.Totals:
    return commands.Totals(totals.messages, totals.failed, totals.dead_lettered, totals.bytes, totals.handler_us // 1000)
