"""Faults that people have had with this kind of system, tried on the whole of it. Test names begin with the trial's id."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from google.protobuf import field_mask_pb2

from slicelease.v1 import (
    admin_service_pb2,
    admin_service_pb2_grpc,
    lease_service_pb2,
    lease_service_pb2_grpc,
    resources_pb2,
    work_service_pb2,
    work_service_pb2_grpc,
)
from tests.e2e import raw_amqp
from tests.e2e.processes import ControlPlane, Worker
from tests.e2e.record import Record
from tests.servers import RabbitMQ, wait_for

APP = "tests.e2e.recording_app:app"
SOON_S = 15.0
"""For what happens at once, on a busy machine."""

QUICK = {"SLICELEASE_AMQP_HEARTBEAT": "1s", "SLICELEASE_FIRST_VALIDITY": "1s", "SLICELEASE_LEASE_LENGTH": "2s"}
"""H is 4 s then."""


@dataclass
class System:
    """One control plane, its stubs, and workers as a test starts them."""

    stack: contextlib.ExitStack
    amqp_url: str
    record: Record
    plane: ControlPlane
    channel: grpc.Channel

    def __post_init__(self) -> None:
        self.admin = admin_service_pb2_grpc.AdminServiceStub(self.channel)
        self.leases = lease_service_pb2_grpc.LeaseServiceStub(self.channel)
        self.works = work_service_pb2_grpc.WorkServiceStub(self.channel)

    def start_worker(self, **env: str) -> Worker:
        env = {"RECORD": str(self.record.path), "PYTHONPATH": os.getcwd(), "SLICELEASE_AMQP_HEARTBEAT": "1s"} | env
        return self.stack.enter_context(Worker(self.amqp_url, self.plane.address, APP, **env))

    def publish(self, tenant: str, *numbers: int) -> None:
        for number in numbers:
            request = work_service_pb2.PublishWorkRequest(queue=f"tenants/{tenant}", payload=str(number).encode())
            self.works.PublishWork(request, timeout=20)

    def acquire(self, n: int = 1) -> lease_service_pb2.AcquireLeaseResponse:
        request = lease_service_pb2.AcquireLeaseRequest(session="hand", slot=0, classes=["standard"], request_id=f"hand/0/{n}")
        return self.leases.AcquireLease(request, timeout=5)

    def queue(self, tenant: str) -> resources_pb2.Queue:
        name = f"tenants/{tenant}/queues/default"
        return self.admin.GetQueue(admin_service_pb2.GetQueueRequest(name=name), timeout=5).queue

    def wait_idle(self, tenant: str) -> None:
        wait_for(lambda: self.queue(tenant).state == resources_pb2.QUEUE_STATE_IDLE, SOON_S, f"{tenant} is IDLE")

    def wait_done(self, *messages: tuple[str, int], within_s: float = SOON_S) -> None:
        wait_for(lambda: set(messages) <= self.record.ended(), within_s, f"{messages} are done")


@pytest.fixture
def system(amqp_url: str, redis_url: str, cell: str, tmp_path: Path) -> Iterator[System]:
    with contextlib.ExitStack() as stack:
        settings = {"SLICELEASE_UNKNOWN_TENANTS": "create", "SLICELEASE_RECONCILE_PERIOD": "1s"} | QUICK
        plane = stack.enter_context(ControlPlane(amqp_url, redis_url, cell, settings))
        channel = stack.enter_context(grpc.insecure_channel(plane.address))
        yield System(stack, amqp_url, Record(tmp_path / "record"), plane, channel)


def test_j03_work_published_between_empty_and_settle_runs_without_another_publish(system: System) -> None:
    system.publish("acme", 0)
    raw_amqp.at_broker(system.amqp_url, lambda channel: channel.purge_queue("work.acme"))
    lease = system.acquire().granted.lease
    assert lease.queue == "tenants/acme/queues/default"
    system.publish("acme", 1)
    settled = system.leases.SettleLease(
        lease_service_pb2.SettleLeaseRequest(
            lease=lease.name,
            fencing_token=lease.fencing_token,
            end_reason=lease_service_pb2.END_REASON_EMPTY,
            request_id="hand/0/2",
        ),
        timeout=5,
    )
    assert settled.disposition == lease_service_pb2.DISPOSITION_READY
    system.start_worker()
    system.wait_done(("acme", 1))


def test_j03_a_message_in_a_dead_holders_hand_runs_within_the_quarantine(system: System) -> None:
    mask = field_mask_pb2.FieldMask(paths=["ordering"])
    loose = resources_pb2.PriorityClass(name="priorityClasses/standard", ordering=resources_pb2.ORDERING_NONE)
    system.admin.UpdatePriorityClass(
        admin_service_pb2.UpdatePriorityClassRequest(priority_class=loose, update_mask=mask), timeout=5
    )
    system.publish("acme", 0)
    assert system.acquire().granted.lease.amqp_queue == "work.acme"

    async def hold(channel: raw_amqp.Channel) -> None:
        assert await channel.get("work.acme") is not None
        system.start_worker()
        wait_for(lambda: system.queue("acme").state == resources_pb2.QUEUE_STATE_WAITING, SOON_S, "empty was not believed")

    raw_amqp.at_broker(system.amqp_url, hold)
    system.wait_done(("acme", 0))
    system.wait_idle("acme")


@pytest.mark.parametrize(
    "arguments",
    [{}, {"x-queue-type": "quorum"}, {"x-queue-type": "quorum", "x-delivery-limit": 2}],
    ids=["classic", "quorum", "quorum with a limit"],
)
def test_a06_a_paused_queue_holds_nobody_up_and_its_attention_is_not_lost(
    arguments: dict[str, object], rabbitmq: RabbitMQ, vhost: str, amqp_url: str, redis_url: str, cell: str, tmp_path: Path
) -> None:
    raw_amqp.declare(amqp_url, "attention.standard", arguments)
    raw_amqp.declare(amqp_url, "attention.work", arguments)
    with contextlib.ExitStack() as stack:
        settings = {"SLICELEASE_UNKNOWN_TENANTS": "create"} | QUICK
        plane = stack.enter_context(ControlPlane(amqp_url, redis_url, cell, settings))
        channel = stack.enter_context(grpc.insecure_channel(plane.address))
        system = System(stack, amqp_url, Record(tmp_path / "record"), plane, channel)
        system.start_worker(SLICELEASE_SLOTS="1")
        for tenant in ("t1", "t2", "t3"):
            system.publish(tenant, 0)
            system.wait_done((tenant, 0))
            system.wait_idle(tenant)
        system.admin.PauseQueue(admin_service_pb2.PauseQueueRequest(name="tenants/t1/queues/default"), timeout=5)
        for tenant in ("t1", "t2", "t3"):
            raw_amqp.publish(amqp_url, "", f"work.{tenant}", b"1")
        raw_amqp.raise_attention(amqp_url, *(b'{"tenant": "%s"}' % tenant for tenant in (b"t1", b"t2", b"t3")))
        system.wait_done(("t2", 1), ("t3", 1))
        # As long as it is paused nothing of it moves, and its attention is no message that could run out of deliveries.
        wait_for(lambda: system.queue("t1").state == resources_pb2.QUEUE_STATE_READY, SOON_S, "the touch of t1 is recorded")
        wait_for(lambda: rabbitmq.queue_depths(vhost)["attention.standard"] == 0, SOON_S, "no ticket is left over")
        assert ("t1", 1) not in system.record.ended()
        depths = rabbitmq.queue_depths(vhost)
        assert {name: depth for name, depth in depths.items() if depth} == {"work.t1": 1}
        system.admin.ResumeQueue(admin_service_pb2.ResumeQueueRequest(name="tenants/t1/queues/default"), timeout=5)
        system.wait_done(("t1", 1))


def test_a07_a10_a_deleted_attention_queue_is_made_again_and_the_work_runs(system: System) -> None:
    system.start_worker()
    system.publish("acme", 0)
    system.wait_done(("acme", 0))
    raw_amqp.delete_queue(system.amqp_url, "attention.standard")
    system.publish("acme", 1)
    system.wait_done(("acme", 1), within_s=2 * SOON_S)
    raw_amqp.delete_queue(system.amqp_url, "attention.work")
    raw_amqp.publish(system.amqp_url, "", "work.acme", b"2")
    system.wait_done(("acme", 2), within_s=2 * SOON_S)  # the reconciler's, for attention could not be raised


def test_a10_a_tenant_queue_deleted_in_mid_slice_ends_that_slice_only(system: System) -> None:
    worker = system.start_worker(WORK_S="0.3")
    system.publish("doomed", *range(10))
    wait_for(lambda: system.record.marks(), SOON_S, "the slice runs")
    raw_amqp.delete_queue(system.amqp_url, "work.doomed")
    system.publish("other", 0, 1)
    system.wait_done(("other", 0), ("other", 1))
    system.publish("doomed", 10)
    system.wait_done(("doomed", 10), within_s=2 * SOON_S)
    assert worker.running


def test_s01_ids_are_ids_on_every_way_in(system: System, rabbitmq: RabbitMQ, vhost: str) -> None:
    for tenant in ("acme\n", "acme\x00", "amq.acme", "", "a" * 255, "é" * 128, "../acme"):
        with pytest.raises(grpc.RpcError) as refused:
            system.publish(tenant, 0)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT, tenant
    bodies = [b'{"tenant": "acme\\n"}', b'{"tenant": "amq.acme"}', b'{"tenant": ""}', b'{"tenant": "../acme"}', b"{", b"\xff"]
    raw_amqp.raise_attention(system.amqp_url, *bodies)
    wait_for(lambda: rabbitmq.queue_depths(vhost)["dead.unsorted"] == len(bodies), SOON_S, "all are set aside")
    system.publish("A", 0)
    system.publish("a", 0)
    names = {name for name in rabbitmq.queue_depths(vhost) if name.startswith("work.")}
    assert names == {"work.A", "work.a"}


def test_s03_copies_into_other_queues_are_refused(system: System, rabbitmq: RabbitMQ, vhost: str) -> None:
    system.publish("victim", 0)
    for header in ("CC", "BCC", "cc", "x-slicelease-attempts"):
        request = work_service_pb2.PublishWorkRequest(queue="tenants/acme", payload=b"1", headers={header: "work.victim"})
        with pytest.raises(grpc.RpcError) as refused:
            system.works.PublishWork(request, timeout=5)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert rabbitmq.queue_depths(vhost)["work.victim"] == 1
