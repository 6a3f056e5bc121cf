"""From the PublishWork call to the start of the handler: idle, and with other work in the background.

`python -m benchmarks.wakeup`: one control plane, one worker; the clocks are one, since all run on this machine.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import grpc

from benchmarks.record import Target, publish, spread_ms
from benchmarks.world import World, publish_one_each, read_record, record_file, tenants, world
from slicelease.v1 import work_service_pb2 as pb
from slicelease.v1 import work_service_pb2_grpc as pb_grpc
from tests.servers import wait_for

PROBES, EVERY_S = 300, 0.02
BACKGROUND, BATCH_EVERY_S = tenants(25, "background"), 0.05
"""500 messages a second for other tenants, a slice for each."""


def main() -> None:
    with world() as running:
        probed = tenants(50)
        publish_one_each(running.plane.address, [*probed, *BACKGROUND], b"0")
        rows = {"idle": _measure(running, probed)}
        with _background(running.plane.address):
            rows[f"{int(len(BACKGROUND) / BATCH_EVERY_S)}/s in the background"] = _measure(running, probed)
    idle = rows["idle"]
    targets = [
        Target("p50 ms, idle", idle["p50 ms"], 8, at_most=True),
        Target("p99 ms, idle", idle["p99 ms"], 25, at_most=True),
    ]
    publish("wakeup", "From publish to the start of the handler", rows, targets)


def _measure(running: World, probed: list[str]) -> dict[str, float]:
    with record_file() as path, running.worker("wakeup", BENCH_TOTAL=str(PROBES + 20), BENCH_RECORD=str(path)) as worker:
        _probe(running.plane.address, probed)
        took_s = wait_for(lambda: read_record(path), 60, "every probe was handled")
        assert worker.end() == 0
    return spread_ms(took_s[20:])


def _probe(address: str, probed: list[str]) -> None:
    with grpc.insecure_channel(address) as channel:
        stub = pb_grpc.WorkServiceStub(channel)
        for number in range(PROBES + 20):
            queue = f"tenants/{probed[number % len(probed)]}"
            stub.PublishWork(pb.PublishWorkRequest(queue=queue, payload=str(time.monotonic_ns()).encode()), timeout=5)
            time.sleep(EVERY_S)


@contextmanager
def _background(address: str) -> Iterator[None]:
    over = threading.Event()

    def run() -> None:
        while not over.wait(BATCH_EVERY_S):
            publish_one_each(address, BACKGROUND, b"0")

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


if __name__ == "__main__":
    main()
