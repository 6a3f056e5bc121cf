"""A plain AMQP user beside the system: an operator's or publisher's own hand at the broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from slicelease.worker.amqp import PERSISTENT, Channel, Properties, open_connection

__all__ = ["Channel", "at_broker", "declare", "delete_queue", "publish", "raise_attention"]

T = TypeVar("T")


def at_broker(url: str, use: Callable[[Channel], Awaitable[T]]) -> T:
    """What `use` returns, given a confirming channel of a connection of its own."""

    async def run() -> T:
        async with open_connection(url) as connection:
            channel = await connection.open_channel()
            await channel.confirm_select()
            return await use(channel)

    return trio.run(run)


def publish(url: str, exchange: str, routing_key: str, *bodies: bytes) -> None:
    """Publishes persistent messages, confirmed and mandatory, in order."""

    async def use(channel: Channel) -> None:
        for body in bodies:
            await channel.publish(exchange, routing_key, body, Properties(delivery_mode=PERSISTENT), mandatory=True)

    at_broker(url, use)


def raise_attention(url: str, *bodies: bytes) -> None:
    """As a publisher in any language would."""
    publish(url, "attention.exchange", "work", *bodies)


def delete_queue(url: str, queue: str) -> None:
    """Deletes it with all it holds."""

    async def use(channel: Channel) -> None:
        await channel.delete_queue(queue)

    at_broker(url, use)


def declare(url: str, queue: str, arguments: dict[str, object]) -> None:
    """Declares a durable queue with these arguments."""

    async def use(channel: Channel) -> None:
        await channel.declare_queue(queue, durable=True, arguments=arguments)  # type: ignore[arg-type]  # strings and ints

    at_broker(url, use)
