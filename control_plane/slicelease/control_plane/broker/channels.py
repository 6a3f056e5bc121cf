"""Channels for questions and orders that have an answer each: declare, delete, count.

May live here: opening, lending and discarding channels of the connection that never publishes. May not know: what is
asked on them. Such a channel ends with the first refusal (404, 406), so each is lent to one user at a time, and comes
back only if the talk ended well.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from aiormq.channel import Channel

from slicelease.control_plane.ports import BrokerUnavailableError

from .errors import BrokerCall
from .link import Link, open_channel

_MAX_CHANNELS = 8
_CLOSE_TIMEOUT_S = 3.0


class ChannelPool:
    """At most eight channels on one link, opened when needed and kept while they live."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._idle: list[Channel] = []
        self._turns = asyncio.Semaphore(_MAX_CHANNELS)
        self._closing: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def lent(self) -> AsyncIterator[Channel]:
        """A channel for the caller alone. After any error it is closed, for replies may be under way still."""
        async with self._turns:
            channel = await self._open()
            try:
                yield channel
            except BaseException:
                self._discard(channel)
                raise
            self._idle.append(channel)

    async def _open(self) -> Channel:
        while self._idle:
            channel = self._idle.pop()
            if not channel.is_closed:
                return channel
        return await open_channel(await self._link.connection(), confirms=False)

    def _discard(self, channel: Channel) -> None:
        closing = asyncio.ensure_future(close_channel(channel))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


async def close_channel(channel: Channel) -> None:
    """Closes it if it is open still, within seconds."""
    with contextlib.suppress(BrokerUnavailableError), BrokerCall("close a channel"):
        async with asyncio.timeout(_CLOSE_TIMEOUT_S):
            await channel.close()
