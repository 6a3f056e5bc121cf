"""Two control planes on one Redis and one RabbitMQ: what one does, the other knows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple

import aio_pika
import grpc
import pytest
import redis.asyncio
from google.protobuf.duration_pb2 import Duration
from grpc_health.v1 import health_pb2, health_pb2_grpc

from slicelease.control_plane.app import serve
from slicelease.v1 import (
    admin_service_pb2,
    admin_service_pb2_grpc,
    lease_service_pb2,
    lease_service_pb2_grpc,
    work_service_pb2,
    work_service_pb2_grpc,
)
from tests.integration.control_plane_world import failing, settings_for_tests
from tests.servers.waiting import wait_for_asyncio

pytestmark = pytest.mark.servers


class Replica(NamedTuple):
    lease: Any
    work: Any
    admin: Any
    health: Any


@asynccontextmanager
async def replica(amqp_url: str, redis_url: str, cell: str, **changes: Any) -> AsyncIterator[Replica]:
    """One control plane with its own connections, serving."""
    settings = settings_for_tests(amqp_url=amqp_url, redis_url=redis_url, cell=cell, **changes)
    stop, address = asyncio.Event(), asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serve(settings, on_ready=address.set_result, stop=stop))
    try:
        async with grpc.aio.insecure_channel(await address, options=[("grpc.enable_http_proxy", 0)]) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            async for update in health.Watch(health_pb2.HealthCheckRequest(), timeout=30):
                if update.status == health_pb2.HealthCheckResponse.SERVING:
                    break
            yield Replica(
                lease_service_pb2_grpc.LeaseServiceStub(channel),
                work_service_pb2_grpc.WorkServiceStub(channel),
                admin_service_pb2_grpc.AdminServiceStub(channel),
                health,
            )
    finally:
        stop.set()
        await asyncio.wait_for(task, 20)


@asynccontextmanager
async def two(amqp_url: str, redis_url: str, cell: str, **changes: Any) -> AsyncIterator[tuple[Replica, Replica]]:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(replica(amqp_url, redis_url, cell, **changes))
        yield first, await stack.enter_async_context(replica(amqp_url, redis_url, cell, **changes))


def acquire(n: int) -> lease_service_pb2.AcquireLeaseRequest:
    return lease_service_pb2.AcquireLeaseRequest(session="w", slot=0, classes=["standard"], request_id=f"w/0/{n}")


async def create(at: Replica, tenant: str) -> None:
    await at.admin.CreateTenant(admin_service_pb2.CreateTenantRequest(tenant_id=tenant))


@pytest.mark.asyncio
async def test_what_one_replica_did_the_other_answers(amqp_url: str, redis_url: str, cell: str) -> None:
    async with two(amqp_url, redis_url, cell) as (one, other):
        await create(one, "acme")
        publish = work_service_pb2.PublishWorkRequest(queue="tenants/acme", payload=b"x", request_id="r-1")
        published = await one.work.PublishWork(publish)
        assert await other.work.PublishWork(publish) == published
        queue = admin_service_pb2.GetQueueRequest(name="tenants/acme/queues/default")
        await wait_for_asyncio(lambda: _backlog(other, queue, 1), 5, "the one message")
        granted = (await one.lease.AcquireLease(acquire(1))).granted
        assert (await other.lease.AcquireLease(acquire(1))).granted.lease.name == granted.lease.name


async def _backlog(at: Replica, request: Any, wanted: int) -> bool:
    return bool((await at.admin.GetQueue(request)).queue.backlog_messages == wanted)


@pytest.mark.asyncio
async def test_a_directive_reaches_the_stream_at_the_other_replica(amqp_url: str, redis_url: str, cell: str) -> None:
    async with two(amqp_url, redis_url, cell) as (one, other):
        await create(one, "acme")
        heartbeat = Duration(seconds=5)
        request = lease_service_pb2.WatchDirectivesRequest(session="w", protocol_version=1, amqp_heartbeat=heartbeat)
        stream = other.lease.WatchDirectives(request)
        assert (await stream.read()).HasField("welcome")
        granted = (await one.lease.AcquireLease(acquire(1))).granted
        await one.admin.PauseQueue(admin_service_pb2.PauseQueueRequest(name=granted.lease.queue))
        told = (await asyncio.wait_for(stream.read(), 5)).lease_directive
        assert (told.lease, told.directive.reason) == (granted.lease.name, lease_service_pb2.END_REASON_PAUSED)
        stream.cancel()


@pytest.mark.asyncio
async def test_work_is_announced_and_raised_attention_taken_in(amqp_url: str, redis_url: str, cell: str) -> None:
    async with two(amqp_url, redis_url, cell) as (one, _), await aio_pika.connect(amqp_url) as connection:
        await create(one, "acme")
        channel = await connection.channel()
        tickets = await channel.get_queue("attention.standard")
        first = await wait_for_asyncio(lambda: tickets.get(fail=False), 5, "the ticket of a new queue")
        await first.ack()
        granted = (await one.lease.AcquireLease(acquire(1))).granted
        settle = lease_service_pb2.SettleLeaseRequest(
            lease=granted.lease.name,
            fencing_token=granted.lease.fencing_token,
            end_reason=lease_service_pb2.END_REASON_EMPTY,
            request_id="w/0/2",
        )
        assert (await one.lease.SettleLease(settle)).disposition == lease_service_pb2.DISPOSITION_IDLE
        exchange = await channel.get_exchange("attention.exchange")
        await exchange.publish(aio_pika.Message(b'{"tenant": "acme"}'), routing_key="work")

        async def ready() -> bool:
            request = admin_service_pb2.GetQueueRequest(name="tenants/acme/queues/default")
            return bool((await one.admin.GetQueue(request)).queue.state == 2)

        await wait_for_asyncio(ready, 5, "the raised attention to be recorded")


@pytest.mark.asyncio
async def test_flushed_functions_cost_no_call(amqp_url: str, redis_url: str, cell: str) -> None:
    """R01. Flushing concerns every test on the shared server: each of them loads the library again by itself."""
    async with replica(amqp_url, redis_url, cell) as one, redis.asyncio.Redis.from_url(redis_url) as store:
        await create(one, "acme")
        await store.function_flush()
        assert (await one.lease.AcquireLease(acquire(1))).HasField("granted")


@pytest.mark.asyncio
async def test_a_queue_with_other_arguments_is_named(amqp_url: str, redis_url: str, cell: str) -> None:
    """A11, on the broker itself."""
    async with replica(amqp_url, redis_url, cell) as one, await aio_pika.connect(amqp_url) as connection:
        channel = await connection.channel()
        await channel.declare_queue("work.acme", durable=True, arguments={"x-max-length": 3})
        failure = await failing(one.admin.CreateTenant(admin_service_pb2.CreateTenantRequest(tenant_id="acme")))
        assert failure.reason == "QUEUE_ARGUMENTS_DIFFER"
        assert failure.metadata["argument"].startswith("x-")
        missing = await failing(one.admin.GetTenant(admin_service_pb2.GetTenantRequest(name="tenants/acme")))
        assert missing.reason == "TENANT_NOT_FOUND"
        await create(one, "other")
