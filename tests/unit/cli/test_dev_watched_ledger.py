"""The watched ledger counts what a real ledger answers, each answer once."""

import pytest

from slicelease.cli.dev.watched_ledger import LedgerCounts, WatchedLedger
from slicelease.control_plane.domain.commands import Acquire, CreateClass, EndReason, Settle, SlotRequest, Totals, Touch
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.outcomes import Granted, Settled
from slicelease.control_plane.domain.policy import BUILT_IN_CLASSES, LedgerConfig, TenantPolicy
from slicelease.control_plane.memory_ledger import MemoryLedger


class Bench:
    """A watched ledger in memory, with a clock set by hand."""

    def __init__(self) -> None:
        self.now_us = 1_700_000_000_000_000
        self.counts = LedgerCounts()
        memory = MemoryLedger(lambda: self.now_us, LedgerConfig(open_when_new=True))
        self.ledger = WatchedLedger(memory, self.counts)

    async def acquire(self, n: int) -> Granted | None:
        (outcome,) = await self.ledger.execute([Acquire(SlotRequest("w", 0, n, f"d{n}"), ("bulk", "standard"))])
        return outcome if isinstance(outcome, Granted) else None

    def settle(self, n: int, grant: Granted, **changes: object) -> Settle:
        values = {"end_reason": EndReason.MESSAGES, "totals": Totals(messages=4), **changes}
        return Settle(SlotRequest("w", 0, n, f"d{n}"), grant.lease, classes=("bulk",), **values)  # type: ignore[arg-type]


@pytest.mark.asyncio
async def test_grants_waits_denials_slices_and_slot_time() -> None:
    bench = Bench()
    await bench.ledger.execute([CreateClass(name, policy) for name, policy in BUILT_IN_CLASSES.items()])
    await bench.ledger.execute([Touch(QueueKey("acme", "default"), create=TenantPolicy("bulk"))])
    bench.now_us += 25_000
    grant = await bench.acquire(1)
    assert grant is not None
    await bench.acquire(1)
    assert bench.counts.grants == 1, "a repeated answer is no second grant"
    assert dict(bench.counts.waits_ms) == {"bulk": {25: 1}}
    bench.now_us += 40_000
    settle = bench.settle(2, grant, want_next=True, totals=Totals(messages=4, dead_lettered=1))
    (settled,) = await bench.ledger.execute([settle])
    await bench.ledger.execute([settle])
    assert isinstance(settled, Settled)
    assert settled.next is not None
    assert (bench.counts.grants, bench.counts.slices) == (2, 1)
    assert (bench.counts.slot_ms["acme"], bench.counts.dead_lettered["acme"]) == (40, 1)
    await bench.ledger.execute([bench.settle(3, settled.next, end_reason=EndReason.EMPTY)])
    assert bench.counts.slices == 2
    assert await bench.acquire(4) is None
    assert dict(bench.counts.denials) == {"NO_READY_QUEUE": 1}


@pytest.mark.asyncio
async def test_an_unused_grant_is_no_slice() -> None:
    bench = Bench()
    await bench.ledger.execute([CreateClass(name, policy) for name, policy in BUILT_IN_CLASSES.items()])
    await bench.ledger.execute([Touch(QueueKey("acme", "default"), create=TenantPolicy("bulk"))])
    grant = await bench.acquire(1)
    assert grant is not None
    await bench.ledger.execute([bench.settle(2, grant, end_reason=EndReason.UNUSED)])
    assert (bench.counts.grants, bench.counts.slices) == (1, 0)
