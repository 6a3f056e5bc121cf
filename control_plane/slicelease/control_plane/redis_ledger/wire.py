"""One connection to Redis: requests go out in order, replies come back in order.

May live here: bytes and their replies. May not know: what is asked, when to connect again.
Bare over hiredis, because the driver's own connection costs more a call than the store's work: docs/adr has the numbers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, cast

import hiredis


class WireLostError(Exception):
    """The connection is gone; what was asked and not answered may or may not have been done."""


class ReplyError(Exception):
    """The store answered with an error; `code` is its first word."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.code = text.partition(" ")[0]
        super().__init__(text)


class Wire(asyncio.Protocol):
    """Made by the loop's create_connection; use `ask`."""

    def __init__(self) -> None:
        self._reader = hiredis.Reader(encoding="utf-8", errors="surrogateescape", replyError=ReplyError)
        self._asked: deque[asyncio.Future[Any]] = deque()
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self.lost = False

    async def ask(self, arguments: Sequence[str | int]) -> Any:
        """The reply; raises WireLostError, ReplyError. A cancelled caller's reply is dropped when it comes."""
        if self.lost or self._transport is None:
            raise WireLostError
        reply: asyncio.Future[Any] = self._loop.create_future()
        self._asked.append(reply)
        self._transport.write(hiredis.pack_command(tuple(arguments)))  # type: ignore[arg-type]  # its stub says a tuple of one
        return await reply

    def drop(self) -> None:
        """Ends the connection at once; who waits on it gets WireLostError."""
        if self._transport is not None:
            self._transport.abort()
        self.connection_lost(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The loop's own call."""
        self._transport = cast("asyncio.Transport", transport)  # streams have no other; uvloop's is of its own class

    def data_received(self, data: bytes) -> None:
        """The loop's own call."""
        self._reader.feed(data)
        try:
            while (reply := self._reader.gets()) is not False:
                self._answer(reply)
        except hiredis.ProtocolError:
            self.drop()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the loop's signature
        """The loop's own call."""
        self.lost = True
        while self._asked:
            waiting = self._asked.popleft()
            if not waiting.done():
                waiting.set_exception(WireLostError())

    def _answer(self, reply: Any) -> None:
        if not self._asked:  # nobody asked: this is no Redis
            self.drop()
            return
        waiting = self._asked.popleft()
        if waiting.done():
            return
        if isinstance(reply, ReplyError):
            waiting.set_exception(reply)
        else:
            waiting.set_result(reply)
