"""Draining in order, and a process that is told to stop at any time (T04)."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
import trustme
from google.protobuf.duration_pb2 import Duration
from grpc_health.v1 import health_pb2, health_pb2_grpc

from slicelease.control_plane.app import AddressInUseError, serve
from slicelease.v1 import admin_service_pb2 as admin
from slicelease.v1 import lease_service_pb2 as lease
from slicelease.v1 import work_service_pb2 as work
from tests.integration.control_plane_world import (
    FakeBroker,
    SwitchedLedger,
    World,
    control_plane,
    failing,
    settings_for_tests,
    until_serving,
)
from tests.servers.waiting import wait_for_asyncio


def ticket() -> lease.Ticket:
    return lease.Ticket(**{"class": "standard", "announcement_id": "a-1"})


def ask(n: int, held: lease.Ticket | None = None) -> lease.AcquireLeaseRequest:
    return lease.AcquireLeaseRequest(session="w", slot=0, classes=["standard"], request_id=f"w/0/{n}", ticket=held)


@asynccontextmanager
async def draining(grace: str) -> AsyncIterator[World]:
    """A control plane that was told to stop, in the pause before it refuses calls."""
    async with control_plane(shutdown_grace=grace) as world:
        await world.admin.CreateTenant(admin.CreateTenantRequest(tenant_id="acme"))
        yield world


@pytest.mark.asyncio
async def test_not_serving_comes_first_no_new_leases_and_settles_go_on() -> None:
    async with draining("4s") as world:
        held = (await world.lease.AcquireLease(ask(1))).granted.lease
        watch = world.health.Watch(health_pb2.HealthCheckRequest())
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        world.stop.set()
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING

        denied = (await world.lease.AcquireLease(ask(2))).denied
        assert denied.reason == lease.DENIAL_REASON_DRAINING
        with_ticket = await failing(world.lease.AcquireLease(ask(2, ticket())))
        assert (with_ticket.code, with_ticket.reason) == (grpc.StatusCode.UNAVAILABLE, "SHUTTING_DOWN")

        settle = lease.SettleLeaseRequest(
            lease=held.name, fencing_token=held.fencing_token, end_reason=lease.END_REASON_TIME,
            request_id="w/0/2", want_next=True, classes=["standard"],
        )  # fmt: skip
        calls = [
            lease.LeaseCall(acquire=ask(3, ticket())),
            lease.LeaseCall(settle=settle),
            lease.LeaseCall(acquire=ask(4)),
        ]
        answers = (await world.lease.ExchangeLeases(lease.ExchangeLeasesRequest(calls=calls))).answers
        assert answers[0].HasField("error")
        assert answers[1].settle.disposition == lease.DISPOSITION_READY
        assert not answers[1].settle.HasField("next_lease")
        assert answers[2].acquire.denied.reason == lease.DENIAL_REASON_DRAINING
        assert world.ledger.inner.state.leases == {}


@pytest.mark.asyncio
async def test_a_running_call_ends_well_inside_the_grace() -> None:
    async with draining("5s") as world:
        world.broker.hold = asyncio.Event()
        call = world.work.PublishWork(work.PublishWorkRequest(queue="tenants/acme", payload=b"x"))
        await wait_for_asyncio(lambda: world.broker.publishes == 1, 5, "the publish")
        world.stop.set()
        stream = world.lease.WatchDirectives(
            lease.WatchDirectivesRequest(session="w", protocol_version=1, amqp_heartbeat=Duration(seconds=5))
        )
        await stream.read()
        ended = await failing(stream.read())
        assert (ended.code, ended.reason) == (grpc.StatusCode.UNAVAILABLE, "SHUTTING_DOWN")
        refused = await failing(world.admin.ListTenants(admin.ListTenantsRequest()))
        assert (refused.code, refused.reason) == (grpc.StatusCode.UNAVAILABLE, "SHUTTING_DOWN")
        world.broker.hold.set()
        assert (await call).message_id
        assert await asyncio.wait_for(asyncio.shield(world.task), 5) == 0


@pytest.mark.asyncio
async def test_a_call_that_outlasts_the_grace_ends_with_a_status_too() -> None:
    async with draining("400ms") as world:
        world.ledger.hold = asyncio.Event()
        call = world.admin.GetTenant(admin.GetTenantRequest(name="tenants/acme"))
        await asyncio.sleep(0)
        await wait_for_asyncio(lambda: any("GetTenant" in str(step) for step in world.ledger.steps), 5, "the step")
        world.stop.set()
        failure = await failing(call)
        assert (failure.code, failure.reason) == (grpc.StatusCode.UNAVAILABLE, "SHUTTING_DOWN")
        assert await asyncio.wait_for(asyncio.shield(world.task), 10) == 0


@pytest.mark.asyncio
async def test_an_address_in_use_is_a_clear_error() -> None:
    async with control_plane() as world:
        settings = settings_for_tests(listen=world.address)
        ledger = SwitchedLedger(settings.ledger_config())
        with pytest.raises(AddressInUseError, match=world.address):
            await serve(settings, ledger=ledger, broker=FakeBroker())


@pytest.mark.asyncio
async def test_tls_is_served_to_those_who_know_the_authority(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    async with control_plane(listen="localhost:0", tls_cert=cert, tls_key=key, ready=False) as world:
        credentials = grpc.ssl_channel_credentials(authority.cert_pem.bytes())
        async with grpc.aio.secure_channel(world.address, credentials, options=[("grpc.enable_http_proxy", 0)]) as channel:
            answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10)
            assert answer.status in (health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING)


# ---- the process --------------------------------------------------------------------------------------------------------

# Redis and RabbitMQ are away in all of these: nothing listens on port 1.
PROCESS = """
import sys
from slicelease.control_plane.app import run
from slicelease.control_plane.config import ControlPlaneSettings
sys.stderr.write("begin\\n")
sys.stderr.flush()
sys.exit(run(ControlPlaneSettings(
    amqp_url="amqp://user:hunter2@127.0.0.1:1/", redis_url="redis://:hunter2@127.0.0.1:1/0", listen=sys.argv[1],
    metrics_listen="", shutdown_grace="5s", log_level="debug",
)))
"""


class Process:
    """The control plane as a process of its own, and what it logged."""

    def __init__(self, inner: asyncio.subprocess.Process) -> None:
        self.inner = inner
        self.lines: list[str] = []

    async def line_with(self, text: str) -> str:
        assert self.inner.stderr is not None
        while True:
            line = (await asyncio.wait_for(self.inner.stderr.readline(), 30)).decode()
            assert line, self.lines
            self.lines.append(line)
            if text in line:
                return line

    async def end(self) -> int:
        assert self.inner.stderr is not None
        rest = await asyncio.wait_for(self.inner.stderr.read(), 30)
        self.lines += rest.decode().splitlines()
        return await asyncio.wait_for(self.inner.wait(), 30)


@asynccontextmanager
async def process(listen: str = "127.0.0.1:0") -> AsyncIterator[Process]:
    inner = await asyncio.create_subprocess_exec(sys.executable, "-c", PROCESS, listen, stderr=asyncio.subprocess.PIPE)
    try:
        yield Process(inner)
    finally:
        if inner.returncode is None:
            inner.kill()
            await inner.wait()


@pytest.mark.asyncio
async def test_it_starts_with_everything_away_says_so_and_stops_at_a_signal() -> None:
    async with process() as running:
        address = json.loads(await running.line_with("taking calls"))["address"]
        async with grpc.aio.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            answer = await health.Check(health_pb2.HealthCheckRequest(), wait_for_ready=True, timeout=10)
            assert answer.status == health_pb2.HealthCheckResponse.NOT_SERVING
        running.inner.send_signal(signal.SIGTERM)
        assert await running.end() == 0
        assert "hunter2" not in "".join(running.lines)


@pytest.mark.asyncio
async def test_a_signal_during_the_start_is_obeyed() -> None:
    async with process() as running:
        await running.line_with("begin")
        running.inner.send_signal(signal.SIGTERM)
        code = await running.end()
        assert code in (0, -signal.SIGTERM)  # the latter only before our handler is there, when nothing was begun
        assert "Traceback" not in "".join(running.lines)


@pytest.mark.asyncio
async def test_a_second_signal_ends_at_once() -> None:
    async with process() as running:
        await running.line_with("taking calls")
        running.inner.send_signal(signal.SIGTERM)
        await running.line_with("draining")
        running.inner.send_signal(signal.SIGTERM)
        assert await running.end() == 0
        assert any("at once" in line for line in running.lines)


@pytest.mark.asyncio
async def test_a_process_whose_address_is_taken_ends_with_one() -> None:
    async with control_plane() as world, process(world.address) as second:
        assert await second.end() == 1
        assert any("in use" in line and world.address in line for line in second.lines)
        await until_serving(world)
