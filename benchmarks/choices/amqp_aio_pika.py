"""AMQP under asyncio: aio-pika, for comparison. Arguments: URL, messages, and `trio` to run it under trio-asyncio."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import aio_pika

PUBLISHERS = 64


async def main(url: str, messages: int) -> None:
    figures: dict[str, float] = {}
    connection = await aio_pika.connect(url)
    channel = await connection.channel()
    queue = await channel.declare_queue("bench-aio", durable=True)
    for figure, take in (("one get at a time, acked /s", _get_one), ("standing consumer, acked /s", _consume)):
        await queue.purge()
        figures["confirmed publishes /s, 64 at once"] = await _publish(channel, messages)
        start = time.perf_counter()
        await take(connection, messages)
        figures[figure] = messages / (time.perf_counter() - start)
    await queue.delete()
    await connection.close()
    print(json.dumps(figures))


async def _publish(channel: Any, messages: int) -> float:
    async def some(count: int) -> None:
        for _ in range(count):
            message = aio_pika.Message(b"x" * 100, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            await channel.default_exchange.publish(message, "bench-aio", mandatory=True)

    start = time.perf_counter()
    shares = [messages // PUBLISHERS + (n < messages % PUBLISHERS) for n in range(PUBLISHERS)]
    await asyncio.gather(*(some(share) for share in shares))
    return messages / (time.perf_counter() - start)


async def _get_one(connection: Any, messages: int) -> None:
    channel = await connection.channel()
    queue = await channel.get_queue("bench-aio")
    for _ in range(messages):
        message = await queue.get()
        await message.ack()
    await channel.close()


async def _consume(connection: Any, messages: int) -> None:
    channel = await connection.channel()
    await channel.set_qos(prefetch_count=200)
    queue = await channel.get_queue("bench-aio")
    left = messages
    async with queue.iterator() as iterator:
        async for message in iterator:
            await message.ack()
            left -= 1
            if not left:
                break
    await channel.close()


if __name__ == "__main__":
    if sys.argv[3:] == ["trio"]:
        import trio
        import trio_asyncio

        async def under_trio() -> None:
            async with trio_asyncio.open_loop():
                await trio_asyncio.aio_as_trio(main)(sys.argv[1], int(sys.argv[2]))

        trio.run(under_trio)
    else:
        asyncio.run(main(sys.argv[1], int(sys.argv[2])))
