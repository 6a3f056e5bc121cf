"""How many messages queues hold, by passive declares: many questions in one write.

May live here: the pipelining. May not know: what the counts are for. A count leaves out messages that are in somebody's
hands, so it never proves a queue empty.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aio_pika.exceptions import ChannelNotFoundEntity
from aiormq import spec
from aiormq.abc import ChannelFrame
from aiormq.channel import Channel
from aiormq.exceptions import ChannelLockedResource

from .channels import ChannelPool

_MAX_WINDOW = 256
_TALKS = 2
"""Parts of a list asked at the same time: one talk waits for the broker while the other is served."""


async def message_counts(channels: ChannelPool, queues: Sequence[str]) -> list[int | None]:
    """Messages ready in each queue, None where there is none of that name; the caller bounds the time."""
    part = -(-len(queues) // _TALKS) or 1
    parts = [queues[start : start + part] for start in range(0, len(queues), part)]
    counts = await asyncio.gather(*(_count_in_turn(channels, each) for each in parts))
    return [count for of_part in counts for count in of_part]


async def message_count(channels: ChannelPool, queue: str) -> int | None:
    """Messages ready in one queue, or None; the caller bounds the time."""
    (count,) = await message_counts(channels, [queue])
    return count


async def _count_in_turn(channels: ChannelPool, queues: Sequence[str]) -> list[int | None]:
    """A missing queue costs its channel and all questions behind it in the window.

    So the window halves with each one that is missing and doubles with each that is answered whole: the cost of any list
    is linear, and close to one write for every 256 queues that exist.
    """
    counts: list[int | None] = []
    window = _MAX_WINDOW
    while len(counts) < len(queues):
        asked = queues[len(counts) : len(counts) + window]
        answers = await _ask(channels, asked)
        counts += answers
        whole = len(answers) == len(asked) and None not in answers
        window = min(_MAX_WINDOW, window * 2) if whole else max(1, window // 2)
    return counts


async def _ask(channels: ChannelPool, queues: Sequence[str]) -> list[int | None]:
    """Answers in order: for all of them, or up to and with the first that is missing."""
    counts: list[int | None] = []
    try:
        async with channels.lent() as channel:
            try:
                await channel.create_task(_passive_declares(channel, queues, counts))
            finally:
                _take_unread(channel, counts)
    except ChannelNotFoundEntity:
        counts.append(None)
    except ChannelLockedResource:
        counts.append(0)  # another connection's own queue: nothing in it can be leased
    return counts


async def _passive_declares(channel: Channel, queues: Sequence[str], counts: list[int | None]) -> None:
    questions = [spec.Queue.Declare(queue=queue, passive=True) for queue in queues]
    async with channel.lock:
        await channel.write_queue.put(ChannelFrame.marshall(channel.number, questions))
        for _ in queues:
            _take(await channel.rpc_frames.get(), counts)


def _take_unread(channel: Channel, counts: list[int | None]) -> None:
    """Answers that had come when the broker closed the channel."""
    while not channel.rpc_frames.empty():
        _take(channel.rpc_frames.get_nowait(), counts)


def _take(answer: object, counts: list[int | None]) -> None:
    if isinstance(answer, spec.Queue.DeclareOk):
        counts.append(answer.message_count or 0)
