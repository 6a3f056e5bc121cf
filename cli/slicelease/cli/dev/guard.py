"""Keeps `slicelease dev` out of a vhost that somebody works in: its workers would take that work and ack it.

May live here: looking, and the text of the refusal. May not know: what happens in the vhost otherwise.
"""

from __future__ import annotations

import aio_pika
from aio_pika.exceptions import AMQPError, ChannelNotFoundEntity

from slicelease.control_plane.domain.names import RAISED_QUEUE

from .ending import DevError

_TIMEOUT_S = 10.0


async def refuse_vhost_in_use(amqp_url: str) -> None:
    """Raises DevError when `attention.work` there is consumed by a control plane or holds attention, or cannot be asked."""
    try:
        connection = await aio_pika.connect(amqp_url, timeout=_TIMEOUT_S)
    except (AMQPError, OSError, TimeoutError) as error:
        raise DevError(f"RabbitMQ cannot be used: {type(error).__name__}; see --amqp-url") from error
    async with connection:
        channel = await connection.channel()
        try:
            queue = await channel.declare_queue(RAISED_QUEUE, passive=True, timeout=_TIMEOUT_S)
        except ChannelNotFoundEntity:
            return
        found = queue.declaration_result
    if found.consumer_count or found.message_count:
        raise DevError(
            f"the vhost of --amqp-url is in use: {RAISED_QUEUE} has {found.consumer_count} consumers and "
            f"{found.message_count} messages; give dev a vhost of its own, for its workers take whatever is due"
        )
