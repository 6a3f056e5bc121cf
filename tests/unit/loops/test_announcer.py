"""Owed announcements: published before they are marked, never marked unpublished."""

import json

import pytest

from slicelease.control_plane.domain.commands import Acquire, MarkPublished, ReadStats, SlotRequest, Touch
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.outcomes import ClassStats, Granted, Stats
from slicelease.control_plane.domain.policy import TenantPolicy
from slicelease.control_plane.loops.announcer import Announcer
from slicelease.control_plane.ports import BrokerUnavailableError, LedgerUnavailableError
from tests.unit.loops.world import NOW, FakeBroker, FakeLedger, Seen

pytestmark = pytest.mark.trio


def touch(ledger: FakeLedger, tenant: str, class_id: str = "standard") -> None:
    ledger.do(Touch(QueueKey(tenant, "default"), TenantPolicy(class_id)))


def stats_of(ledger: FakeLedger, class_id: str = "standard") -> ClassStats:
    stats = ledger.do(ReadStats())
    assert isinstance(stats, Stats)
    return next(row for row in stats.classes if row.class_id == class_id)


def ids(tickets: list[bytes]) -> list[str]:
    return [json.loads(ticket)["announcement_id"] for ticket in tickets]


async def test_a_ticket_can_be_asked_with(ledger: FakeLedger, broker: FakeBroker, seen: Seen) -> None:
    touch(ledger, "acme")
    announcer = Announcer(ledger, broker, seen, lambda: NOW)
    assert not await announcer.run_once()
    (ticket,) = broker.tickets["standard"]
    assert json.loads(ticket) == {"announcement_id": ids([ticket])[0], "created_at": "2024-05-06T07:08:09.123Z"}
    assert (stats_of(ledger).owed, stats_of(ledger).published) == (0, 1)
    asked = ledger.do(Acquire(SlotRequest("w", 0, 1, "d"), ("standard",), "standard", ids([ticket])[0]))
    assert isinstance(asked, Granted)
    assert stats_of(ledger).published == 0
    assert seen.counts == {"published standard": 1}


async def test_with_nothing_owed_nothing_is_published(ledger: FakeLedger, broker: FakeBroker, seen: Seen) -> None:
    assert not await Announcer(ledger, broker, seen, lambda: NOW).run_once()
    assert not any(broker.tickets.values())
    assert len(ledger.steps) == 1


async def test_many_are_published_in_bounded_passes(ledger: FakeLedger, broker: FakeBroker, seen: Seen) -> None:
    for n in range(300):
        touch(ledger, f"t{n}")
    announcer = Announcer(ledger, broker, seen, lambda: NOW)
    passes = 1
    while await announcer.run_once():
        passes += 1
    assert passes == 3
    assert len(set(ids(broker.tickets["standard"]))) == 300
    assert (stats_of(ledger).owed, stats_of(ledger).published) == (0, 300)


async def test_a_missing_queue_is_made_and_nothing_counts_before_it_is_there(
    ledger: FakeLedger, broker: FakeBroker, seen: Seen
) -> None:
    """A07."""
    del broker.tickets["standard"]
    broker.away = lambda call: call == "declare_topology"
    touch(ledger, "acme")
    announcer = Announcer(ledger, broker, seen, lambda: NOW)
    with pytest.raises(BrokerUnavailableError):
        await announcer.run_once()
    assert (stats_of(ledger).owed, stats_of(ledger).published) == (1, 0)
    broker.away = lambda _: False
    ledger.advance(5_000)  # the claim of the failed pass runs out
    await announcer.run_once()
    assert len(broker.tickets["standard"]) == 1
    assert (stats_of(ledger).owed, stats_of(ledger).published) == (0, 1)


async def test_what_was_confirmed_is_marked_though_a_later_class_fails(
    ledger: FakeLedger, broker: FakeBroker, seen: Seen
) -> None:
    touch(ledger, "acme", "interactive")
    touch(ledger, "beta", "bulk")
    broker.away = lambda call: call == "announce bulk"
    with pytest.raises(BrokerUnavailableError):
        await Announcer(ledger, broker, seen, lambda: NOW).run_once()
    assert stats_of(ledger, "interactive").published == 1
    assert (stats_of(ledger, "bulk").owed, stats_of(ledger, "bulk").published) == (1, 0)


async def test_what_was_published_and_not_marked_goes_out_again_under_its_id(
    ledger: FakeLedger, broker: FakeBroker, seen: Seen
) -> None:
    touch(ledger, "acme")
    ledger.away = lambda command: isinstance(command, MarkPublished)
    announcer = Announcer(ledger, broker, seen, lambda: NOW)
    with pytest.raises(LedgerUnavailableError):
        await announcer.run_once()
    ledger.away = lambda _: False
    ledger.advance(5_000)
    await announcer.run_once()
    first, second = ids(broker.tickets["standard"])
    assert first == second
    assert (stats_of(ledger).owed, stats_of(ledger).published) == (0, 1)


async def test_two_announcers_publish_each_once(ledger: FakeLedger, broker: FakeBroker, seen: Seen) -> None:
    for n in range(10):
        touch(ledger, f"t{n}")
    for _ in range(2):
        await Announcer(ledger, broker, seen, lambda: NOW).run_once()
    assert len(broker.tickets["standard"]) == 10
