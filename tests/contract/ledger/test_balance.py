"""Announcements: as many out as there are queues that could be granted, whatever happens to them."""

from __future__ import annotations

from slicelease.control_plane.domain.commands import (
    ClaimAnnouncements,
    EndReason,
    MarkPublished,
    ObserveAttention,
    Pause,
    ReadStats,
    Resume,
    UpdateClass,
    UpdateTenant,
)
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.outcomes import (
    Announcements,
    ClassStats,
    DenialReason,
    Denied,
    Observed,
    Stats,
)
from slicelease.control_plane.domain.policy import ClassPolicy, TenantPolicy
from tests.contract.ledger.subject import Driver


def stats(ledger: Driver, class_id: str = "standard") -> ClassStats:
    outcome = ledger.do(ReadStats())
    assert isinstance(outcome, Stats)
    return next(found for found in outcome.classes if found.class_id == class_id)


def out(ledger: Driver, class_id: str = "standard") -> int:
    found = stats(ledger, class_id)
    return found.owed + found.published


def test_each_ready_queue_brings_one_announcement(ledger: Driver) -> None:
    for tenant in ("a", "b", "c"):
        ledger.touch(tenant)
        ledger.touch(tenant)
    assert (out(ledger), stats(ledger).ready) == (3, 3)


def test_an_ask_takes_its_id_and_a_duplicate_takes_none(ledger: Driver) -> None:
    for tenant in ("a", "b", "c"):
        ledger.touch(tenant)
    ticket, *_ = ledger.announcements()
    ledger.grant(ticket=ticket)
    assert out(ledger) == 2
    ledger.grant(slot=1, ticket=ticket)
    assert (out(ledger), stats(ledger).ready) == (2, 1)


def test_a_denied_ask_of_the_last_live_id_is_announced_again_when_needed(ledger: Driver) -> None:
    ledger.touch("a")
    (ticket,) = ledger.announcements()
    ledger.grant()
    assert ledger.ask(slot=1, ticket=ticket) == Denied(DenialReason.NO_READY_QUEUE, 0)
    assert out(ledger) == 0
    ledger.touch("b")
    assert out(ledger) == 1


def test_an_ask_with_classes_that_do_not_fit_its_ticket_strands_nothing(ledger: Driver) -> None:
    ledger.add_class("bulk", 300_000)
    ledger.touch("a")
    (ticket,) = ledger.announcements()
    assert isinstance(ledger.ask("bulk", ticket=ticket), Denied)
    assert out(ledger) == 1


def test_chains_cause_no_announcements(ledger: Driver) -> None:
    for tenant in ("a", "b"):
        ledger.touch(tenant)
    tickets = ledger.announcements()
    granted = ledger.grant(ticket=tickets[0])
    for _ in range(20):
        settled = ledger.settled(granted, EndReason.MESSAGES, want_next=True, classes=("standard",))
        assert settled.next is not None
        granted = settled.next
    assert ledger.announcements() == []
    assert out(ledger) == 1


def test_a_claim_is_left_alone_until_it_is_old(ledger: Driver) -> None:
    ledger.touch("a")
    first = ledger.do(ClaimAnnouncements())
    assert isinstance(first, Announcements)
    assert ledger.do(ClaimAnnouncements()) == Announcements(())
    ledger.subject.advance(5_000)
    assert ledger.do(ClaimAnnouncements()) == first
    ledger.do(MarkPublished("standard", (first.claimed[0][1],)))
    ledger.subject.advance(5_000)
    assert ledger.do(ClaimAnnouncements()) == Announcements(())


def test_an_id_asked_with_before_it_was_marked_is_not_brought_back_by_the_mark(ledger: Driver) -> None:
    ledger.touch("a")
    claimed = ledger.do(ClaimAnnouncements())
    assert isinstance(claimed, Announcements)
    ledger.grant(ticket=claimed.claimed[0])
    ledger.do(MarkPublished("standard", (claimed.claimed[0][1],)))
    assert out(ledger) == 0


def test_what_is_owed_and_no_longer_needed_is_struck(ledger: Driver) -> None:
    ledger.touch("a")
    ledger.grant()
    assert ledger.announcements() == []
    assert out(ledger) == 0


def test_urgent_classes_are_announced_first(ledger: Driver) -> None:
    ledger.add_class("interactive", 1_000)
    ledger.add_class("bulk", 300_000)
    for class_id in ("bulk", "standard", "interactive"):
        ledger.touch(class_id, class_id=class_id)
    assert [class_id for class_id, _ in ledger.announcements()] == ["interactive", "standard", "bulk"]


def test_a_flood_is_topped_up_over_several_steps(ledger: Driver) -> None:
    for n in range(300):
        ledger.touch(f"t{n}")
    seen = 0
    while claimed := ledger.announcements():
        seen += len(claimed)
    assert seen == 300


def test_a_ceiling_bounds_leases_and_announcements(ledger: Driver) -> None:
    ledger.do(UpdateClass("standard", ClassPolicy(10_000, max_leases=2)))
    for n in range(5):
        ledger.touch(f"t{n}")
    assert out(ledger) == 2
    first, _ = ledger.grant(slot=0), ledger.grant(slot=1)
    assert ledger.ask(slot=2) == Denied(DenialReason.CLASS_FULL, 0)
    ledger.announcements()
    published = out(ledger)
    ledger.settled(first, EndReason.EMPTY)
    assert out(ledger) == max(1, published)
    ledger.grant(slot=2)


def test_a_raised_ceiling_is_announced_at_once(ledger: Driver) -> None:
    ledger.do(UpdateClass("standard", ClassPolicy(10_000, max_leases=1)))
    for n in range(5):
        ledger.touch(f"t{n}")
    ledger.do(UpdateClass("standard", ClassPolicy(10_000)))
    assert out(ledger) == 5


def test_j11_queues_that_change_class_are_announced_in_the_new_one(ledger: Driver) -> None:
    ledger.add_class("interactive", 1_000)
    ledger.touch("a")
    ledger.touch("a", "mail")
    ledger.do(UpdateTenant("a", TenantPolicy("interactive")))
    assert (stats(ledger, "standard").ready, stats(ledger, "interactive").ready) == (0, 2)
    assert [class_id for class_id, _ in ledger.announcements()] == ["interactive", "interactive"]
    assert ledger.grant("interactive").priority_class == "interactive"


def test_pause_withdraws_and_resume_announces(ledger: Driver) -> None:
    ledger.touch("a")
    ledger.do(Pause(QueueKey("a", "default")))
    assert ledger.announcements() == []
    ledger.do(Resume(QueueKey("a", "default")))
    assert len(ledger.announcements()) == 1


def test_tickets_lost_by_the_broker_are_announced_again(ledger: Driver) -> None:
    ledger.touch("a")
    ledger.announcements()
    assert ledger.do(ObserveAttention("standard", 0)) == Observed(0)
    ledger.subject.advance(4_999)
    assert ledger.do(ObserveAttention("standard", 0)) == Observed(0)
    ledger.subject.advance(1)
    assert ledger.do(ObserveAttention("standard", 0)) == Observed(1)
    assert len(ledger.announcements()) == 1


def test_tickets_seen_waiting_are_not_lost(ledger: Driver) -> None:
    ledger.touch("a")
    ledger.announcements()
    ledger.do(ObserveAttention("standard", 0))
    ledger.subject.advance(3_000)
    ledger.do(ObserveAttention("standard", 1))
    ledger.subject.advance(3_000)
    assert ledger.do(ObserveAttention("standard", 0)) == Observed(0)


def test_a_live_id_asked_with_meanwhile_shows_that_tickets_arrive(ledger: Driver) -> None:
    ledger.touch("a")
    ledger.touch("b")
    ticket, _ = ledger.announcements()
    ledger.do(ObserveAttention("standard", 0))
    ledger.grant(ticket=ticket)
    ledger.subject.advance(5_000)
    assert ledger.do(ObserveAttention("standard", 0)) == Observed(0)


def test_a_class_that_is_gone_is_observed_without_effect(ledger: Driver) -> None:
    assert ledger.do(ObserveAttention("gold", 0)) == Observed(0)
