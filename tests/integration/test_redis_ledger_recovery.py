"""Field trial R01 on a real Redis: functions flushed, the store restarted or emptied, a reply lost after the commit."""

import asyncio

import pytest

from slicelease.control_plane.domain.commands import ListLeases, Ping, ReadStats
from slicelease.control_plane.domain.outcomes import DenialReason, Denied, Granted, Page, Pong, Stats
from slicelease.control_plane.domain.policy import LedgerConfig
from slicelease.control_plane.ports import LedgerUnavailableError
from slicelease.control_plane.redis_ledger import RedisLedger
from tests.integration.ledger_world import OPEN, acquire, answered, do, opened, people
from tests.integration.losing_proxy import losing_proxy
from tests.servers import Redis, Valkey, wait_for_asyncio

pytestmark = [pytest.mark.servers, pytest.mark.asyncio]


@pytest.mark.parametrize("server_type", [Redis, Valkey])
async def test_functions_that_were_flushed_are_loaded_again(server_type: type[Redis]) -> None:
    with server_type() as server:
        async with opened(server.url, "r01") as ledger:
            await people(ledger, "a", "b")
            assert isinstance(await do(ledger, acquire(1)), Granted)
            assert server.command("FUNCTION FLUSH") == "+OK"
            assert isinstance(await do(ledger, acquire(2, slot=1)), Granted)


async def test_many_callers_find_the_functions_gone_at_once() -> None:
    with Redis() as server:
        async with opened(server.url, "r01") as ledger:
            server.command("FUNCTION FLUSH")
            outcomes = await asyncio.gather(*(do(ledger, Ping()) for _ in range(20)))
            assert all(isinstance(outcome, Pong) for outcome in outcomes)


async def test_after_a_restart_admission_is_closed_for_the_longest_lease_and_then_opens() -> None:
    config = LedgerConfig(open_when_new=True, admission_ms=700, first_lease_ms=300, quarantine_ms=200)
    with Redis(appendonly=True) as server:
        async with opened(server.url, "r01", config) as ledger:
            await people(ledger, "a")
            before = await granted(ledger, 1)
            generation = (await answered(ledger)).generation
            await asyncio.to_thread(server.stop)
            with pytest.raises(LedgerUnavailableError):
                await do(ledger, Ping())
            server.launch()
            await asyncio.to_thread(server.wait_ready)
            assert (await answered(ledger)).generation > generation
            denied = await do(ledger, acquire(2))
            assert isinstance(denied, Denied)
            assert denied.reason is DenialReason.ADMISSION_CLOSED
            assert 0 < denied.retry_after_ms <= 700
            after = await eventually_granted(ledger)
            assert after.lease.token > before.lease.token


async def test_a_store_that_lost_everything_closes_admission_and_tokens_still_rise() -> None:
    with Redis() as server:
        async with opened(server.url, "r01") as ledger:
            await people(ledger, "a")
            before = await granted(ledger, 1)
        async with opened(server.url, "r01", LedgerConfig(open_when_new=False, admission_ms=500)) as ledger:
            server.flushall()
            await people(ledger, "a")
            assert isinstance(await do(ledger, acquire(1)), Denied)
            after = await eventually_granted(ledger)
            assert after.lease.token > before.lease.token


async def test_a_lost_reply_is_answered_again_with_the_same_lease() -> None:
    with Redis() as server:
        async with losing_proxy(server.port) as proxy, opened(f"redis://127.0.0.1:{proxy.port}", "r01") as ledger:
            await people(ledger, "a", "b")
            proxy.lose_next_reply = True
            with pytest.raises(LedgerUnavailableError, match="the connection was lost"):
                await do(ledger, acquire(1))
            assert proxy.lost == 1
            again = await granted(ledger, 1)
            assert again.carried == 2
            assert 0 < again.valid_ms <= OPEN.first_lease_ms
            page = await do(ledger, ListLeases())
            assert isinstance(page, Page)
            assert [lease.lease for lease in page.items if hasattr(lease, "lease")] == [again.lease]
            stats = await do(ledger, ReadStats())
            assert isinstance(stats, Stats)
            assert stats.classes[0].ready == 1


async def test_a_caller_that_left_does_not_shift_the_answers_of_others() -> None:
    with Redis() as server:
        async with opened(server.url, "r01") as ledger:
            await people(ledger, "a", "b")
            server.pause()
            leaving = asyncio.create_task(do(ledger, Ping()))
            staying = asyncio.create_task(do(ledger, acquire(1)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            leaving.cancel()
            server.resume()
            assert isinstance(await staying, Granted)
            with pytest.raises(asyncio.CancelledError):
                await leaving


async def granted(ledger: RedisLedger, n: int) -> Granted:
    outcome = await do(ledger, acquire(n))
    assert isinstance(outcome, Granted)
    return outcome


async def eventually_granted(ledger: RedisLedger) -> Granted:
    ns = iter(range(10, 1_000_000))

    async def asked() -> Granted | None:
        outcome = await do(ledger, acquire(next(ns)))
        return outcome if isinstance(outcome, Granted) else None

    return await wait_for_asyncio(asked, 10, "admission opens and the queue is granted")
