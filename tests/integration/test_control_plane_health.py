"""Health, readiness over HTTP, reflection, channelz."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import urllib.error
import urllib.request
from typing import Any

import grpc
import pytest
from grpc_channelz.v1 import channelz_pb2, channelz_pb2_grpc
from grpc_health.v1 import health_pb2

from slicelease.v1 import admin_service_pb2 as admin
from slicelease.v1 import work_service_pb2 as work
from tests.integration.control_plane_world import FakeBroker, World, control_plane, until_serving
from tests.servers.waiting import wait_for_asyncio
from tests.tools import buf_path, grpcurl_path

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
ALL = ("", "slicelease.redis", "slicelease.rabbitmq", "slicelease.ledger")


async def states(world: World) -> list[bool]:
    answers = [await world.health.Check(health_pb2.HealthCheckRequest(service=name)) for name in ALL]
    return [answer.status == SERVING for answer in answers]


@pytest.mark.asyncio
async def test_each_component_has_its_state_and_watch_follows() -> None:
    """S06."""
    async with control_plane() as world:
        assert await states(world) == [True] * 4
        world.broker.away = True
        await until_serving(world, serving=False)
        assert await states(world) == [False, True, False, True]
        world.broker.away = False
        await until_serving(world)
        world.ledger.away = True
        await until_serving(world, "slicelease.ledger", serving=False)
        assert await states(world) == [False, False, True, False]
        world.ledger.away = False
        await until_serving(world)


@pytest.mark.asyncio
async def test_one_watcher_may_leave_without_taking_the_news_from_the_others() -> None:
    async with control_plane() as world:
        request = health_pb2.HealthCheckRequest()
        leaving, staying = world.health.Watch(request), world.health.Watch(request)
        assert [(await each.read()).status for each in (leaving, staying)] == [SERVING, SERVING]
        leaving.cancel()
        world.broker.away = True
        assert (await asyncio.wait_for(staying.read(), 5)).status == NOT_SERVING
        staying.cancel()


@pytest.mark.asyncio
async def test_an_unknown_service_is_not_found_and_watched_as_unknown() -> None:
    async with control_plane() as world:
        request = health_pb2.HealthCheckRequest(service="other")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await world.health.Check(request)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        watch = world.health.Watch(request)
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
        watch.cancel()


def get(address: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.fixture
def metrics_address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


async def ready(address: str) -> tuple[int, Any]:
    code, body = await asyncio.to_thread(get, address, "/ready")
    return code, json.loads(body)


@pytest.mark.asyncio
async def test_ready_tells_the_reasons_and_start_needs_nobody(metrics_address: str) -> None:
    broker = FakeBroker(away=True)
    async with control_plane(broker=broker, metrics_listen=metrics_address, ready=False) as world:

        async def rabbitmq() -> str:
            _, shown = await ready(metrics_address)
            return str(shown["components"]["slicelease.rabbitmq"]["reason"])

        await wait_for_asyncio(lambda: _is(rabbitmq(), "not connected"), 5, "the reason")
        code, shown = await ready(metrics_address)
        assert (code, shown["ready"]) == (503, False)
        assert shown["components"]["slicelease.redis"] == {"ready": True, "reason": None}
        broker.away = False
        await until_serving(world)
        assert (await ready(metrics_address))[0] == 200
        assert (await asyncio.to_thread(get, metrics_address, "/live"))[0] == 200
        assert (await asyncio.to_thread(get, metrics_address, "/other"))[0] == 404


async def _is(found: Any, wanted: str) -> bool:
    return bool(await found == wanted)


@pytest.mark.asyncio
async def test_closed_admission_is_a_reason_and_not_serving(metrics_address: str) -> None:
    changes: dict[str, Any] = {"new_ledger": "closed", "lease_length": "2s", "first_validity": "1s", "amqp_heartbeat": "1s"}
    async with control_plane(metrics_listen=metrics_address, ready=False, **changes) as world:

        async def closed() -> bool:
            _, shown = await ready(metrics_address)
            return str(shown["components"]["slicelease.ledger"]["reason"]).startswith("admission closed for ")

        await wait_for_asyncio(closed, 5, "the reason")
        assert (await states(world))[0] is False
        await until_serving(world)


@pytest.mark.asyncio
async def test_a_ledger_that_was_emptied_is_set_up_again() -> None:
    async with control_plane() as world:
        world.ledger.inner.lose_everything()
        world.broker.tickets.clear()
        await wait_for_asyncio(lambda: set(world.broker.tickets) >= {"bulk", "standard"}, 5, "the topology")
        await world.admin.CreateTenant(admin.CreateTenantRequest(tenant_id="acme"))


@pytest.mark.asyncio
async def test_metrics_tell_of_calls_and_of_the_ledger(metrics_address: str) -> None:
    async with control_plane(metrics_listen=metrics_address) as world:
        await world.admin.CreateTenant(admin.CreateTenantRequest(tenant_id="acme"))
        await world.work.PublishWork(work.PublishWorkRequest(queue="tenants/acme"))
        with pytest.raises(grpc.aio.AioRpcError):
            await world.work.PublishWork(work.PublishWorkRequest(queue="tenants/other"))

        async def told() -> bool:
            _, text = await asyncio.to_thread(get, metrics_address, "/metrics")
            return all(line in text for line in (
                'slicelease_work_published_total{result="published"} 1.0',
                'slicelease_work_published_total{result="TENANT_NOT_FOUND"} 1.0',
                'slicelease_rpc_seconds_count{code="NOT_FOUND",method="/slicelease.v1.WorkService/PublishWork"} 1.0',
                'slicelease_ready_queues{class="standard"} 1.0',
                'slicelease_ready{component="all"} 1.0',
                "slicelease_tenants 1.0",
            ))  # fmt: skip

        await wait_for_asyncio(told, 5, "the series")


# ---- reflection ---------------------------------------------------------------------------------------------------------


async def ended(*command: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=30, check=False)


async def run(*command: str) -> str:
    done = await ended(*command)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.asyncio
async def test_grpcurl_and_buf_list_describe_and_call_through_reflection() -> None:
    """G07: grpcurl 1.8.6 speaks v1alpha, buf v1."""
    async with control_plane() as world:
        grpcurl = (grpcurl_path(), "-plaintext")
        listed = (await run(*grpcurl, world.address, "list")).split()
        assert set(listed) >= {
            "grpc.channelz.v1.Channelz", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection", "slicelease.v1.AdminService", "slicelease.v1.LeaseService",
            "slicelease.v1.WorkService",
        }  # fmt: skip
        for service in listed:
            assert "service" in await run(*grpcurl, world.address, "describe", service)
        made = await run(*grpcurl, "-d", '{"tenant_id": "acme"}', world.address, "slicelease.v1.AdminService/CreateTenant")
        assert json.loads(made)["tenant"]["name"] == "tenants/acme"

        url = f"http://{world.address}"
        curl = (buf_path(), "curl", "--protocol", "grpc", "--http2-prior-knowledge")
        methods = (await run(*curl, "--list-methods", url)).split()
        assert "slicelease.v1.WorkService/PublishWork" in methods
        got = await run(*curl, "-d", '{"name": "tenants/acme"}', f"{url}/slicelease.v1.AdminService/GetTenant")
        assert json.loads(got)["tenant"]["weight"] == 100


@pytest.mark.asyncio
async def test_grpcurl_shows_the_details_of_an_error() -> None:
    async with control_plane() as world:
        command = (grpcurl_path(), "-plaintext", "-d", '{"name": "tenants/acme"}', world.address)
        done = await ended(*command, "slicelease.v1.AdminService/GetTenant")
        assert "NotFound" in done.stderr
        assert "TENANT_NOT_FOUND" in done.stderr


@pytest.mark.asyncio
async def test_channelz_knows_the_server() -> None:
    async with control_plane() as world:
        stub = channelz_pb2_grpc.ChannelzStub(world.channel)
        answer = await stub.GetServers(channelz_pb2.GetServersRequest())
        assert answer.server
