"""Steps that the machine meets too rarely, written by hand and held to the specification in the same way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from slicelease.control_plane.domain.commands import (
    Acquire,
    ClaimAnnouncements,
    Command,
    CreateClass,
    ExpireLapsed,
    MarkPublished,
    ObserveAttention,
    SlotRequest,
    Touch,
    UpdateClass,
)
from slicelease.control_plane.domain.ledger import LedgerState, leases, run_step
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.outcomes import Announcements, DenialReason, Denied, Granted, Observed, Outcome
from slicelease.control_plane.domain.policy import ClassPolicy, LedgerConfig, TenantPolicy
from tests.differential.snapshot import dump, state_of
from tests.differential.sync_store import SyncStore

pytestmark = pytest.mark.servers

CONFIG = LedgerConfig(open_when_new=True)


class Both:
    """The specification and the library, at one instant after another."""

    def __init__(self, client: redis.Redis, cell: str) -> None:
        self.twin, self.store, self.now_us = LedgerState(), SyncStore(client, cell, CONFIG), 1_700_000_000_000_000

    def step(self, *commands: Command, after_ms: int = 0) -> list[Outcome]:
        self.now_us += after_ms * 1_000
        expected = run_step(self.twin, commands, self.now_us, CONFIG, "run")
        assert self.store.step_at(self.now_us, commands, "run") == expected
        assert state_of(dump(self.store.client, self.store.cell)) == self.twin
        return expected


@pytest.fixture
def both(redis_url: str, cell: str) -> Iterator[Both]:
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        both = Both(client, cell)
        both.step(CreateClass("standard", ClassPolicy(10_000)))
        both.step(*(Touch(QueueKey(tenant, "default"), TenantPolicy("standard")) for tenant in "abcdefgh"))
        yield both


def acquire(slot: int) -> Acquire:
    return Acquire(SlotRequest("w", slot, 1, "d"), ("standard",))


def test_lapses_beyond_the_bound_of_a_step_are_not_counted_as_live_nor_given_back_twice(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "STEP_LIMIT", 1)
    both.step(*(acquire(slot) for slot in range(4)))
    both.step(UpdateClass("standard", ClassPolicy(10_000, max_leases=2)))
    first, _, second, third = both.step(acquire(10), ExpireLapsed(100), acquire(11), acquire(12), after_ms=CONFIG.first_lease_ms)
    assert isinstance(first, Granted)
    assert isinstance(second, Granted)
    assert third == Denied(DenialReason.CLASS_FULL, 0)


def test_tickets_are_lost_at_the_very_millisecond(both: Both) -> None:
    (announcements,) = both.step(ClaimAnnouncements())
    assert isinstance(announcements, Announcements)
    both.step(MarkPublished("standard", tuple(announcement_id for _, announcement_id in announcements.claimed)))
    assert both.step(ObserveAttention("standard", 0)) == [Observed(0)]
    assert both.step(ObserveAttention("standard", 0), after_ms=CONFIG.look_ms - 1) == [Observed(0)]
    assert both.step(ObserveAttention("standard", 0), after_ms=1) == [Observed(8)]
