"""LeaseService over loopback: exchanges, give-back, directives, denials."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
import pytest_asyncio
from google.protobuf.duration_pb2 import Duration

from slicelease.control_plane.domain.commands import Acquire, GiveBack, Settle
from slicelease.control_plane.domain.outcomes import QueueState
from slicelease.v1 import admin_service_pb2 as admin
from slicelease.v1 import lease_service_pb2 as pb
from tests.integration.control_plane_world import World, control_plane, failing, failure_of
from tests.servers.waiting import wait_for_asyncio


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    async with control_plane() as running:
        yield running


async def create(world: World, *tenants: str) -> None:
    for tenant in tenants:
        await world.admin.CreateTenant(admin.CreateTenantRequest(tenant_id=tenant))


def acquire(n: int, slot: int = 0, session: str = "w1", **fields: Any) -> pb.AcquireLeaseRequest:
    request_id = f"{session}/{slot}/{n}"
    return pb.AcquireLeaseRequest(session=session, slot=slot, classes=["standard"], request_id=request_id, **fields)


def settle(granted: pb.Granted, n: int, slot: int = 0, session: str = "w1", **fields: Any) -> pb.SettleLeaseRequest:
    given: dict[str, Any] = {"end_reason": pb.END_REASON_EMPTY} | fields
    lease = granted.lease
    return pb.SettleLeaseRequest(lease=lease.name, fencing_token=lease.fencing_token, request_id=f"{session}/{slot}/{n}", **given)


def progress(granted: pb.Granted, n: int, slot: int = 0) -> pb.ReportProgressRequest:
    lease = granted.lease
    return pb.ReportProgressRequest(lease=lease.name, fencing_token=lease.fencing_token, request_id=f"w1/{slot}/{n}")


def live(world: World) -> int:
    return len(world.ledger.inner.state.leases)


async def seen_gone() -> None:
    """The server has noticed that the caller left."""
    await wait_for_asyncio(lambda: any("_give_back" in repr(task) for task in asyncio.all_tasks()), 5, "the cancellation")


@pytest.mark.asyncio
async def test_an_exchange_is_one_ledger_step_and_answers_each_call_in_order(world: World) -> None:
    await create(world, "a", "b")
    first = (await world.lease.AcquireLease(acquire(1))).granted
    before = len(world.ledger.asked(Acquire))
    calls = [
        pb.LeaseCall(acquire=acquire(1, slot=1)),
        pb.LeaseCall(acquire=acquire(1, slot=2, session="other")),
        pb.LeaseCall(),
        pb.LeaseCall(acquire=pb.AcquireLeaseRequest(session="w1", slot=3, classes=["a.b"], request_id="w1/3/1")),
        pb.LeaseCall(settle=settle(first, 2, want_next=True, classes=["standard"])),
        pb.LeaseCall(acquire=acquire(1, slot=4)),
    ]
    answers = (await world.lease.ExchangeLeases(pb.ExchangeLeasesRequest(calls=calls))).answers
    assert [answer.WhichOneof("answer") for answer in answers] == ["acquire", "error", "error", "error", "settle", "acquire"]
    assert [failure_of(answers[n].error).metadata["field"] for n in (1, 2, 3)] == ["request_id", "call", "classes"]
    assert answers[0].acquire.WhichOneof("outcome") == "granted"
    assert answers[4].settle.disposition == pb.DISPOSITION_IDLE
    assert answers[5].acquire.denied.reason == pb.DENIAL_REASON_NO_READY_QUEUE
    (step,) = [step for step in world.ledger.steps if any(isinstance(each, Settle) for each in step)]
    assert len(step) == 3
    assert len(world.ledger.asked(Acquire)) - before == 2


@pytest.mark.asyncio
async def test_a_refused_call_of_an_exchange_answers_alone(world: World) -> None:
    await create(world, "a")
    granted = (await world.lease.AcquireLease(acquire(1))).granted
    await world.lease.SettleLease(settle(granted, 2))
    calls = [pb.LeaseCall(progress=progress(granted, 3)), pb.LeaseCall(acquire=acquire(1, slot=1))]
    answers = (await world.lease.ExchangeLeases(pb.ExchangeLeasesRequest(calls=calls))).answers
    over = failure_of(answers[0].error)
    assert (over.reason, over.metadata["name"]) == ("LEASE_OVER", granted.lease.name)
    assert answers[1].WhichOneof("answer") == "acquire"


@pytest.mark.asyncio
async def test_a_settle_carries_the_next_lease_until_there_is_none(world: World) -> None:
    await create(world, "a", "b")
    granted = (await world.lease.AcquireLease(acquire(1))).granted
    tokens, queues = [granted.lease.fencing_token], [granted.lease.queue]
    for n in range(2, 5):
        answer = await world.lease.SettleLease(settle(granted, n, want_next=True, classes=["standard"]))
        if not answer.HasField("next_lease"):
            break
        granted = answer.next_lease
        tokens.append(granted.lease.fencing_token)
        queues.append(granted.lease.queue)
    assert sorted(queues) == ["tenants/a/queues/default", "tenants/b/queues/default"]
    assert tokens == sorted(set(tokens))
    assert live(world) == 0


@pytest.mark.asyncio
@pytest.mark.parametrize("unary", [True, False])
async def test_a_grant_whose_caller_left_during_the_step_is_given_back(world: World, unary: bool) -> None:
    """G09: the deadline hits while the store is slow; no lease stays granted to a caller that left."""
    await create(world, "a", "b")
    world.ledger.hold_after = asyncio.Event()
    if unary:
        call = world.lease.AcquireLease(acquire(1), timeout=0.2)
    else:
        calls = [pb.LeaseCall(acquire=acquire(1, slot=slot)) for slot in (0, 1)]
        call = world.lease.ExchangeLeases(pb.ExchangeLeasesRequest(calls=calls), timeout=0.2)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert live(world) == (1 if unary else 2)
    await seen_gone()
    world.ledger.hold_after.set()
    await wait_for_asyncio(lambda: live(world) == 0, 5, "the leases to be given back")
    assert len(world.ledger.asked(GiveBack)) == (1 if unary else 2)
    assert {queue.state for queue in world.ledger.inner.state.queues.values()} == {QueueState.READY}
    world.ledger.hold_after = None
    assert (await world.lease.AcquireLease(acquire(2))).WhichOneof("outcome") == "granted"


@pytest.mark.asyncio
async def test_the_next_lease_of_a_settle_is_given_back_too(world: World) -> None:
    await create(world, "a", "b")
    granted = (await world.lease.AcquireLease(acquire(1))).granted
    world.ledger.hold_after = asyncio.Event()
    call = world.lease.SettleLease(settle(granted, 2, want_next=True, classes=["standard"]))
    await wait_for_asyncio(lambda: world.ledger.asked(Settle), 5, "the settle")
    call.cancel()
    await seen_gone()
    world.ledger.hold_after.set()
    await wait_for_asyncio(lambda: world.ledger.asked(GiveBack) and live(world) == 0, 5, "the give-back")


@pytest.mark.asyncio
async def test_what_a_replay_carried_is_not_given_back(world: World) -> None:
    """The caller left, and asked again under the same id before the first step ended: the lease is its own."""
    await create(world, "a")
    world.ledger.hold_after = hold = asyncio.Event()
    with pytest.raises(grpc.aio.AioRpcError):
        await world.lease.AcquireLease(acquire(1), timeout=0.2)
    await seen_gone()
    world.ledger.hold_after = None
    again = await world.lease.AcquireLease(acquire(1))
    hold.set()
    await wait_for_asyncio(lambda: world.ledger.asked(GiveBack), 5, "the give-back")
    assert again.granted.lease.name
    assert live(world) == 1
    assert (await world.lease.ReportProgress(progress(again.granted, 2))).directive.action == pb.Directive.ACTION_CONTINUE


# ---- directives ---------------------------------------------------------------------------------------------------------


def watch(world: World, session: str = "w1", version: int = 1, heartbeat_s: int = 5) -> Any:
    heartbeat = Duration(seconds=heartbeat_s)
    request = pb.WatchDirectivesRequest(session=session, protocol_version=version, amqp_heartbeat=heartbeat)
    return world.lease.WatchDirectives(request)


@pytest.mark.asyncio
async def test_a_session_is_welcomed_and_told_of_pause_and_revocation(world: World) -> None:
    await create(world, "a")
    stream, other = watch(world), watch(world, "w2")
    welcome = (await stream.read()).welcome
    assert (welcome.protocol_version, welcome.max_amqp_heartbeat.seconds, welcome.lease_length.seconds) == (1, 5, 15)
    assert (await other.read()).HasField("welcome")
    granted = (await world.lease.AcquireLease(acquire(1))).granted
    await world.admin.PauseQueue(admin.PauseQueueRequest(name=granted.lease.queue))
    told = (await stream.read()).lease_directive
    assert (told.lease, told.directive.action) == (granted.lease.name, pb.Directive.ACTION_STOP)
    assert told.directive.reason == pb.END_REASON_PAUSED
    paused = await world.lease.ReportProgress(progress(granted, 2))
    assert paused.directive.reason == pb.END_REASON_PAUSED

    await world.admin.RevokeLease(admin.RevokeLeaseRequest(name=granted.lease.name))
    assert (await stream.read()).lease_directive.directive.reason == pb.END_REASON_REVOKED
    revoked = await world.lease.ReportProgress(progress(granted, 3))
    assert revoked.directive.reason == pb.END_REASON_REVOKED
    assert not revoked.HasField("valid_for")
    stream.cancel()
    other.cancel()


@pytest.mark.asyncio
async def test_a_worker_of_another_protocol_is_told_both_versions(world: World) -> None:
    failure = await failing(watch(world, version=2).read())
    assert failure.code is grpc.StatusCode.FAILED_PRECONDITION
    assert failure.reason == "PROTOCOL_UNSUPPORTED"
    assert (failure.metadata["caller"], failure.metadata["supported"]) == ("2", "1")


@pytest.mark.asyncio
async def test_a_heartbeat_that_outlives_the_quarantine_is_refused_in_clear_words(world: World) -> None:
    failure = await failing(watch(world, heartbeat_s=6).read())
    assert failure.code is grpc.StatusCode.FAILED_PRECONDITION
    assert failure.metadata["field"] == "amqp_heartbeat"
    assert "SLICELEASE_AMQP_HEARTBEAT" in failure.message
    missing = await failing(watch(world, heartbeat_s=0).read())
    assert (missing.code, missing.metadata) == (grpc.StatusCode.INVALID_ARGUMENT, {"field": "amqp_heartbeat"})


@pytest.mark.asyncio
async def test_streams_that_clients_cancel_leave_nothing_behind(world: World) -> None:
    """G08, in small."""
    for _ in range(200):
        stream = watch(world)
        await stream.read()
        stream.cancel()
    running = asyncio.all_tasks
    await wait_for_asyncio(lambda: sum("WatchDirectives" in repr(task) for task in running()) == 0, 5, "the handlers to end")
    fresh = watch(world)
    assert (await fresh.read()).HasField("welcome")
    fresh.cancel()


@pytest.mark.asyncio
async def test_admission_closed_is_a_denial_with_its_time() -> None:
    async with control_plane(new_ledger="closed", lease_length="3s", first_validity="1s", ready=False) as world:
        denied = (await world.lease.AcquireLease(acquire(1))).denied
        assert denied.reason == pb.DENIAL_REASON_ADMISSION_CLOSED
        lease_and_quarantine_ms = 3_000 + 16_000
        assert 3_000 < denied.retry_after.ToMilliseconds() <= lease_and_quarantine_ms
