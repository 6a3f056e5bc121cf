"""AMQP under Trio: the workers' own client. Arguments: URL, messages."""

from __future__ import annotations

import json
import sys
import time

import trio

from slicelease.worker.amqp import PERSISTENT, Channel, ConnectionParameters, Properties, open_connection

PUBLISHERS, GETS = 64, 20


async def main(url: str, messages: int) -> None:
    figures: dict[str, float] = {}
    async with open_connection(ConnectionParameters.from_url(url)) as connection:
        channel = await connection.open_channel()
        await channel.confirm_select()
        await channel.declare_queue("bench", durable=True)
        for figure, take in (
            ("gets of 20 in one write, acked /s", _get_many),
            ("one get at a time, acked /s", _get_one),
            ("standing consumer, acked /s", _consume),
        ):
            await channel.purge_queue("bench")
            figures["confirmed publishes /s, 64 at once"] = await _publish(channel, messages)
            start = time.perf_counter()
            await take(await connection.open_channel(), messages)
            figures[figure] = messages / (time.perf_counter() - start)
        await channel.delete_queue("bench")
    print(json.dumps(figures))


async def _publish(channel: Channel, messages: int) -> float:
    properties = Properties(delivery_mode=PERSISTENT)

    async def some() -> None:
        for _ in range(messages // PUBLISHERS):
            await channel.publish("", "bench", b"x" * 100, properties, mandatory=True)

    start = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for _ in range(PUBLISHERS):
            nursery.start_soon(some)
    took_s = time.perf_counter() - start
    for _ in range(messages % PUBLISHERS):
        await channel.publish("", "bench", b"x" * 100, properties, mandatory=True)
    return messages / took_s


async def _get_many(channel: Channel, messages: int) -> None:
    left = messages
    while left:
        for message in await channel.get_many("bench", GETS):
            channel.ack(message.delivery_tag)
            left -= 1
    await channel.close()


async def _get_one(channel: Channel, messages: int) -> None:
    for _ in range(messages):
        message = await channel.get("bench")
        assert message is not None
        channel.ack(message.delivery_tag)
    await channel.close()


async def _consume(channel: Channel, messages: int) -> None:
    await channel.qos(200)
    left = messages
    async for message in await channel.consume("bench"):
        channel.ack(message.delivery_tag)
        left -= 1
        if not left:
            break
    await channel.close()


if __name__ == "__main__":
    trio.run(main, sys.argv[1], int(sys.argv[2]))
