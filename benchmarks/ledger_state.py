"""Asking the ledger of a running system directly, past the control plane: to prepare it and to look at it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from benchmarks.world import CELL, World
from slicelease.control_plane.domain.commands import Command, ReadStats
from slicelease.control_plane.domain.outcomes import Outcome, Stats
from slicelease.control_plane.domain.policy import LedgerConfig
from slicelease.control_plane.redis_ledger import RedisLedger

AT_ONCE = 250


def execute(running: World, commands: Sequence[Command], config: LedgerConfig | None = None) -> list[Outcome]:
    """The outcomes, in several steps."""
    return asyncio.run(_execute(running.redis.url, commands, config or LedgerConfig()))


async def _execute(url: str, commands: Sequence[Command], config: LedgerConfig) -> list[Outcome]:
    ledger = await RedisLedger.connect(url, CELL, config)
    outcomes: list[Outcome] = []
    for start in range(0, len(commands), AT_ONCE):
        outcomes += await ledger.execute(commands[start : start + AT_ONCE])
    await ledger.close()
    return outcomes


def ready_queues(running: World) -> int:
    """Queues that compete for a slice, and those that hold a lease."""
    (stats,) = execute(running, [ReadStats()])
    assert isinstance(stats, Stats), stats
    return sum(row.ready + row.leases for row in stats.classes)
