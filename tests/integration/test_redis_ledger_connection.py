"""Ways to the store: away, behind a password or TLS, slow, in a cluster; and what is said of them (R11, S04)."""

import asyncio
from pathlib import Path

import pytest
import redis
import structlog
import trustme

from slicelease.control_plane.domain.commands import Ping
from slicelease.control_plane.domain.outcomes import Granted, Pong
from slicelease.control_plane.ports import LedgerUnavailableError
from slicelease.control_plane.redis_ledger import RedisLedger
from tests.integration.ledger_world import OPEN, acquire, answered, do, opened, people
from tests.servers import Redis, free_port, wait_for_asyncio

pytestmark = [pytest.mark.servers, pytest.mark.asyncio]

PASSWORD = "s3cret-of-the-store"


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


async def test_concurrent_steps_share_one_connection() -> None:
    with Redis() as server, redis.Redis.from_url(server.url, decode_responses=True) as raw:
        ledger = await RedisLedger.connect(server.url, "c", OPEN)
        await people(ledger, *(f"t{i}" for i in range(50)))
        before = int(raw.info("clients")["connected_clients"])
        outcomes = await asyncio.gather(*(do(ledger, acquire(1, slot)) for slot in range(50)))
        assert len({outcome.lease for outcome in outcomes if isinstance(outcome, Granted)}) == 50
        assert int(raw.info("clients")["connected_clients"]) == before
        await ledger.close()
