"""A relay in front of a Redis that can lose a reply after the store has done what was asked."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class LosingProxy:
    """Relays connections; once told to, it swallows the next reply of whichever and cuts that connection."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._connections: set[asyncio.Task[None]] = set()
        self.lose_next_reply = False
        self.lost = 0
        self.port = 0

    async def relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one client."""
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        from_store, to_store = await asyncio.open_connection("127.0.0.1", self._target_port)
        forward = asyncio.create_task(self._copy(reader, to_store))
        try:
            await self._answer(from_store, writer)
        finally:
            forward.cancel()
            await asyncio.gather(forward, return_exceptions=True)
            for end in (to_store, writer):
                end.close()
                with contextlib.suppress(ConnectionError):
                    await end.wait_closed()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            if self.lose_next_reply:
                self.lose_next_reply = False
                self.lost += 1
                return
            writer.write(data)

    async def end(self) -> None:
        """Cuts every connection."""
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)


@asynccontextmanager
async def losing_proxy(target_port: int) -> AsyncIterator[LosingProxy]:
    """A proxy for the time of the block."""
    proxy = LosingProxy(target_port)
    server = await asyncio.start_server(proxy.relay, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.end()
        await server.wait_closed()
