"""Stores that are away, full, read-only, unfit or of another version; and what is said of them (R08, R10, R11, S02, S04)."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
import structlog
import trustme

from slicelease.control_plane.domain.commands import GetQueue, Ping, Touch
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.outcomes import Failed, Granted, Pong, QueueView, Touched
from slicelease.control_plane.domain.policy import TenantPolicy
from slicelease.control_plane.ports import LedgerUnavailableError, LedgerVersionError
from slicelease.control_plane.redis_ledger import RedisLedger, UnsuitableStoreError
from slicelease.control_plane.redis_ledger.keys import prefix
from slicelease.control_plane.redis_ledger.library import build, library, parts
from tests.differential.snapshot import dump, state_of, strangers
from tests.integration.ledger_world import OPEN, acquire, do, opened, people
from tests.servers import Redis, free_port, wait_for_asyncio

pytestmark = [pytest.mark.servers, pytest.mark.asyncio]

PASSWORD = "s3cret-of-the-store"


@pytest.fixture
def raw(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        yield client


# ---- away -----------------------------------------------------------------------------------------------------------------


async def test_a_store_that_is_away_is_named_without_its_password() -> None:
    with free_port() as port, pytest.raises(LedgerUnavailableError) as away:
        await RedisLedger.connect(f"redis://user:{PASSWORD}@127.0.0.1:{port}", "c", OPEN)
    assert f"127.0.0.1:{port}" in str(away.value)
    assert PASSWORD not in str(away.value)


async def test_a_wrong_password_is_said_and_not_shown() -> None:
    with Redis() as server, structlog.testing.capture_logs() as logs:
        assert server.command(f"CONFIG SET requirepass {PASSWORD}") == "+OK"
        async with opened(server.url.replace("//", f"//:{PASSWORD}@"), "c") as ledger:
            assert isinstance(await do(ledger, Ping()), Pong)
        for wrong in ("", ":wrong-s3cret@"):
            with pytest.raises(LedgerUnavailableError, match=r"it answered (NOAUTH|WRONGPASS)") as refused:
                await RedisLedger.connect(server.url.replace("//", f"//{wrong}"), "c", OPEN)
            assert "s3cret" not in str(refused.value)
    assert "s3cret" not in repr(logs)


async def test_a_ledger_opens_before_its_store_is_there() -> None:
    server = Redis()
    ledger = await RedisLedger.open(server.url, "c", OPEN)
    with server:
        assert isinstance(await answered(ledger), Pong)
    await ledger.close()


async def test_a_store_that_does_not_answer_in_time_is_unavailable_and_then_serves_again() -> None:
    with Redis() as server:
        async with opened(server.url, "c", timeout_s=0.3) as ledger:
            server.pause()
            with pytest.raises(LedgerUnavailableError, match=r"no answer within 0\.3 s"):
                await do(ledger, Ping())
            with pytest.raises(LedgerUnavailableError, match="no connection in time"):
                await do(ledger, Ping())
            server.resume()
            assert isinstance(await answered(ledger), Pong)


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


async def test_a_redis_in_cluster_mode_serves_a_cell() -> None:
    """R11: one hash tag a cell, so no CROSSSLOT."""
    with Redis(config={"cluster-enabled": "yes"}) as server:
        assert server.command("CLUSTER ADDSLOTSRANGE 0 16383") == "+OK"
        ledger = await RedisLedger.open(server.url, "c", OPEN)
        await answered(ledger)
        await people(ledger, "a", "b")
        assert isinstance(await do(ledger, acquire(1)), Granted)
        await ledger.close()


async def test_the_way_to_the_node_that_holds_the_cell_is_learnt() -> None:
    with Redis(config={"cluster-enabled": "yes"}) as one, Redis(config={"cluster-enabled": "yes"}) as other:
        assert other.command("CLUSTER ADDSLOTSRANGE 0 16383") == "+OK"
        assert one.command(f"CLUSTER MEET 127.0.0.1 {other.port}") == "+OK"
        await wait_for_asyncio(lambda: one.command("CLUSTER COUNTKEYSINSLOT 1") == ":0", 5, "the node is up")
        ledger = await RedisLedger.open(one.url, "c", OPEN)
        await answered(ledger)
        await people(ledger, "a")
        assert isinstance(await do(ledger, acquire(1)), Granted)
        assert int(other.command("DBSIZE")[1:]) > 0
        assert one.command("DBSIZE") == ":0"
        await ledger.close()


async def test_tls_with_a_checked_certificate(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    files = {"tls-cert-file": "cert.pem", "tls-key-file": "key.pem", "tls-ca-cert-file": "ca.pem"}
    with free_port() as port:
        config = {name: str(tmp_path / file) for name, file in files.items()}
        with Redis(config={**config, "tls-port": str(port), "tls-auth-clients": "no"}):
            async with opened(f"rediss://localhost:{port}?ssl_ca_certs={tmp_path}/ca.pem", "c") as ledger:
                assert isinstance(await do(ledger, Ping()), Pong)
            with pytest.raises(LedgerUnavailableError, match="SSLCertVerificationError"):
                await RedisLedger.connect(f"rediss://localhost:{port}", "c", OPEN)


async def test_concurrent_steps_share_one_connection(redis_url: str, cell: str, raw: redis.Redis) -> None:
    async with opened(redis_url, cell) as ledger:
        await people(ledger, *(f"t{i}" for i in range(50)))
        before = int(raw.info("clients")["connected_clients"])
        outcomes = await asyncio.gather(*(do(ledger, acquire(1, slot)) for slot in range(50)))
        assert len({outcome.lease for outcome in outcomes if isinstance(outcome, Granted)}) == 50
        assert int(raw.info("clients")["connected_clients"]) == before


async def answered(ledger: RedisLedger) -> Pong:
    async def ask() -> Pong | None:
        try:
            outcome = await do(ledger, Ping())
        except LedgerUnavailableError:
            return None
        assert isinstance(outcome, Pong)
        return outcome

    return await wait_for_asyncio(ask, 10, "the ledger answers")
