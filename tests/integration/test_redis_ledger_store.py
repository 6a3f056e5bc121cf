"""Stores that are full, read-only, unfit, damaged or of another version; clocks, ids and cells (R08, R10, S02)."""

from collections.abc import Iterator

import pytest
import redis
import structlog

from slicelease.control_plane.domain.commands import GetQueue, Ping, Touch
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.outcomes import Failed, Granted, Pong, QueueView, Touched
from slicelease.control_plane.domain.policy import TenantPolicy
from slicelease.control_plane.ports import LedgerUnavailableError, LedgerVersionError
from slicelease.control_plane.redis_ledger import RedisLedger, UnsuitableStoreError
from slicelease.control_plane.redis_ledger.keys import prefix
from slicelease.control_plane.redis_ledger.library import build, library, parts
from tests.differential.snapshot import dump, state_of, strangers
from tests.integration.ledger_world import OPEN, acquire, answered, do, opened, people
from tests.servers import Redis, wait_for_asyncio

pytestmark = [pytest.mark.servers, pytest.mark.asyncio]


@pytest.fixture
def raw(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        yield client


# ---- unfit ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
async def test_a_store_that_evicts_is_refused_with_what_to_change(policy: str) -> None:
    with Redis(config={"maxmemory": "50mb", "maxmemory-policy": policy}) as server:
        for way_in in (RedisLedger.connect, RedisLedger.open):
            with pytest.raises(UnsuitableStoreError, match=f"{policy}.*Set maxmemory-policy to noeviction"):
                await way_in(server.url, "c", OPEN)


async def test_a_full_store_refuses_the_step_whole_and_serves_again() -> None:
    with Redis() as server:
        async with opened(server.url, "c") as ledger:
            await people(ledger, "a", "b")
            with redis.Redis.from_url(server.url, decode_responses=True) as client:
                before = state_of(dump(client, "c"))
                server.command("CONFIG SET maxmemory 1")
                with pytest.raises(LedgerUnavailableError, match="it answered OOM"):
                    await do(ledger, acquire(1))
                server.command("CONFIG SET maxmemory 0")
                assert state_of(dump(client, "c")) == before
            assert isinstance(await answered(ledger), Pong)
            assert isinstance(await do(ledger, acquire(1)), Granted)


async def test_a_read_only_store_leads_to_a_new_connection_and_not_to_an_outage() -> None:
    with Redis() as master, Redis() as server:
        async with opened(server.url, "c") as ledger:
            await people(ledger, "a")
            server.command(f"REPLICAOF 127.0.0.1 {master.port}")
            with pytest.raises(LedgerUnavailableError, match=r"it answered (READONLY|LOADING|MASTERDOWN)"):
                await do(ledger, acquire(1))
            server.command("REPLICAOF NO ONE")
            assert isinstance(await answered(ledger), Pong)


async def test_a_vanished_lease_reads_as_lost_and_its_queue_rests_as_after_a_loss(
    redis_url: str, cell: str, raw: redis.Redis
) -> None:
    async with opened(redis_url, cell, OPEN) as ledger:
        await people(ledger, "a")
        granted = await do(ledger, acquire(1))
        assert isinstance(granted, Granted)
        lease_key = f"{prefix(cell)}lease:a/default/{granted.lease.token}"
        assert raw.delete(lease_key) == 1
        raw.zadd(f"{prefix(cell)}expiry", {f"a/default/{granted.lease.token}": 1})
        view = await do(ledger, GetQueue(QueueKey("a", "default")))
        assert isinstance(view, QueueView)
        assert view.state.name == "WAITING"
        assert view.due_ms - view.since_ms == OPEN.quarantine_ms
        assert raw.zcard(f"{prefix(cell)}expiry") == raw.zcard(f"{prefix(cell)}leases:standard") == 0


# ---- one command alone ------------------------------------------------------------------------------------------------------


async def test_a_command_that_breaks_is_answered_alone_and_loudly(redis_url: str, cell: str, raw: redis.Redis) -> None:
    async with opened(redis_url, cell) as ledger:
        await people(ledger, "a")
        raw.set(f"{prefix(cell)}tenant:broken", "no hash")
        touch_broken = Touch(QueueKey("broken", "default"), TenantPolicy("standard"))
        with structlog.testing.capture_logs() as logs:
            outcomes = await ledger.execute([Ping(), touch_broken, acquire(1)])
        assert [type(outcome) for outcome in outcomes] == [Pong, Failed, Granted]
        assert [entry["event"] for entry in logs] == ["ledger_command_failed"]
        assert "WRONGTYPE" in logs[0]["cause"]


# ---- versions -------------------------------------------------------------------------------------------------------------


async def test_two_texts_of_one_schema_serve_one_cell_side_by_side(redis_url: str, cell: str, raw: redis.Redis) -> None:
    other = build({**parts(), "99_other.lua": "-- another version of the software\n"})
    assert other.name != library().name
    async with opened(redis_url, cell) as ledger:
        newer = RedisLedger(redis_url, cell, OPEN, functions=other)
        await people(ledger, "a", "b")
        assert isinstance(await do(newer, acquire(1)), Granted)
        assert isinstance(await do(ledger, acquire(1, slot=1)), Granted)
        names = {entry[1] for entry in raw.function_list()}
        assert {other.name, library().name} <= names
        await newer.close()


async def test_an_older_software_refuses_a_newer_ledger_with_a_clear_text_and_serves_its_own(redis_url: str, cell: str) -> None:
    newer = RedisLedger(redis_url, f"{cell}-new", OPEN, functions=build(parts(), schema=2))
    assert isinstance(await do(newer, Ping()), Pong)
    for way_in in (RedisLedger.connect, RedisLedger.open):
        with pytest.raises(LedgerVersionError, match="has schema 2, this software works with schema 1"):
            await way_in(redis_url, f"{cell}-new", OPEN)
    async with opened(redis_url, f"{cell}-old") as older:
        assert isinstance(await do(older, Ping()), Pong)
    assert isinstance(await do(newer, Ping()), Pong)
    await newer.close()


# ---- the clock ------------------------------------------------------------------------------------------------------------


async def test_the_clock_never_goes_back_and_keeps_its_rate(redis_url: str, cell: str, raw: redis.Redis) -> None:
    """A clock set back is, to the ledger, one that is behind `last`."""
    async with opened(redis_url, cell) as ledger:
        first = await now_ms(ledger)
        raw.hset(f"{prefix(cell)}meta", "last", str((first + 3_600_000) * 1_000))
        ahead = await now_ms(ledger)
        assert ahead == first + 3_600_000
        await wait_for_asyncio(lambda: later(ledger, ahead), 5, "time goes on from there")
        offset_us = int(raw.hget(f"{prefix(cell)}meta", "offset") or 0)
        assert 3_599_000_000 < offset_us <= 3_600_000_000


async def now_ms(ledger: RedisLedger) -> int:
    pong = await do(ledger, Ping())
    assert isinstance(pong, Pong)
    return pong.now_ms


async def later(ledger: RedisLedger, than_ms: int) -> bool:
    return await now_ms(ledger) > than_ms


# ---- keys -----------------------------------------------------------------------------------------------------------------


async def test_odd_ids_share_no_key(redis_url: str, cell: str, raw: redis.Redis) -> None:
    """S02: the ledger keeps apart even what the entries would refuse."""
    odd = [QueueKey("a", "b:c"), QueueKey("a:b", "c"), QueueKey("*", "default"), QueueKey("a", "*"), QueueKey("{x}", "default")]
    async with opened(redis_url, cell) as ledger:
        await people(ledger)
        for key in odd:
            assert await do(ledger, Touch(key, TenantPolicy("standard"))) == Touched(coalesced=False, created=True)
        tokens = {await token_of(ledger, slot) for slot in range(len(odd))}
        assert len(tokens) == len(odd)
        views = [await do(ledger, GetQueue(key)) for key in odd]
        assert [view.key for view in views if isinstance(view, QueueView)] == odd
    assert strangers(dump(raw, cell)) == []


async def token_of(ledger: RedisLedger, slot: int) -> int:
    granted = await do(ledger, acquire(1, slot))
    assert isinstance(granted, Granted)
    return granted.lease.token


async def test_one_cell_knows_nothing_of_another(redis_url: str, cell: str) -> None:
    async with opened(redis_url, f"{cell}a") as one, opened(redis_url, f"{cell}b") as other:
        await people(one, "a")
        await people(other)
        assert isinstance(await do(one, acquire(1)), Granted)
        assert not isinstance(await do(other, acquire(1)), Granted)


@pytest.mark.parametrize("cell", ["", "a}b", "a b", "{a}"])
async def test_a_cell_that_is_no_id_is_refused(cell: str) -> None:
    with pytest.raises(ValueError, match="cell"):
        RedisLedger("redis://localhost", cell, OPEN)
