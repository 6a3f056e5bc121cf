"""The main job on real servers: 200 tenants, 20,000 messages, two workers, two control planes, a crash and a restart."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
import redis
from google.protobuf import field_mask_pb2

from slicelease.control_plane.domain.ledger.audit import faults
from slicelease.control_plane.domain.policy import LedgerConfig
from slicelease.v1 import admin_service_pb2, admin_service_pb2_grpc, resources_pb2
from tests.differential.snapshot import dump, state_of, strangers
from tests.e2e.load import Publisher, batches, zipf_counts
from tests.e2e.processes import ControlPlane, Worker
from tests.e2e.record import Record
from tests.servers import RabbitMQ, wait_for

TENANTS, MESSAGES, SEED = 200, 20_000, 7
APP = "tests.e2e.recording_app:app"


@contextlib.contextmanager
def publishing(addresses: list[str], counts: dict[str, int]) -> Iterator[None]:
    """The load, published by a thread beside the test; its failure is the test's."""
    failures: list[BaseException] = []
    publisher = Publisher(addresses)

    def run() -> None:
        try:
            for batch in batches(counts, SEED):
                publisher.publish(batch)
        except BaseException as failure:  # noqa: BLE001  it is raised again below
            failures.append(failure)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        publisher.close()
    assert failures == []


def use_queue_type(address: str, queue_type: str) -> None:
    """New queues of the default class are of that type."""
    value = resources_pb2.QueueType.Value(f"QUEUE_TYPE_{queue_type.upper()}")
    wanted = resources_pb2.PriorityClass(name="priorityClasses/standard", queue_type=value)
    with grpc.insecure_channel(address) as channel:
        stub = admin_service_pb2_grpc.AdminServiceStub(channel)
        stub.UpdatePriorityClass(
            admin_service_pb2.UpdatePriorityClassRequest(
                priority_class=wanted, update_mask=field_mask_pb2.FieldMask(paths=["queue_type"])
            ),
            timeout=5,
        )


def live_leases(address: str) -> int:
    with grpc.insecure_channel(address) as channel:
        stub = admin_service_pb2_grpc.AdminServiceStub(channel)
        return len(stub.ListLeases(admin_service_pb2.ListLeasesRequest(parent="tenants/-/queues/-"), timeout=5).leases)


def check_store(redis_url: str, cell: str) -> None:
    """No lease, no key that the table does not know, none without the TTL it should have, and a sound state."""
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        entries = dump(client, cell)
    assert strangers(entries) == []
    state = state_of(entries)
    assert state.leases == {}
    assert faults(state, LedgerConfig()) == []


@pytest.mark.servers
@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_nothing_is_lost_and_order_is_kept_through_a_crash_and_a_restart(
    queue_type: str, rabbitmq: RabbitMQ, vhost: str, amqp_url: str, redis_url: str, cell: str, tmp_path: Path
) -> None:
    tenants = TENANTS if queue_type == "classic" else 20  # 200 quorum queues cost 30 s to declare and tell nothing more
    record = Record(tmp_path / "record")
    env = {"RECORD": str(record.path), "PYTHONPATH": os.getcwd()}
    create = {"SLICELEASE_UNKNOWN_TENANTS": "create"}
    with contextlib.ExitStack() as stack:
        planes = [stack.enter_context(ControlPlane(amqp_url, redis_url, cell, create)) for _ in range(2)]
        use_queue_type(planes[0].address, queue_type)
        addresses = ",".join(plane.address for plane in planes)
        workers = [stack.enter_context(Worker(amqp_url, addresses, APP, **env)) for _ in range(2)]
        counts = zipf_counts(tenants, MESSAGES, SEED)
        stack.enter_context(publishing([plane.address for plane in planes], counts))
        wait_for(lambda: len(record.ended()) > MESSAGES // 5, 120, "a fifth is done")
        killed = workers[0].pid
        workers[0].kill()
        wait_for(lambda: len(record.ended()) > MESSAGES // 3, 120, "a third is done")
        assert planes[0].end() == 0
        planes[0].start()
        workers[0].start()
        wait_for(lambda: len(record.ended()) == MESSAGES, 240, "everything is done")
        assert list(record.faults({killed})) == []
        wait_for(lambda: live_leases(planes[1].address) == 0, 60, "no lease is live")
        wait_for(lambda: set(rabbitmq.queue_depths(vhost).values()) == {0}, 60, "every queue is empty")
        check_store(redis_url, cell)
        assert [worker.end() for worker in workers] == [0, 0]
        assert [plane.end() for plane in planes] == [0, 0]
