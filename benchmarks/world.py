"""A whole system for a measurement: private RabbitMQ and Redis, a control plane process, worker processes, and work for them.

May live here: servers and work. May not know: what is measured.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import trio

from slicelease.v1 import work_service_pb2 as pb
from slicelease.v1 import work_service_pb2_grpc as pb_grpc
from slicelease.worker import amqp
from tests.e2e.processes import ControlPlane, Worker
from tests.servers import RabbitMQ, Redis

CELL = "bench"
BATCH = 200
BODY = b"x" * 100
LONG_LEASES = {"SLICELEASE_FIRST_VALIDITY": "5m", "SLICELEASE_LEASE_LENGTH": "5m"}
"""For measurements that never renew."""
_TICKS_A_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class World:
    """The running servers."""

    rabbitmq: RabbitMQ
    redis: Redis
    plane: ControlPlane

    @contextmanager
    def worker(self, app: str, **env: str) -> Iterator[Worker]:
        """A worker process of `benchmarks.apps.<app>`."""
        env = {"PYTHONPATH": str(Path.cwd()), **env}
        with Worker(self.rabbitmq.url, self.plane.address, f"benchmarks.apps.{app}:app", **env) as worker:
            yield worker


@contextmanager
def world(**settings: str) -> Iterator[World]:
    """Starts everything; unknown tenants are created, and nothing reconciles meanwhile."""
    own = {"SLICELEASE_UNKNOWN_TENANTS": "create", "SLICELEASE_RECONCILE_PERIOD": "1h", "SLICELEASE_LOG_LEVEL": "warning"}
    with ExitStack() as stack:
        rabbitmq, redis = stack.enter_context(RabbitMQ()), stack.enter_context(Redis())
        plane = stack.enter_context(ControlPlane(rabbitmq.url, redis.url, CELL, own | settings))
        yield World(rabbitmq, redis, plane)


def tenants(count: int, prefix: str = "t") -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def publish_one_each(address: str, names: Sequence[str], payload: bytes = BODY) -> None:
    """One message to each tenant through the control plane, which makes tenants and queues, and touches them."""
    with grpc.insecure_channel(address) as channel:
        stub = pb_grpc.WorkServiceStub(channel)
        for start in range(0, len(names), BATCH):
            some = [pb.PublishWorkRequest(queue=f"tenants/{name}", payload=payload) for name in names[start : start + BATCH]]
            answer = stub.PublishWorkBatch(pb.PublishWorkBatchRequest(requests=some), timeout=60)
            assert all(result.HasField("published") for result in answer.results), answer.results[0]


def fill(url: str, queues: Sequence[str], each: int) -> None:
    """`each` persistent, confirmed messages straight into every queue."""
    trio.run(_fill, url, queues, each)


async def _fill(url: str, queues: Sequence[str], each: int) -> None:
    properties = amqp.Properties(delivery_mode=amqp.PERSISTENT, message_id="m")
    left = [queue for _ in range(each) for queue in queues]
    async with amqp.open_connection(amqp.ConnectionParameters.from_url(url)) as connection:
        channel = await connection.open_channel()

        async def some() -> None:
            while left:
                await channel.publish("", left.pop(), BODY, properties)

        async with trio.open_nursery() as nursery:
            for _ in range(256):
                nursery.start_soon(some)


def empty(url: str, queues: Sequence[str]) -> None:
    """Purges every queue."""
    trio.run(_empty, url, queues)


async def _empty(url: str, queues: Sequence[str]) -> None:
    async with amqp.open_connection(amqp.ConnectionParameters.from_url(url)) as connection:
        channel = await connection.open_channel()
        for queue in queues:
            await channel.purge_queue(queue)


@contextmanager
def record_file() -> Iterator[Path]:
    """Where a measured process leaves its figures."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder, "record.json")


def read_record(path: Path) -> Any:
    """The figures, or None as long as there are none."""
    return json.loads(path.read_text()) if path.exists() else None


def leave_record(figures: object) -> None:
    """In a measured process: the figures, whole or not at all."""
    path = Path(os.environ["BENCH_RECORD"])
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(figures))
    unfinished.rename(path)


def cpu_s(pid: int) -> float:
    """CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_A_S


def memory_mb(pid: int) -> float:
    """Resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"process {pid} has no memory")
