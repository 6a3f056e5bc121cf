"""aio-pika with a standing consumer on every queue; nothing is handled before all have subscribed.

Each consumer has as many messages in hand as a slice has. What comes while it subscribes waits: that is to the peer's advantage.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

import aio_pika
from aio_pika.abc import AbstractIncomingMessage

from benchmarks.peers.count import Count

IN_HAND = 20


async def main(queues: int) -> None:
    count, subscribed, over = Count(), asyncio.Event(), asyncio.Event()
    connection = await aio_pika.connect(os.environ["BENCH_AMQP_URL"])
    channel = await connection.channel()
    await channel.set_qos(prefetch_count=IN_HAND)
    subscribing_s = 0.0

    async def handle(message: AbstractIncomingMessage) -> None:
        if not subscribed.is_set():
            await subscribed.wait()
        await message.ack()
        if count.tick(subscribing_s=subscribing_s):
            over.set()

    began = time.perf_counter()
    for number in range(queues):
        queue = await channel.get_queue(f"work.t{number}", ensure=False)
        await queue.consume(handle)
    subscribing_s = time.perf_counter() - began
    subscribed.set()
    await over.wait()
    await connection.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
