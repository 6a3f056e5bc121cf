"""Dramatiq with its own defaults on one queue (it acks after the work). As a program it publishes messages."""

from __future__ import annotations

import os
import sys

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker

from benchmarks.peers.count import Count

dramatiq.set_broker(RabbitmqBroker(url=os.environ.get("BENCH_AMQP_URL", "")))
_count = Count()


@dramatiq.actor(queue_name="bench-dramatiq")  # type: ignore[untyped-decorator]
def work(_: str) -> None:
    _count.tick()


if __name__ == "__main__":
    for _ in range(int(sys.argv[1])):
        work.send("x" * 100)
