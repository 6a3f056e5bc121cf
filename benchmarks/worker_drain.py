"""How fast a worker drains no-op work through leases, against the bare get-and-ack loop of the same AMQP client, in one run.

`python -m benchmarks.worker_drain [queues] [messages a queue] [slots] [rounds]`: private RabbitMQ and Redis, one control plane
process; the worker runs in this one. Read the ratios, and the CPU time a message of each process: a shared machine makes the
rates meaningless.
"""

from __future__ import annotations

import logging
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import grpc
import structlog
import trio

from slicelease.v1 import work_service_pb2 as work_pb
from slicelease.v1 import work_service_pb2_grpc as work_grpc
from slicelease.worker import SliceWorker, Work, amqp
from slicelease.worker.app import work
from slicelease.worker.config import WorkerSettings
from tests.e2e.processes import ControlPlane
from tests.servers import RabbitMQ, Redis

BODY = b"x" * 100
TICKS_A_S = 100


@dataclass
class Bench:
    """The servers of a run, the queues, and the CPU time that each process has used."""

    url: str
    address: str
    pids: dict[str, int]
    tenants: list[str]
    each: int
    slots: int

    @property
    def queues(self) -> list[str]:
        return [f"work.{tenant}" for tenant in self.tenants]

    def cpu_s(self) -> dict[str, float]:
        used = {"this process": time.process_time()}
        for name, pid in self.pids.items():
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            used[name] = (int(fields[11]) + int(fields[12])) / TICKS_A_S
        return used

    def report(self, what: str, messages: int, seconds: float, before: dict[str, float]) -> float:
        after = self.cpu_s()
        cpu = ", ".join(f"{name} {(after[name] - before[name]) / messages * 1e6:.0f}" for name in after)
        print(f"{what:28} {messages / seconds:8.0f} messages/s; CPU µs a message: {cpu}")
        return messages / seconds


async def fill(bench: Bench) -> None:
    async with amqp.open_connection(bench.url) as connection:
        channel = await connection.open_channel()
        properties = amqp.Properties(delivery_mode=amqp.PERSISTENT, message_id="m")
        for queue in bench.queues:
            async with trio.open_nursery() as nursery:
                for _ in range(bench.each):
                    nursery.start_soon(channel.publish, "", queue, BODY, properties)


async def bare(bench: Bench, loops: int) -> float:
    """Each loop empties one queue after another: 20 gets in one write, an ack each."""
    total, left = 0, bench.queues

    async def loop(connection: amqp.Connection) -> None:
        nonlocal total
        channel = await connection.open_channel()
        while left:
            queue, count = left.pop(), 20
            while count == 20:
                messages = await channel.get_many(queue, 20)
                for message in messages:
                    channel.ack(message.delivery_tag)
                count = len(messages)
                total += count

    async with amqp.open_connection(bench.url) as connection:
        before, began = bench.cpu_s(), time.perf_counter()
        async with trio.open_nursery() as nursery:
            for _ in range(loops):
                nursery.start_soon(loop, connection)
        return bench.report(f"bare, {loops} at once", total, time.perf_counter() - began, before)


async def slices(bench: Bench) -> float:
    app, done, total = SliceWorker(), trio.Event(), len(bench.tenants) * bench.each
    seen, began, before = 0, 0.0, dict[str, float]()

    @app.handler
    async def handle(_: Work) -> None:
        nonlocal seen, began, before
        seen += 1
        if seen == 1:
            began, before = time.perf_counter(), bench.cpu_s()
        if seen == total:
            done.set()

    stop = trio.Event()
    settings = WorkerSettings(amqp_url=bench.url, control_plane=bench.address, slots=bench.slots)  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(work, settings, app, stop=stop))
        await trio.to_thread.run_sync(touch, bench)
        await done.wait()
        rate = bench.report(f"slices, {bench.slots} slots", seen, time.perf_counter() - began, before)
        stop.set()
    return rate


def touch(bench: Bench) -> None:
    _for_each(bench, lambda stub, queue: stub.TouchQueue(work_pb.TouchQueueRequest(queue=queue)))


def create(bench: Bench) -> None:
    _for_each(bench, lambda stub, queue: stub.PublishWork(work_pb.PublishWorkRequest(queue=queue, payload=BODY)))


def _for_each(bench: Bench, call: Callable[[work_grpc.WorkServiceStub, str], object]) -> None:
    with grpc.insecure_channel(bench.address) as channel:
        stub = work_grpc.WorkServiceStub(channel)
        for tenant in bench.tenants:
            call(stub, f"tenants/{tenant}")


def main(queues: int, each: int, slots: int, rounds: int) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    own = {"SLICELEASE_UNKNOWN_TENANTS": "create", "SLICELEASE_RECONCILE_PERIOD": "1h"}
    with RabbitMQ() as rabbitmq, Redis() as redis, ControlPlane(rabbitmq.url, redis.url, "bench", own) as plane:
        pids = {"broker": rabbitmq.pid, "redis": redis.pid, "control plane": plane.pid}
        tenants = [f"t{number}" for number in range(queues)]
        bench = Bench(rabbitmq.url, plane.address, pids, tenants, each, slots)
        create(bench)
        trio.run(fill, bench)
        trio.run(bare, bench, 1)
        ratios: list[float] = []
        for _ in range(rounds):
            rates: list[float] = []
            for run in (partial(bare, bench, 1), partial(bare, bench, slots), partial(slices, bench)):
                trio.run(fill, bench)
                rates.append(trio.run(run))
            ratios.append(rates[2] / rates[0])
            print(f"{'':28} slices / bare, 1 at once: {ratios[-1]:.2f}; / {slots} at once: {rates[2] / rates[1]:.2f}")
        print(f"median of slices / bare, 1 at once: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]]
    main(*given, *(50, 400, 8, 3)[len(given) :])
