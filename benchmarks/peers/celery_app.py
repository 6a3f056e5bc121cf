"""Celery with the same promise: persistent messages on one queue, acked after the work. As a program it publishes them."""

from __future__ import annotations

import os
import sys

from celery import Celery

from benchmarks.peers.count import Count

app = Celery("bench", broker=os.environ.get("BENCH_AMQP_URL", ""))
app.conf.update(
    task_default_queue="bench-celery",
    task_acks_late=True,
    task_ignore_result=True,
    worker_prefetch_multiplier=200,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
)
_count = Count()


@app.task(name="bench")  # type: ignore[untyped-decorator]
def work(_: str) -> None:
    _count.tick()


if __name__ == "__main__":
    for _ in range(int(sys.argv[1])):
        app.send_task("bench", args=("x" * 100,))
