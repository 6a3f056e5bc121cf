"""Lease calls: what is accepted, and what an outcome looks like."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from slicelease.control_plane.domain.commands import Acquire, EndReason, Renew, Settle, SlotRequest, Totals
from slicelease.control_plane.domain.names import InvalidNameError, LeaseKey
from slicelease.control_plane.domain.outcomes import DenialReason, Denied, Granted, QueueState, Renewed, Settled
from slicelease.control_plane.domain.policy import INSTALLATION_TERMS, Ordering, SliceTerms
from slicelease.control_plane.rpc import lease_convert
from slicelease.control_plane.rpc.status import CallError
from slicelease.v1 import lease_service_pb2 as pb
from slicelease.v1 import resources_pb2

LEASE = "tenants/acme/queues/mail/leases/17"
KEY = LeaseKey("acme", "mail", 17)


def acquire(**fields: Any) -> pb.AcquireLeaseRequest:
    given: dict[str, Any] = {"session": "w-1", "slot": 3, "classes": ["bulk"], "request_id": "w-1/3/9"}
    return pb.AcquireLeaseRequest(**(given | fields))


def progress(**fields: Any) -> pb.ReportProgressRequest:
    given: dict[str, Any] = {"lease": LEASE, "fencing_token": 17, "request_id": "w-1/3/9"}
    return pb.ReportProgressRequest(**(given | fields))


def settle(**fields: Any) -> pb.SettleLeaseRequest:
    given: dict[str, Any] = {"lease": LEASE, "fencing_token": 17, "request_id": "w-1/3/9", "end_reason": pb.END_REASON_EMPTY}
    return pb.SettleLeaseRequest(**(given | fields))


def ticket(class_id: str, announcement_id: str = "a-1") -> pb.Ticket:
    return pb.Ticket(**{"class": class_id, "announcement_id": announcement_id})


def test_an_acquire_becomes_its_command() -> None:
    command = lease_convert.read_acquire(acquire(classes=["bulk", "standard", "bulk"], ticket=ticket("bulk")))
    digest = command.request.digest
    assert command == Acquire(SlotRequest("w-1", 3, 9, digest), ("bulk", "standard"), "bulk", "a-1")
    assert len(digest) == 32


def test_a_progress_report_becomes_its_command() -> None:
    totals = pb.SliceTotals(messages=1, failed=2, dead_lettered=3, bytes=4, handler_time=Duration(seconds=5, nanos=6_999_999))
    command = lease_convert.read_progress(progress(totals=totals, starting_message_id="m", finished_message_ids=["a", "b"]))
    assert command == Renew(command.request, KEY, Totals(1, 2, 3, 4, 5_006), "m", ("a", "b"))


def test_a_settle_becomes_its_command() -> None:
    given = settle(
        end_reason=pb.END_REASON_ERROR,
        returned_message_ids=["r"],
        failed=pb.FailedMessage(message_id="f"),
        want_next=True,
        classes=["bulk"],
    )
    command = lease_convert.read_settle(given)
    assert command == Settle(command.request, KEY, EndReason.ERROR, Totals(), ("r",), (), "f", True, ("bulk",))


def test_the_same_content_has_the_same_digest_whichever_way_it_comes() -> None:
    alone = lease_convert.read_settle(settle()).request
    within = lease_convert.read_call(pb.LeaseCall(settle=settle())).request
    assert alone == within
    assert lease_convert.read_settle(settle(totals=pb.SliceTotals(messages=1))).request.digest != alone.digest


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (acquire(request_id=""), "request_id"),
        (acquire(request_id="w-1/3"), "request_id"),
        (acquire(request_id="w-1/3/x"), "request_id"),
        (acquire(request_id="w-1/3/09"), "request_id"),
        (acquire(request_id="w-1/3/-1"), "request_id"),
        (acquire(request_id="w-1/3/9\n"), "request_id"),
        (acquire(request_id="w-1/3/9999999999999999"), "request_id"),
        (acquire(request_id="w-1/10000/9"), "request_id"),
        (acquire(request_id="w-2/3/9"), "request_id"),
        (acquire(request_id="w-1/4/9"), "request_id"),
        (acquire(session="a b"), "session"),
        (acquire(classes=[]), "classes"),
        (acquire(classes=[f"c{n}" for n in range(65)]), "classes"),
        (acquire(ticket=ticket("bulk", "x" * 65)), "ticket.announcement_id"),
        (acquire(ticket=ticket("bulk", "a b")), "ticket.announcement_id"),
        (progress(fencing_token=18), "fencing_token"),
        (progress(fencing_token=-17), "fencing_token"),
        (progress(starting_message_id="x" * 256), "starting_message_id"),
        (progress(finished_message_ids=[""]), "finished_message_ids"),
        (progress(finished_message_ids=["x"] * 10_001), "finished_message_ids"),
        (progress(totals=pb.SliceTotals(messages=2**53)), "totals.messages"),
        (progress(totals=pb.SliceTotals(bytes=2**64 - 1)), "totals.bytes"),
        (progress(totals=pb.SliceTotals(handler_time=Duration(seconds=-1))), "totals.handler_time"),
        (settle(end_reason=pb.END_REASON_UNSPECIFIED), "end_reason"),
        (settle(end_reason=99), "end_reason"),
        (settle(failed=pb.FailedMessage(message_id="m")), "failed"),
        (settle(end_reason=pb.END_REASON_ERROR, failed=pb.FailedMessage()), "failed.message_id"),
        (settle(want_next=True), "classes"),
        (settle(returned_message_ids=["x" * 256]), "returned_message_ids"),
    ],
)
def test_a_wrong_field_is_refused_by_its_path(request_: Any, field: str) -> None:
    readers: dict[type, Any] = {
        pb.AcquireLeaseRequest: lease_convert.read_acquire,
        pb.ReportProgressRequest: lease_convert.read_progress,
        pb.SettleLeaseRequest: lease_convert.read_settle,
    }
    with pytest.raises(CallError) as caught:
        readers[type(request_)](request_)
    assert caught.value.fault.metadata == {"field": field}


@pytest.mark.parametrize("class_id", ["work", "a.b", "", "é", "x" * 64])
def test_a_class_that_is_none_is_refused(class_id: str) -> None:
    with pytest.raises(InvalidNameError):
        lease_convert.read_acquire(acquire(classes=["bulk", class_id]))
    with pytest.raises(InvalidNameError):
        lease_convert.read_acquire(acquire(ticket=ticket(class_id)))


def granted(carried: int = 1, terms: SliceTerms = INSTALLATION_TERMS) -> Granted:
    return Granted(KEY, "bulk", 5_000, 1_250, 1_700_000_000_500, terms, carried)


def test_a_grant_says_all_that_its_holder_needs() -> None:
    into = pb.AcquireLeaseResponse()
    lease_convert.fill_acquired(into, granted(terms=SliceTerms(7, 1_500, 3, 250, 90_000, Ordering.NONE)), "w-1")
    lease = into.granted.lease
    assert (lease.name, lease.queue, lease.amqp_queue) == (LEASE, "tenants/acme/queues/mail", "work.acme.mail")
    assert (lease.priority_class, lease.fencing_token, lease.session) == ("bulk", 17, "w-1")
    assert (lease.waited.seconds, lease.waited.nanos) == (1, 250_000_000)
    assert lease.expire_time.ToMilliseconds() == 1_700_000_005_500
    assert into.granted.valid_for.ToMilliseconds() == 5_000
    assert (into.granted.limits.max_messages, into.granted.limits.max_duration.ToMilliseconds()) == (7, 1_500)
    retry = into.granted.retry_policy
    assert (retry.max_attempts, retry.initial_backoff.ToMilliseconds(), retry.max_backoff.ToMilliseconds()) == (3, 250, 90_000)
    assert into.granted.ordering == resources_pb2.ORDERING_NONE


def test_a_denial_says_why_and_when_only_if_that_is_known() -> None:
    into = pb.AcquireLeaseResponse()
    lease_convert.fill_acquired(into, Denied(DenialReason.NO_READY_QUEUE, 0), "w-1")
    assert into.denied.reason == pb.DENIAL_REASON_NO_READY_QUEUE
    assert not into.denied.HasField("retry_after")
    lease_convert.fill_acquired(into, Denied(DenialReason.ADMISSION_CLOSED, 1_500), "w-1")
    assert into.denied.retry_after.ToMilliseconds() == 1_500


def test_a_revoked_lease_is_told_to_stop_and_not_renewed_a_paused_one_is() -> None:
    for stop, renewed in ((EndReason.REVOKED, False), (EndReason.PAUSED, True)):
        into = pb.ReportProgressResponse()
        lease_convert.fill_renewed(into, Renewed(9_000, stop, 2))
        assert into.HasField("valid_for") is renewed
        assert (into.directive.action, into.directive.reason, into.attempt) == (pb.Directive.ACTION_STOP, int(stop), 2)


def test_a_settle_tells_the_disposition_the_wait_and_the_next_lease() -> None:
    into = pb.SettleLeaseResponse()
    lease_convert.fill_settled(into, Settled(QueueState.WAITING, 2_500, 9, "bulk", granted()), "w-1")
    assert into.disposition == pb.DISPOSITION_WAITING
    assert into.waits_for.ToMilliseconds() == 2_500
    assert into.next_lease.lease.name == LEASE


def test_every_state_has_a_disposition_and_every_number_is_that_of_the_wire() -> None:
    for state in QueueState:
        into = pb.SettleLeaseResponse()
        lease_convert.fill_settled(into, Settled(state, 0, 0, "bulk", None), "w-1")
        assert into.disposition != pb.DISPOSITION_UNSPECIFIED
    assert {f"END_REASON_{reason.name}": int(reason) for reason in EndReason} == {
        name: number for name, number in pb.EndReason.items() if number
    }
    assert {f"DENIAL_REASON_{reason.name}": int(reason) for reason in DenialReason} == {
        name: number for name, number in pb.DenialReason.items() if number
    }
