"""How fast no-op work is drained: a worker through leases, the bare client, and those that people use today.

`python -m benchmarks.drain [rounds]`: one control plane process, Redis, RabbitMQ; every drainer is one process that starts with
full queues. The time counts from the first message handled to the last.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable

from benchmarks.ledger_state import ready_queues
from benchmarks.record import Rows, Target, publish
from benchmarks.world import BODY, World, empty, fill, publish_one_each, read_record, record_file, tenants, world
from tests.servers import wait_for

SHAPES = {1: 20_000, 200: 100, 2_000: 30}
"""Queues, and messages in each."""
CELERY, DRAMATIQ = 4_000, 8_000
WITHIN_S = 120

Figures = dict[str, float]


def main(rounds: int) -> None:
    samples: dict[str, list[Figures]] = {}
    with world() as running:
        publish_one_each(running.plane.address, tenants(max(SHAPES)), BODY)
        empty(running.rabbitmq.url, _queues(max(SHAPES)))
        _drain_leftovers(running)
        for _ in range(rounds):
            for queues, each in SHAPES.items():
                for name, run in _drainers(running, queues, each).items():
                    samples.setdefault(name, []).append(run())
                    print(f"  {name}: {samples[name][-1]}", file=sys.stderr, flush=True)
    rows = {name: _row(found) for name, found in samples.items()}
    publish("drain", "Draining no-op work", rows, _targets(rows))


def _drainers(running: World, queues: int, each: int) -> dict[str, Callable[[], Figures]]:
    bare = {
        f"bare client, {loops} at once, {queues} queues": lambda loops=loops: _bare(running, loops, queues, each)
        for loops in (1, 8)
    }
    ours = {
        f"worker through leases, {queues} queues": lambda: _leases(running, queues, each),
        f"aio-pika standing consumers, {queues} queues": lambda: _standing(running, queues, each),
    }
    one_queue = {"Celery, 1 queue": lambda: _celery(running), "Dramatiq, 1 queue": lambda: _dramatiq(running)}
    return bare | ours | (one_queue if queues == 1 else {})


def _row(found: list[Figures]) -> Figures:
    """Medians of the rounds."""
    return {figure: statistics.median(each[figure] for each in found) for figure in found[0]}


def _targets(rows: Rows) -> list[Target]:
    def rate(name: str) -> float:
        return rows[name]["messages/s"]

    targets = []
    for queues in SHAPES:
        ours = rate(f"worker through leases, {queues} queues")
        if queues > 1:
            targets.append(
                Target(f"worker / bare client, {queues} queues", ours / rate(f"bare client, 1 at once, {queues} queues"), 0.7)
            )
            targets.append(Target(f"worker / Celery, {queues} queues", ours / rate("Celery, 1 queue"), 5))
            targets.append(Target(f"worker / Dramatiq, {queues} queues", ours / rate("Dramatiq, 1 queue"), 2.5))
    standing = rate("aio-pika standing consumers, 2000 queues")
    targets.append(Target("worker / aio-pika, 2000 queues", rate("worker through leases, 2000 queues") / standing, 2))
    return targets


# ---- drainers ------------------------------------------------------------------------------------------------------------


def _bare(running: World, loops: int, queues: int, each: int) -> Figures:
    fill(running.rabbitmq.url, _queues(queues), each)
    return _run(running, queues * each, "-m", "benchmarks.peers.bare", str(loops), str(queues))


def _standing(running: World, queues: int, each: int) -> Figures:
    fill(running.rabbitmq.url, _queues(queues), each)
    return _run(running, queues * each, "-m", "benchmarks.peers.standing", str(queues))


def _leases(running: World, queues: int, each: int) -> Figures:
    fill(running.rabbitmq.url, _queues(queues), each - 1)
    publish_one_each(running.plane.address, tenants(queues), BODY)
    total = queues * each
    with record_file() as path, running.worker("drain", BENCH_TOTAL=str(total), BENCH_RECORD=str(path)) as worker:
        found = wait_for(lambda: read_record(path), WITHIN_S, "the worker has drained everything")
        assert worker.end() == 0
    return _figures(found, total)


def _drain_leftovers(running: World) -> None:
    """The ledger believes that every queue has work; a worker finds that none has, up to one message to know the end by."""
    with record_file() as path, running.worker("drain", BENCH_TOTAL="1", BENCH_RECORD=str(path)):
        wait_for(lambda: ready_queues(running) == 0, WITHIN_S, "no queue is ready")


def _celery(running: World) -> Figures:
    _publish(running, "celery_app", CELERY)
    quiet = ("--loglevel", "error", "--without-gossip", "--without-mingle", "--without-heartbeat")
    command = ("-m", "celery", "-A", "benchmarks.peers.celery_app", "worker", "--pool", "solo", *quiet)
    return _run(running, CELERY, *command)


def _dramatiq(running: World) -> Figures:
    _publish(running, "dramatiq_app", DRAMATIQ)
    return _run(running, DRAMATIQ, "-m", "dramatiq", "benchmarks.peers.dramatiq_app", "--processes", "1")


def _publish(running: World, peer: str, messages: int) -> None:
    command = [sys.executable, "-m", f"benchmarks.peers.{peer}", str(messages)]
    subprocess.run(command, env=os.environ | {"BENCH_AMQP_URL": running.rabbitmq.url}, check=True, timeout=WITHIN_S)


def _run(running: World, total: int, *command: str) -> Figures:
    with record_file() as path:
        own = {"BENCH_AMQP_URL": running.rabbitmq.url, "BENCH_TOTAL": str(total), "BENCH_RECORD": str(path)}
        with subprocess.Popen([sys.executable, *command], env=os.environ | own, start_new_session=True) as process:
            try:
                found = wait_for(lambda: read_record(path), WITHIN_S, f"{command[1]} has drained everything")
            finally:
                process.terminate()
    return _figures(found, total)


def _figures(found: Figures, total: int) -> Figures:
    figures = {"messages/s": total / found["seconds"], "CPU µs a message": found["cpu_s"] / total * 1e6}
    return figures | ({"subscribing s": found["subscribing_s"]} if "subscribing_s" in found else {})


def _queues(count: int) -> list[str]:
    return [f"work.{name}" for name in tenants(count)]


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 1)
