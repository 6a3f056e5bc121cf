"""The loops that only tell the ledger to look at its clock."""

import pytest

from slicelease.control_plane.domain.commands import Acquire, EndReason, Settle, SlotRequest, Totals, Touch
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.outcomes import Granted, QueueState
from slicelease.control_plane.domain.policy import TenantPolicy
from slicelease.control_plane.loops.due import Due
from slicelease.control_plane.loops.reaper import Reaper
from tests.unit.loops.world import FakeLedger, Seen

pytestmark = pytest.mark.trio


def lease(ledger: FakeLedger, number: int) -> Granted:
    ledger.do(Touch(QueueKey(f"t{number}", "default"), TenantPolicy("bulk")))
    granted = ledger.do(Acquire(SlotRequest("w", number, 1, "d"), ("bulk",)))
    assert isinstance(granted, Granted)
    return granted


async def test_the_reaper_ends_all_that_lapsed_and_reports_each_once(ledger: FakeLedger, seen: Seen) -> None:
    granted = [lease(ledger, number) for number in range(300)]
    reaper = Reaper(ledger, seen)
    assert not await reaper.run_once()
    assert seen.counts == {}
    ledger.advance(5_001)
    while await reaper.run_once():
        pass
    assert seen.counts == {"expired bulk": 300}
    assert {ledger.state_of(each.lease.of_queue) for each in granted} <= {QueueState.READY, QueueState.WAITING}
    assert not await reaper.run_once()
    assert seen.counts == {"expired bulk": 300}


async def test_what_is_due_competes_again(ledger: FakeLedger) -> None:
    keys = []
    for number in range(300):
        granted = lease(ledger, number)
        request = SlotRequest("w", number, 2, "d")
        ledger.do(Settle(request, granted.lease, EndReason.ERROR, Totals(failed=1), failed_id="m"))
        keys.append(granted.lease.of_queue)
    assert {ledger.state_of(key) for key in keys} == {QueueState.WAITING}
    due = Due(ledger)
    assert not await due.run_once()
    ledger.advance(60_000)
    while await due.run_once():
        pass
    assert {ledger.state_of(key) for key in keys} == {QueueState.READY}
