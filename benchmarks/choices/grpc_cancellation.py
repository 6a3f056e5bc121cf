"""What a server sees of calls whose Trio scope ended, for each way of calling; prints a line a way.

`python -m benchmarks.choices.grpc_cancellation`.
"""

from __future__ import annotations

import sys
import threading
import time

import trio

from benchmarks.choices.grpc_server import SLOW_S, running
from benchmarks.choices.grpc_ways import WAYS, Way
from benchmarks.side_by_side import output_of
from slicelease.v1 import lease_service_pb2 as pb

TASKS, SCOPE_S = 10, 1.0


def main() -> None:
    print(f"\nCancellation: {TASKS} tasks ask, the scope ends after {SCOPE_S:g} s, the server would answer after {SLOW_S:g} s\n")
    for name in WAYS:  # each in a process of its own: one of them changes asyncio
        print(output_of("benchmarks.choices.grpc_cancellation", name), flush=True)


def observe(name: str) -> None:
    with running("slow") as (address, _, counts):
        late_ms, threads = trio.run(_cancel, WAYS[name], address)
    seen = ", ".join(f"{count} {what}" for what, count in counts.items())
    print(f"{name}: the scope ended {late_ms:.0f} ms late, {threads} threads more were left then; calls at the server: {seen}")


async def _cancel(way: Way, address: str) -> tuple[float, int]:
    async with way(address) as ask:
        threads, begin = threading.active_count(), time.perf_counter()
        with trio.move_on_after(SCOPE_S):
            async with trio.open_nursery() as nursery:
                for _ in range(TASKS):
                    nursery.start_soon(ask, pb.SettleLeaseRequest())
        late_ms = (time.perf_counter() - begin - SCOPE_S) * 1_000
        threads = threading.active_count() - threads
        await trio.sleep(SLOW_S)  # so that what was not ended is answered
    return late_ms, threads


if __name__ == "__main__":
    if sys.argv[1:]:
        observe(sys.argv[1])
    else:
        main()
