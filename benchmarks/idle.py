"""What idle tenants cost: memory of every process, and what the ledger keeps. 10 against 10,000 tenants.

`python -m benchmarks.idle [tenants]`: every tenant has had work, so every one has its queue at the broker.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack

import redis

from benchmarks.ledger_state import ready_queues
from benchmarks.record import Target, publish
from benchmarks.world import World, memory_mb, publish_one_each, record_file, tenants, world
from tests.e2e.processes import Worker
from tests.servers import wait_for

FEW = 10


def main(many: int) -> None:
    with ExitStack() as stack:
        running, path = stack.enter_context(world()), stack.enter_context(record_file())
        worker = stack.enter_context(running.worker("drain", BENCH_TOTAL="0", BENCH_RECORD=str(path)))
        for _ in range(many // FEW // 20):  # a process that has worked is larger than one that has not
            publish_one_each(running.plane.address, tenants(FEW) * 20)
        rows = {f"{FEW} tenants": _idle(running, worker)}
        publish_one_each(running.plane.address, tenants(many))
        rows[f"{many} tenants"] = _idle(running, worker)
    few, lots = rows.values()
    growth = Target("worker MB more than with 10 tenants", lots["worker MB"] - few["worker MB"], 10, at_most=True)
    publish("idle", "Idle tenants", rows, [growth])


def _idle(running: World, worker: Worker) -> dict[str, float]:
    wait_for(lambda: ready_queues(running) == 0, 120, "everything is idle")
    store = redis.Redis.from_url(running.redis.url)
    found = {
        "worker MB": memory_mb(worker.pid),
        "control plane MB": memory_mb(running.plane.pid),
        "broker MB": memory_mb(running.rabbitmq.pid),
        "Redis keys": float(store.dbsize()),
        "Redis MB": float(store.info("memory")["used_memory"]) / 2**20,
    }
    store.close()
    return found


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 10_000)
