"""Renewal, lapse, loss, revocation, pause: how a lease lives and ends."""

from __future__ import annotations

from dataclasses import replace

from slicelease.control_plane.domain.commands import (
    CreateQueue,
    EndReason,
    ExpireLapsed,
    GetQueue,
    ListLeases,
    Pause,
    Ping,
    Renew,
    Resume,
    Revoke,
    Totals,
    UpdateClass,
    WakeDue,
)
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.outcomes import (
    DenialReason,
    Denied,
    Expired,
    Granted,
    LeaseView,
    Outcome,
    Page,
    Pong,
    QueueState,
    QueueView,
    RefusalReason,
    Refused,
    Renewed,
    Woken,
)
from slicelease.control_plane.domain.policy import ClassPolicy, Ordering, QueuePolicy, SliceTerms
from tests.contract.ledger.subject import Driver

ACME = QueueKey("acme", "default")


def renew(ledger: Driver, granted: Granted, starting: str = "", finished: tuple[str, ...] = (), done: int = 0) -> Outcome:
    return ledger.do(Renew(ledger.request(), granted.lease, Totals(done), starting, finished))


def state(ledger: Driver) -> tuple[QueueState, int]:
    view = ledger.do(GetQueue(ACME))
    assert isinstance(view, QueueView)
    return view.state, view.due_ms


def expire(ledger: Driver) -> Expired:
    outcome = ledger.do(ExpireLapsed())
    assert isinstance(outcome, Expired)
    return outcome


def granted(ledger: Driver, ordering: Ordering = Ordering.STRICT) -> Granted:
    ledger.do(UpdateClass("standard", ClassPolicy(10_000, SliceTerms(ordering=ordering))))
    ledger.touch("acme")
    return ledger.grant()


def test_the_first_validity_is_short_and_a_renewal_makes_it_full(ledger: Driver) -> None:
    lease = granted(ledger)
    ledger.subject.advance(4_999)
    assert renew(ledger, lease, done=3) == Renewed(15_000, None, 0)
    ledger.subject.advance(14_999)
    (view,) = page(ledger.do(ListLeases()))
    assert (view.expires_ms - view.granted_ms, view.totals) == (19_999, Totals(3))


def page(outcome: Outcome) -> list[LeaseView]:
    assert isinstance(outcome, Page)
    return [view for view in outcome.items if isinstance(view, LeaseView)]


def test_a_lease_past_its_time_is_over_before_anything_else_is_decided(ledger: Driver) -> None:
    lease = granted(ledger, Ordering.NONE)
    ledger.subject.advance(5_000)
    assert renew(ledger, lease) == Refused(RefusalReason.LEASE_OVER, f"acme/default/{lease.lease.token}")
    assert ledger.grant(slot=1).lease.token > lease.lease.token


def test_r09_an_unordered_queue_is_served_again_at_once_and_the_late_holder_is_refused(ledger: Driver) -> None:
    lease = granted(ledger, Ordering.NONE)
    ledger.subject.advance(5_000)
    again = ledger.grant(slot=1)
    assert isinstance(ledger.settle(lease, EndReason.EMPTY), Refused)
    assert ledger.settled(again, EndReason.MESSAGES, slot=1).state is QueueState.READY


def test_r09_a_queue_in_order_rests_until_the_lost_holders_connection_is_gone(ledger: Driver) -> None:
    granted(ledger)
    ledger.subject.advance(5_000)
    assert ledger.ask(slot=1) == Denied(DenialReason.NO_READY_QUEUE, 0)
    assert state(ledger)[0] is QueueState.WAITING
    ledger.subject.advance(15_999)
    assert isinstance(ledger.ask(slot=1), Denied)
    ledger.subject.advance(1)
    assert isinstance(ledger.ask(slot=1), Granted)


def test_empty_is_not_believed_while_a_lost_holder_may_hold_messages(ledger: Driver) -> None:
    granted(ledger, Ordering.NONE)
    ledger.subject.advance(5_000)
    settled = ledger.settled(ledger.grant(slot=1), EndReason.EMPTY, slot=1)
    assert (settled.state, settled.waits_ms) == (QueueState.WAITING, 16_000)
    ledger.subject.advance(16_000)
    assert ledger.settled(ledger.grant(slot=1), EndReason.EMPTY, slot=1).state is QueueState.IDLE


def test_empty_that_may_have_been_seen_too_early_is_not_believed_when_told_late(ledger: Driver) -> None:
    granted(ledger, Ordering.NONE)
    ledger.subject.advance(5_000)
    again = ledger.grant(slot=1)
    ledger.subject.advance(4_000)
    ledger.do(Renew(ledger.request(slot=1), again.lease, Totals()))
    ledger.subject.advance(12_000)
    assert ledger.settled(again, EndReason.EMPTY, slot=1).state is QueueState.READY
    assert ledger.settled(ledger.grant(slot=1), EndReason.EMPTY, slot=1).state is QueueState.IDLE


def test_the_quarantine_counts_from_the_end_of_the_lost_lease_and_not_from_its_renewal(ledger: Driver) -> None:
    """The holder may have used its connection until its lease ended: a freeze comes at any moment of it."""
    lease = granted(ledger)
    renew(ledger, lease)
    ledger.subject.advance(15_000)
    assert isinstance(ledger.ask(slot=1), Denied)
    ledger.subject.advance(15_999)
    assert isinstance(ledger.ask(slot=1), Denied)
    ledger.subject.advance(1)
    assert isinstance(ledger.ask(slot=1), Granted)


def test_a_broken_link_counts_as_a_lost_holder_from_now(ledger: Driver) -> None:
    lease = granted(ledger)
    ledger.subject.advance(1_000)
    settled = ledger.settled(lease, EndReason.BROKER_LOST)
    assert (settled.state, settled.waits_ms) == (QueueState.WAITING, 16_000)


def test_lapses_are_reported_once(ledger: Driver) -> None:
    lease = granted(ledger)
    ledger.subject.advance(5_000)
    ledger.do(Ping())
    assert expire(ledger) == Expired(((lease.lease, "standard"),), more=False)
    assert expire(ledger) == Expired((), more=False)


def test_many_lapses_are_worked_off_in_bounded_batches(ledger: Driver) -> None:
    ledger.do(UpdateClass("standard", ClassPolicy(10_000, SliceTerms(ordering=Ordering.NONE), max_leases=300)))
    for n in range(300):
        ledger.touch(f"t{n}")
        ledger.grant(slot=n)
    ledger.subject.advance(5_000)
    assert isinstance(ledger.grant(slot=301), Granted)  # lapsed leases take no slot, expired or not
    seen = 0
    while (report := expire(ledger)).leases or report.more:
        seen += len(report.leases)
    assert seen == 300


def test_a_waiting_queue_wakes_when_due(ledger: Driver) -> None:
    lease = granted(ledger)
    settled = ledger.settled(lease, EndReason.ERROR, failed_id="m1")
    assert (settled.state, settled.waits_ms) == (QueueState.WAITING, 1_000)
    ledger.touch("acme")
    assert state(ledger)[0] is QueueState.WAITING
    ledger.subject.advance(999)
    assert ledger.do(WakeDue()) == Woken(0, more=False)
    ledger.subject.advance(1)
    ledger.do(WakeDue())
    assert state(ledger) == (QueueState.READY, 0)


def test_revoke_refuses_renewals_and_leaves_the_lease_counted(ledger: Driver) -> None:
    lease = granted(ledger)
    ledger.subject.advance(1_000)
    view = ledger.do(Revoke(lease.lease))
    assert isinstance(view, LeaseView)
    assert view.revoked
    assert renew(ledger, lease) == Renewed(4_000, EndReason.REVOKED, 0)
    assert ledger.ask(slot=1) == Denied(DenialReason.NO_READY_QUEUE, 0)
    assert ledger.settled(lease, EndReason.REVOKED).state is QueueState.READY


def test_a_forced_revoke_ends_the_lease_now(ledger: Driver) -> None:
    lease = granted(ledger, Ordering.NONE)
    ledger.do(Revoke(lease.lease, force=True))
    assert ledger.grant(slot=1).lease.token > lease.lease.token
    missing = ledger.do(Revoke(lease.lease))
    assert missing == Refused(RefusalReason.LEASE_NOT_FOUND, f"acme/default/{lease.lease.token}")


def test_a_paused_queue_keeps_its_state_and_is_never_granted(ledger: Driver) -> None:
    ledger.touch("acme")
    assert ledger.announcements()
    paused = ledger.do(Pause(ACME))
    assert isinstance(paused, QueueView)
    assert (paused.paused, paused.state) == (True, QueueState.READY)
    assert isinstance(ledger.ask(), Denied)
    ledger.touch("acme")
    assert isinstance(ledger.ask(), Denied)
    ledger.subject.advance(60_000)
    ledger.do(Resume(ACME))
    assert ledger.grant().waited_ms == 0


def test_a_pause_of_an_idle_queue_holds_back_what_is_touched_later(ledger: Driver) -> None:
    ledger.touch("acme")
    ledger.settled(ledger.grant(), EndReason.EMPTY)
    ledger.do(Pause(ACME))
    ledger.touch("acme")
    assert (isinstance(ledger.ask(), Denied), ledger.announcements()) == (True, [])
    ledger.do(Resume(ACME))
    assert len(ledger.announcements()) == 1
    assert isinstance(ledger.ask(), Granted)


def test_the_holder_on_a_paused_queue_is_renewed_and_told_to_stop(ledger: Driver) -> None:
    lease = granted(ledger)
    ledger.do(Pause(ACME))
    assert renew(ledger, lease) == Renewed(15_000, EndReason.PAUSED, 0)
    assert ledger.settled(lease, EndReason.PAUSED).state is QueueState.READY
    assert isinstance(ledger.ask(), Denied)
    ledger.do(Resume(ACME))
    assert isinstance(ledger.ask(), Granted)


def test_pausing_twice_and_resuming_twice_changes_nothing_more(ledger: Driver) -> None:
    ledger.touch("acme")
    ledger.do(Pause(ACME))
    ledger.do(Pause(ACME))
    ledger.do(Resume(ACME))
    ledger.subject.advance(100)
    ledger.do(Resume(ACME))
    assert ledger.grant().waited_ms == 100


def test_a_waiting_queue_that_is_paused_and_comes_due_is_granted_after_resume(ledger: Driver) -> None:
    ledger.settled(granted(ledger), EndReason.ERROR)
    ledger.do(Pause(ACME))
    ledger.subject.advance(2_000)
    ledger.do(WakeDue())
    assert isinstance(ledger.ask(), Denied)
    ledger.do(Resume(ACME))
    assert isinstance(ledger.ask(), Granted)


def test_tokens_only_rise_also_when_everything_is_lost(ledger: Driver) -> None:
    before = granted(ledger).lease.token
    ledger.subject.lose_everything()
    ledger.add_class()
    ledger.subject.advance(31_000)
    ledger.touch("acme")
    assert ledger.grant(session="v").lease.token > before


def test_a_restarted_store_closes_admission_for_the_longest_lease_and_its_quarantine(ledger: Driver) -> None:
    lease = granted(ledger)
    ledger.touch("beta")
    ledger.subject.restart()
    ledger.subject.advance(1_000)
    assert ledger.ask(slot=1) == Denied(DenialReason.ADMISSION_CLOSED, 31_000)
    assert renew(ledger, lease) == Renewed(15_000, None, 0)
    ledger.subject.advance(30_999)
    assert ledger.ask(slot=1) == Denied(DenialReason.ADMISSION_CLOSED, 1)
    assert ledger.announcements() == []
    ledger.subject.advance(1)
    assert ledger.announcements()
    assert ledger.grant(slot=1).lease.of_queue.tenant == "beta"


def test_ping_tells_how_long_admission_stays_closed(ledger: Driver) -> None:
    before = ledger.do(Ping())
    ledger.subject.restart()
    after = ledger.do(Ping())
    assert isinstance(before, Pong)
    assert isinstance(after, Pong)
    assert (before.closed_ms, after.closed_ms) == (0, 31_000)
    assert after.generation > before.generation


def test_attempts_are_counted_before_the_handler_starts_and_dropped_when_it_ends(ledger: Driver) -> None:
    lease = granted(ledger)
    assert renew(ledger, lease, starting="m1") == Renewed(15_000, None, 1)
    ledger.settled(lease, EndReason.ERROR, failed_id="m1")
    ledger.subject.advance(1_000)
    lease = ledger.grant()
    assert renew(ledger, lease, starting="m1") == Renewed(15_000, None, 2)
    assert renew(ledger, lease, starting="m2", finished=("m1",)) == Renewed(15_000, None, 1)
    assert renew(ledger, lease, starting="m1") == Renewed(15_000, None, 1)


def test_a_first_failure_that_was_not_announced_counts_once(ledger: Driver) -> None:
    lease = granted(ledger)
    ledger.settled(lease, EndReason.ERROR, failed_id="m1")
    ledger.subject.advance(1_000)
    lease = ledger.grant()
    assert renew(ledger, lease, starting="m1") == Renewed(15_000, None, 2)
    settled = ledger.settled(lease, EndReason.ERROR, failed_id="m1")
    assert settled.waits_ms == 2_000


def test_j12_the_back_off_doubles_up_to_its_cap_and_survives_a_restart(ledger: Driver) -> None:
    waits = []
    lease = granted(ledger)
    for _ in range(8):
        settled = ledger.settled(lease, EndReason.ERROR, failed_id="m1")
        waits.append(settled.waits_ms)
        ledger.subject.restart()
        ledger.subject.advance(max(settled.waits_ms, 15_000))
        ledger.do(Ping())
        ledger.subject.advance(31_000)
        lease = ledger.grant()
    assert waits == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]


def test_a05_what_is_given_back_unfinished_is_not_charged(ledger: Driver) -> None:
    lease = granted(ledger)
    assert renew(ledger, lease, starting="m1") == Renewed(15_000, None, 1)
    ledger.settled(lease, EndReason.SHUTDOWN, returned_ids=("m1", "m2"))
    assert renew(ledger, ledger.grant(), starting="m1") == Renewed(15_000, None, 1)


def test_a05_what_was_started_when_the_holder_died_stays_charged(ledger: Driver) -> None:
    lease = granted(ledger, Ordering.NONE)
    renew(ledger, lease, starting="m1")
    ledger.subject.advance(15_000)
    assert renew(ledger, ledger.grant(), starting="m1") == Renewed(15_000, None, 2)


def test_an_error_without_a_message_rests_for_the_initial_back_off(ledger: Driver) -> None:
    assert ledger.settled(granted(ledger), EndReason.ERROR).waits_ms == 1_000


def test_the_terms_of_a_lease_are_those_at_its_grant(ledger: Driver) -> None:
    ledger.do(UpdateClass("standard", ClassPolicy(10_000, SliceTerms(slice_messages=7, max_attempts=2))))
    ledger.touch("acme")
    ledger.do(CreateQueue(QueueKey("acme", "mail"), QueuePolicy(terms=SliceTerms(slice_ms=100))))
    leases = {lease.lease.queue: lease.terms for lease in (ledger.grant(slot=0), ledger.grant(slot=1))}
    common = SliceTerms(7, 5_000, 2, 1_000, 60_000, Ordering.STRICT)
    assert leases == {"default": common, "mail": replace(common, slice_ms=100)}
