"""Messages a second through PublishWork and PublishWorkBatch, and how long a call takes; 100 tenants, everything confirmed.

`python -m benchmarks.publish`: the caller is a grpc.aio client in this process.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import grpc
import uvloop

from benchmarks.record import publish, spread_ms
from benchmarks.world import BODY, World, cpu_s, publish_one_each, tenants, world
from slicelease.v1 import work_service_pb2 as pb
from slicelease.v1 import work_service_pb2_grpc as pb_grpc

TENANTS, WARM_UP_S, MEASURED_S = 100, 0.5, 2.5
UNARY_AT_ONCE, BATCHES = (1, 16, 64), ((20, 4), (200, 1), (200, 4))

Figures = dict[str, float]


def main() -> None:
    with world() as running, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        publish_one_each(running.plane.address, tenants(TENANTS))
        rows = runner.run(_measure(running))
    publish("publish", "Publishing through the control plane", rows)


async def _measure(running: World) -> dict[str, Figures]:
    queues = itertools.cycle(f"tenants/{name}" for name in tenants(TENANTS))
    rows: dict[str, Figures] = {}
    async with grpc.aio.insecure_channel(running.plane.address) as channel:
        stub: Any = pb_grpc.WorkServiceStub(channel)  # type: ignore[no-untyped-call,unused-ignore]

        def request() -> pb.PublishWorkRequest:
            return pb.PublishWorkRequest(queue=next(queues), payload=BODY)

        async def batch(size: int) -> None:
            answer = await stub.PublishWorkBatch(pb.PublishWorkBatchRequest(requests=[request() for _ in range(size)]))
            assert all(result.HasField("published") for result in answer.results)

        for at_once in UNARY_AT_ONCE:
            rows[f"PublishWork, {at_once} at once"] = await _load(running, lambda: stub.PublishWork(request()), at_once, 1)
        for size, at_once in BATCHES:
            name = f"PublishWorkBatch of {size}, {at_once} at once"
            rows[name] = await _load(running, partial(batch, size), at_once, size)
    return rows


async def _load(running: World, call: Callable[[], Awaitable[object]], at_once: int, size: int) -> Figures:
    await _calls(call, at_once, WARM_UP_S)
    used_s = cpu_s(running.plane.pid), cpu_s(running.rabbitmq.pid)
    took_s = await _calls(call, at_once, MEASURED_S)
    messages = len(took_s) * size
    return {
        "messages/s": messages / MEASURED_S,
        **spread_ms(took_s),
        "control plane CPU µs": (cpu_s(running.plane.pid) - used_s[0]) / messages * 1e6,
        "broker CPU µs": (cpu_s(running.rabbitmq.pid) - used_s[1]) / messages * 1e6,
    }


async def _calls(call: Callable[[], Awaitable[object]], at_once: int, for_s: float) -> list[float]:
    took_s: list[float] = []
    end = time.perf_counter() + for_s

    async def run() -> None:
        while (began := time.perf_counter()) < end:
            await call()
            took_s.append(time.perf_counter() - began)

    await asyncio.gather(*(run() for _ in range(at_once)))
    return took_s


if __name__ == "__main__":
    main()
