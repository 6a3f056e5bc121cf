"""Short words for tests of the Redis ledger: a ledger for the time of a block, and the commands that most tests need."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from slicelease.control_plane.domain.commands import Acquire, Command, CreateClass, Ping, SlotRequest, Touch
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.outcomes import Outcome, Pong
from slicelease.control_plane.domain.policy import ClassPolicy, LedgerConfig, TenantPolicy
from slicelease.control_plane.ports import LedgerUnavailableError
from slicelease.control_plane.redis_ledger import RedisLedger
from tests.servers import wait_for_asyncio

OPEN = LedgerConfig(open_when_new=True)


@asynccontextmanager
async def opened(url: str, cell: str, config: LedgerConfig = OPEN, timeout_s: float = 5.0) -> AsyncIterator[RedisLedger]:
    """A connected ledger."""
    ledger = await RedisLedger.connect(url, cell, config, timeout_s=timeout_s)
    try:
        yield ledger
    finally:
        await ledger.close()


async def do(ledger: RedisLedger, command: Command) -> Outcome:
    """One command, one step."""
    (outcome,) = await ledger.execute([command])
    return outcome


async def people(ledger: RedisLedger, *tenants: str) -> None:
    """The class `standard`, and tenants of it with a READY queue each."""
    await ledger.execute([CreateClass("standard", ClassPolicy(10_000))])
    await ledger.execute([Touch(QueueKey(tenant, "default"), TenantPolicy("standard")) for tenant in tenants])


def acquire(n: int, slot: int = 0) -> Acquire:
    """Request `n` of a slot."""
    return Acquire(SlotRequest("w", slot, n, f"digest-{n}"), ("standard",))


async def answered(ledger: RedisLedger) -> Pong:
    """The first answer after the store was away."""

    async def ask() -> Pong | None:
        try:
            outcome = await do(ledger, Ping())
        except LedgerUnavailableError:
            return None
        assert isinstance(outcome, Pong)
        return outcome

    return await wait_for_asyncio(ask, 10, "the ledger answers")
