"""Repeated requests: one effect, the same answer, and never an ended lease."""

from __future__ import annotations

from dataclasses import replace

from slicelease.control_plane.domain.commands import (
    Acquire,
    ClaimPublish,
    CreateTenant,
    EndReason,
    GetQueue,
    GiveBack,
    ListLeases,
    ReadAnswer,
    ReleasePublish,
    Renew,
    RequestKey,
    Settle,
    SlotRequest,
    Totals,
    Touch,
)
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.outcomes import (
    DenialReason,
    Denied,
    Done,
    GivenBack,
    Granted,
    Page,
    PublishClaim,
    QueueState,
    QueueView,
    RefusalReason,
    Refused,
    Renewed,
    Settled,
    TenantView,
)
from slicelease.control_plane.domain.policy import TenantPolicy
from tests.contract.ledger.subject import Driver

ACME = QueueKey("acme", "default")
FIRST = SlotRequest("w", 0, 1, "one")
ASK = Acquire(FIRST, ("standard",))


def chained(granted: Granted) -> Settle:
    request = SlotRequest("w", 0, 2, "two")
    return Settle(request, granted.lease, EndReason.MESSAGES, Totals(20), want_next=True, classes=("standard",))


def test_r01_a_repeated_acquire_gets_the_same_lease_with_what_remains(ledger: Driver) -> None:
    ledger.touch("acme")
    first = ledger.do(ASK)
    assert isinstance(first, Granted)
    ledger.subject.advance(2_000)
    assert ledger.do(ASK) == replace(first, valid_ms=3_000, carried=2)
    leases = ledger.do(ListLeases())
    assert isinstance(leases, Page)
    assert len(leases.items) == 1


def test_a_repeated_acquire_never_gets_an_ended_lease(ledger: Driver) -> None:
    ledger.touch("acme")
    first = ledger.do(ASK)
    assert isinstance(first, Granted)
    ledger.subject.advance(5_000)
    assert ledger.do(ASK) == Refused(RefusalReason.LEASE_OVER, f"acme/default/{first.lease.token}")


def test_a_repeated_denial_is_the_same_denial_and_takes_no_lease(ledger: Driver) -> None:
    assert ledger.do(ASK) == Denied(DenialReason.NO_READY_QUEUE, 0)
    ledger.touch("acme")
    assert ledger.do(ASK) == Denied(DenialReason.NO_READY_QUEUE, 0)


def test_g01_other_content_under_the_same_id_is_refused(ledger: Driver) -> None:
    ledger.touch("acme")
    ledger.do(ASK)
    other = replace(ASK, request=replace(FIRST, digest="two"))
    assert ledger.do(other) == Refused(RefusalReason.REQUEST_ID_REUSED, "w/0/1")


def test_an_older_request_of_the_slot_is_refused(ledger: Driver) -> None:
    ledger.do(replace(ASK, request=replace(FIRST, n=2)))
    assert ledger.do(ASK) == Refused(RefusalReason.REQUEST_SUPERSEDED, "w/0/1")


def test_slots_and_sessions_do_not_disturb_each_other(ledger: Driver) -> None:
    ledger.touch("acme")
    ledger.touch("beta")
    ledger.touch("gamma")
    for place in (FIRST, replace(FIRST, slot=1), replace(FIRST, session="v")):
        assert isinstance(ledger.do(replace(ASK, request=place)), Granted)


def test_g01_a_repeated_settle_has_one_effect_and_carries_the_same_next_lease(ledger: Driver) -> None:
    ledger.touch("acme")
    ledger.touch("beta")
    granted = ledger.do(ASK)
    assert isinstance(granted, Granted)
    settle = Settle(
        SlotRequest("w", 0, 2, "two"), granted.lease, EndReason.MESSAGES, Totals(20), want_next=True, classes=("standard",)
    )
    first = ledger.do(settle)
    assert isinstance(first, Settled)
    assert first.next is not None
    ledger.subject.advance(1_000)
    assert ledger.do(settle) == replace(first, next=replace(first.next, valid_ms=4_000, carried=2))
    ledger.subject.advance(4_000)
    assert ledger.do(settle) == replace(first, next=None)


def test_g01_a_repeated_progress_counts_an_attempt_once(ledger: Driver) -> None:
    ledger.touch("acme")
    granted = ledger.do(ASK)
    assert isinstance(granted, Granted)
    renew = Renew(SlotRequest("w", 0, 2, "two"), granted.lease, Totals(), starting_id="m1")
    assert ledger.do(renew) == Renewed(15_000, None, 1)
    ledger.subject.advance(1_000)
    assert ledger.do(renew) == Renewed(14_000, None, 1)
    ledger.subject.advance(14_000)
    assert ledger.do(renew) == Refused(RefusalReason.LEASE_OVER, f"acme/default/{granted.lease.token}")


def test_answers_are_kept_for_ten_minutes(ledger: Driver) -> None:
    ledger.do(ASK)
    ledger.touch("acme")
    ledger.subject.advance(599_999)
    assert isinstance(ledger.do(ASK), Denied)
    ledger.subject.advance(1)
    assert isinstance(ledger.do(ASK), Granted)


def test_a_grant_is_given_back_when_its_caller_is_gone(ledger: Driver) -> None:
    ledger.touch("acme")
    ledger.subject.advance(700)
    granted = ledger.do(ASK)
    assert isinstance(granted, Granted)
    assert ledger.do(GiveBack("w", 0, 1, granted.lease, granted.carried)) == GivenBack(True)
    again = ledger.do(ASK)
    assert isinstance(again, Granted)
    assert (again.waited_ms, again.lease.token > granted.lease.token) == (700, True)


def test_a_give_back_has_no_effect_when_a_later_reply_carried_the_lease(ledger: Driver) -> None:
    ledger.touch("acme")
    granted = ledger.do(ASK)
    assert isinstance(granted, Granted)
    ledger.do(ASK)
    assert ledger.do(GiveBack("w", 0, 1, granted.lease, granted.carried)) == GivenBack(False)
    assert isinstance(ledger.ask(slot=1), Denied)


def test_a_give_back_has_no_effect_when_the_slot_has_gone_on(ledger: Driver) -> None:
    ledger.touch("acme")
    granted = ledger.do(ASK)
    assert isinstance(granted, Granted)
    ledger.do(Renew(SlotRequest("w", 0, 2, "two"), granted.lease, Totals()))
    assert ledger.do(GiveBack("w", 0, 1, granted.lease, granted.carried)) == GivenBack(False)


def test_a_next_lease_given_back_leaves_the_settle_settled(ledger: Driver) -> None:
    ledger.touch("acme")
    granted = ledger.do(ASK)
    assert isinstance(granted, Granted)
    settle = Settle(
        SlotRequest("w", 0, 2, "two"), granted.lease, EndReason.MESSAGES, Totals(), want_next=True, classes=("standard",)
    )
    settled = ledger.do(settle)
    assert isinstance(settled, Settled)
    assert settled.next is not None
    assert ledger.do(GiveBack("w", 0, 2, settled.next.lease, settled.next.carried)) == GivenBack(True)
    assert ledger.do(settle) == replace(settled, next=None)
    assert isinstance(ledger.ask(slot=1), Granted)


def test_a_repeated_creation_gets_the_first_answer(ledger: Driver) -> None:
    create = CreateTenant("acme", TenantPolicy("standard"), request=RequestKey("r1", "one"))
    first = ledger.do(create)
    assert isinstance(first, TenantView)
    assert ledger.do(create) == first
    assert ledger.do(replace(create, request=None)) == Refused(RefusalReason.RESOURCE_EXISTS, "acme")
    other = replace(create, request=RequestKey("r1", "two"))
    assert ledger.do(other) == Refused(RefusalReason.REQUEST_ID_REUSED, "r1")


def test_a_refused_creation_is_not_remembered(ledger: Driver) -> None:
    create = CreateTenant("acme", TenantPolicy("gold"), request=RequestKey("r1", "one"))
    assert isinstance(ledger.do(create), Refused)
    ledger.add_class("gold")
    assert isinstance(ledger.do(create), TenantView)


def test_a_publish_is_claimed_done_and_answered_again(ledger: Driver) -> None:
    ledger.touch("acme")
    claim = ClaimPublish(RequestKey("p1", "one"), "m1", "c1")
    assert ledger.do(claim) == PublishClaim("m1", "c1", done=False)
    again = replace(claim, message_id="m2", correlation_id="c2")
    assert ledger.do(again) == Refused(RefusalReason.REQUEST_IN_PROGRESS, "p1", 5_000)
    ledger.do(Touch(ACME, finishes=claim.request))
    assert ledger.do(again) == PublishClaim("m1", "c1", done=True)


def test_an_abandoned_claim_is_taken_over_with_the_same_ids(ledger: Driver) -> None:
    claim = ClaimPublish(RequestKey("p1", "one"), "m1", "c1")
    ledger.do(claim)
    ledger.subject.advance(5_000)
    assert ledger.do(replace(claim, message_id="m2")) == PublishClaim("m1", "c1", done=False)


def test_a_released_claim_is_taken_over_at_once(ledger: Driver) -> None:
    claim = ClaimPublish(RequestKey("p1", "one"), "m1", "c1")
    ledger.do(claim)
    assert ledger.do(ReleasePublish(claim.request)) == Done()
    assert ledger.do(replace(claim, message_id="m2")) == PublishClaim("m1", "c1", done=False)


def test_a_claim_with_other_content_is_refused(ledger: Driver) -> None:
    claim = ClaimPublish(RequestKey("p1", "one"), "m1", "c1")
    ledger.do(claim)
    other = replace(claim, request=RequestKey("p1", "two"))
    assert ledger.do(other) == Refused(RefusalReason.REQUEST_ID_REUSED, "p1")


def test_the_answer_of_a_request_can_be_read_and_nothing_else_is_one(ledger: Driver) -> None:
    request = RequestKey("c1", "one")
    assert ledger.do(ReadAnswer(request)) == Done()
    view = ledger.do(CreateTenant("acme", TenantPolicy("standard"), request=request))
    assert isinstance(view, TenantView)
    assert ledger.do(ReadAnswer(request)) == view
    assert ledger.do(ReadAnswer(replace(request, digest="two"))) == Refused(RefusalReason.REQUEST_ID_REUSED, "c1")
    ledger.do(ClaimPublish(RequestKey("p1", "one"), "m1", "c1"))
    assert ledger.do(ReadAnswer(RequestKey("p1", "one"))) == Refused(RefusalReason.REQUEST_ID_REUSED, "p1")
    ledger.subject.advance(10 * 60_000)
    assert ledger.do(ReadAnswer(request)) == Done()


def test_in_a_list_each_command_stands_alone(ledger: Driver) -> None:
    outcomes = ledger.subject.step(
        [Touch(QueueKey("nobody", "default")), Touch(ACME, TenantPolicy("standard")), ASK, GetQueue(ACME)]
    )
    assert outcomes[0] == Refused(RefusalReason.TENANT_NOT_FOUND, "nobody")
    assert isinstance(outcomes[2], Granted)
    assert isinstance(outcomes[3], QueueView)
    assert outcomes[3].state is QueueState.LEASED
