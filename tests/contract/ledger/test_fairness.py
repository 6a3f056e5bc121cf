"""Who goes next: the earliest deadline among classes, start-time fair queueing within one."""

from __future__ import annotations

from collections import Counter

from slicelease.control_plane.domain.commands import EndReason
from slicelease.control_plane.domain.outcomes import Granted
from tests.contract.ledger.subject import Driver


def run_slices(ledger: Driver, slices: int, slice_ms: int = 100, **longer: int) -> Counter[str]:
    """Slot time by tenant over so many slices of one slot, every queue always with backlog."""
    held: Counter[str] = Counter()
    granted: Granted | None = ledger.grant()
    for left in reversed(range(slices)):
        assert granted is not None
        tenant = granted.lease.tenant
        ms = longer.get(tenant, slice_ms)
        ledger.subject.advance(ms)
        held[tenant] += ms
        settled = ledger.settled(granted, EndReason.MESSAGES, want_next=left > 0, classes=("standard",))
        granted = settled.next
    return held


def test_equal_tenants_take_turns(ledger: Driver) -> None:
    for tenant in ("a", "b", "c"):
        ledger.touch(tenant)
    assert run_slices(ledger, 30) == {"a": 1_000, "b": 1_000, "c": 1_000}


def test_slot_time_is_shared_by_weight(ledger: Driver) -> None:
    ledger.touch("heavy", weight=300)
    ledger.touch("light", weight=100)
    held = run_slices(ledger, 80)
    assert held == {"heavy": 6_000, "light": 2_000}


def test_what_counts_is_slot_time_and_not_slices(ledger: Driver) -> None:
    ledger.touch("slow")
    ledger.touch("fast")
    held = run_slices(ledger, 110, slow=1_000)
    assert abs(held["slow"] - held["fast"]) <= 1_000


def test_a_tenant_with_many_queues_gains_nothing(ledger: Driver) -> None:
    for n in range(9):
        ledger.touch("many", f"q{n}")
    ledger.touch("one")
    held = run_slices(ledger, 100)
    assert held == {"many": 5_000, "one": 5_000}


def test_the_queues_of_a_tenant_take_turns(ledger: Driver) -> None:
    for n in range(3):
        ledger.touch("a", f"q{n}")
    order = []
    granted: Granted | None = ledger.grant()
    for _ in range(8):
        assert granted is not None
        order.append(granted.lease.queue)
        ledger.subject.advance(10)
        granted = ledger.settled(granted, EndReason.MESSAGES, want_next=True, classes=("standard",)).next
    assert order[:4] == order[4:]
    assert len(set(order[:4])) == 4


def test_slices_too_short_to_measure_still_pass_the_turn_on(ledger: Driver) -> None:
    for tenant in ("a", "b", "c"):
        ledger.touch(tenant)
    turns: Counter[str] = Counter()
    granted: Granted | None = ledger.grant()
    for _ in range(30):
        assert granted is not None
        turns[granted.lease.tenant] += 1
        granted = ledger.settled(granted, EndReason.MESSAGES, want_next=True, classes=("standard",)).next
    assert turns == {"a": 10, "b": 10, "c": 10}


def test_a_newcomer_hoards_no_credit(ledger: Driver) -> None:
    ledger.touch("old")
    ledger.touch("late")
    ledger.settled(ledger.grant(), EndReason.EMPTY)  # ties go by id, so this was `late`: it is IDLE now
    run_slices(ledger, 50)
    ledger.touch("late")
    held = run_slices(ledger, 20)
    assert abs(held["late"] - held["old"]) <= 200


def test_free_slots_do_not_all_go_to_one_tenant(ledger: Driver) -> None:
    """Charging only at settle would give every free slot to the tenant with the smallest tag."""
    for n in range(15):
        ledger.touch("many", f"q{n}")
        ledger.touch(f"t{n}")
    granted = Counter(ledger.grant(slot=slot).lease.tenant for slot in range(16))
    assert granted["many"] == 1


def test_a_lapsed_lease_is_charged_for_its_time(ledger: Driver) -> None:
    ledger.touch("a")
    ledger.touch("b", "extra")
    ledger.grant(slot=0)
    ledger.subject.advance(60_000)
    order = [ledger.grant(slot=slot).lease.tenant for slot in range(1, 4)]
    assert order == ["b", "a", "b"]


def test_the_class_whose_head_is_nearest_its_target_goes_first(ledger: Driver) -> None:
    ledger.add_class("interactive", 1_000)
    ledger.add_class("bulk", 300_000)
    ledger.touch("slow", class_id="bulk")
    ledger.touch("usual")
    ledger.touch("quick", class_id="interactive")
    classes = ("bulk", "interactive", "standard")
    assert [ledger.grant(*classes, slot=slot).lease.tenant for slot in range(3)] == ["quick", "usual", "slow"]


def test_a_lower_class_overtakes_when_it_has_waited_longer_than_the_difference_of_the_targets(ledger: Driver) -> None:
    ledger.add_class("interactive", 1_000)
    ledger.touch("usual")
    ledger.subject.advance(9_001)
    ledger.touch("quick", class_id="interactive")
    assert ledger.grant("interactive", "standard").lease.tenant == "usual"


def test_only_the_classes_asked_for_are_served(ledger: Driver) -> None:
    ledger.add_class("interactive", 1_000)
    ledger.touch("quick", class_id="interactive")
    ledger.touch("usual")
    assert ledger.grant("standard", "nowhere").lease.tenant == "usual"
