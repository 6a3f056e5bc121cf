"""Touch, grant, settle: the life of a queue, whatever stores it."""

from __future__ import annotations

import pytest

from slicelease.control_plane.domain.commands import EndReason, GetQueue, Touch
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.outcomes import (
    DenialReason,
    Denied,
    QueueState,
    QueueView,
    RefusalReason,
    Refused,
    Touched,
)
from slicelease.control_plane.domain.policy import TenantPolicy
from tests.contract.ledger.subject import Driver

ACME = QueueKey("acme", "default")


def view(ledger: Driver, key: QueueKey = ACME) -> QueueView:
    outcome = ledger.do(GetQueue(key))
    assert isinstance(outcome, QueueView)
    return outcome


def test_a_touch_of_an_unknown_tenant_is_refused(ledger: Driver) -> None:
    assert ledger.do(Touch(ACME)) == Refused(RefusalReason.TENANT_NOT_FOUND, "acme")


def test_a_touch_of_an_unknown_queue_of_a_known_tenant_is_refused(ledger: Driver) -> None:
    ledger.touch("acme")
    assert ledger.do(Touch(QueueKey("acme", "mail"))) == Refused(RefusalReason.QUEUE_NOT_FOUND, "acme/mail")


def test_a_touch_may_create_tenant_and_queue(ledger: Driver) -> None:
    assert ledger.touch("acme", "mail") == Touched(coalesced=False, created=True)
    assert view(ledger, QueueKey("acme", "mail")).state is QueueState.READY
    assert view(ledger).state is QueueState.READY


def test_a_touch_that_would_create_under_an_unknown_class_is_refused_and_creates_nothing(ledger: Driver) -> None:
    outcome = ledger.do(Touch(ACME, TenantPolicy("gold")))
    assert outcome == Refused(RefusalReason.PRIORITY_CLASS_NOT_FOUND, "gold")
    assert ledger.do(GetQueue(ACME)) == Refused(RefusalReason.TENANT_NOT_FOUND, "acme")


def test_touches_of_a_ready_queue_coalesce(ledger: Driver) -> None:
    ledger.touch("acme")
    assert ledger.touch("acme") == Touched(coalesced=True, created=False)
    assert len(ledger.announcements()) == 1


def test_a_grant_takes_the_only_ready_queue_and_leaves_none(ledger: Driver) -> None:
    ledger.touch("acme")
    ledger.subject.advance(250)
    granted = ledger.grant()
    assert granted.lease.of_queue == ACME
    assert (granted.waited_ms, granted.valid_ms, granted.priority_class) == (250, 5_000, "standard")
    assert ledger.ask(slot=1) == Denied(DenialReason.NO_READY_QUEUE, 0)


def test_empty_and_untouched_ends_idle(ledger: Driver) -> None:
    ledger.touch("acme")
    settled = ledger.settled(ledger.grant(), EndReason.EMPTY)
    assert (settled.state, settled.waits_ms) == (QueueState.IDLE, 0)
    assert view(ledger).since_ms == 0


def test_j03_a_touch_while_leased_is_remembered(ledger: Driver) -> None:
    """The lost wake-up: empty seen, work published and touched while leased, then settled empty."""
    ledger.touch("acme")
    granted = ledger.grant()
    assert ledger.touch("acme") == Touched(coalesced=False, created=False)
    assert ledger.touch("acme") == Touched(coalesced=True, created=False)
    assert ledger.settled(granted, EndReason.EMPTY).state is QueueState.READY
    assert len(ledger.announcements()) == 1
    assert ledger.settled(ledger.grant(), EndReason.EMPTY).state is QueueState.IDLE


@pytest.mark.parametrize(
    "reason",
    [EndReason.MESSAGES, EndReason.TIME, EndReason.PAUSED, EndReason.REVOKED, EndReason.SHUTDOWN, EndReason.LEASE_LOST],
)
def test_an_end_that_says_nothing_of_the_backlog_ends_ready(ledger: Driver, reason: EndReason) -> None:
    ledger.touch("acme")
    ledger.subject.advance(1_000)
    granted = ledger.grant()
    ledger.subject.advance(500)
    settled = ledger.settled(granted, reason)
    assert (settled.state, settled.slot_ms) == (QueueState.READY, 500)
    ledger.subject.advance(70)
    assert ledger.grant().waited_ms == 70


def test_an_unused_grant_keeps_the_place_of_its_queue(ledger: Driver) -> None:
    ledger.touch("acme")
    ledger.subject.advance(1_000)
    ledger.settled(ledger.grant(), EndReason.UNUSED)
    assert ledger.grant().waited_ms == 1_000


def test_a_chained_settle_carries_the_next_lease(ledger: Driver) -> None:
    ledger.touch("acme")
    ledger.touch("beta")
    granted = ledger.grant()
    settled = ledger.settled(granted, EndReason.MESSAGES, want_next=True, classes=("standard",))
    assert settled.state is QueueState.READY
    assert settled.next is not None
    assert settled.next.lease.of_queue == QueueKey("beta", "default")
    assert settled.next.lease.token > granted.lease.token


def test_a_chained_settle_without_a_ready_queue_carries_none(ledger: Driver) -> None:
    ledger.touch("acme")
    settled = ledger.settled(ledger.grant(), EndReason.EMPTY, want_next=True, classes=("standard",))
    assert (settled.state, settled.next) == (QueueState.IDLE, None)


def test_an_ended_lease_can_settle_no_more(ledger: Driver) -> None:
    ledger.touch("acme")
    granted = ledger.grant()
    ledger.settled(granted, EndReason.MESSAGES)
    again = ledger.grant()
    late = ledger.settle(granted, EndReason.EMPTY)
    assert late == Refused(RefusalReason.LEASE_OVER, f"acme/default/{granted.lease.token}")
    assert view(ledger).token == again.lease.token


def test_queues_created_before_stay_apart_whatever_their_ids(ledger: Driver) -> None:
    """S02: ids that would collide if names were joined carelessly."""
    for tenant, queue in (("a", "b-c"), ("a-b", "c"), ("A", "default"), ("a", "default"), ("a_b", "c")):
        ledger.touch(tenant, queue)
    granted = {ledger.grant(slot=slot).lease.of_queue for slot in range(7)}
    assert QueueKey("a", "b-c") in granted
    assert QueueKey("a-b", "c") in granted
    assert QueueKey("A", "default") in granted
    assert len(granted) == 7
