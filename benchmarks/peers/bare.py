"""The workers' AMQP client alone: loops that get 20 messages in one write and ack each, queue after queue."""

from __future__ import annotations

import os
import sys

import trio

from benchmarks.peers.count import Count
from slicelease.worker import amqp

GETS = 20


async def main(loops: int, queues: int) -> None:
    count, left = Count(), [f"work.t{number}" for number in range(queues)]

    async def loop(connection: amqp.Connection) -> None:
        channel = await connection.open_channel()
        while left:
            queue, got = left.pop(), GETS
            while got == GETS:
                messages = await channel.get_many(queue, GETS)
                got = len(messages)
                for message in messages:
                    channel.ack(message.delivery_tag)
                    count.tick()
        await channel.close()

    where = amqp.ConnectionParameters.from_url(os.environ["BENCH_AMQP_URL"])
    async with amqp.open_connection(where) as connection, trio.open_nursery() as nursery:
        for _ in range(loops):
            nursery.start_soon(loop, connection)


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]), int(sys.argv[2]))
