"""Directives on their way to workers: the open streams of this process, and the bus of a single process.

May live here: fan-out of hints to streams. May not know: gRPC, the ledger.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from slicelease.control_plane.ports import StopHint

MAX_PENDING = 1_000
"""Hints that wait for one slow stream; older ones are dropped, for a lost hint costs latency only."""


class Stream:
    """One open stream of a session."""

    def __init__(self) -> None:
        self._pending: asyncio.Queue[StopHint | None] = asyncio.Queue(MAX_PENDING)

    def put(self, hint: StopHint | None) -> None:
        """Hands over a hint, or with None the end of the stream."""
        if self._pending.full():
            self._pending.get_nowait()
        self._pending.put_nowait(hint)

    async def next(self) -> StopHint | None:
        """Waits for the next hint; None ends the stream."""
        return await self._pending.get()


class Sessions:
    """The streams that are open in this process. A session may have two while the end of an old one is not yet seen."""

    def __init__(self) -> None:
        self._streams: dict[str, set[Stream]] = {}
        self._ended = False

    def __len__(self) -> int:
        return sum(map(len, self._streams.values()))

    @contextmanager
    def open(self, session: str) -> Iterator[Stream]:
        """A stream for as long as the context lasts."""
        stream = Stream()
        self._streams.setdefault(session, set()).add(stream)
        if self._ended:
            stream.put(None)
        try:
            yield stream
        finally:
            streams = self._streams[session]
            streams.discard(stream)
            if not streams:
                del self._streams[session]

    def deliver(self, hint: StopHint) -> None:
        """Hands the hint to the session's streams, if any is open here."""
        for stream in self._streams.get(hint.session, ()):
            stream.put(hint)

    def end(self) -> None:
        """Ends all streams, and those that are still to be opened."""
        self._ended = True
        for streams in self._streams.values():
            for stream in streams:
                stream.put(None)


class LocalDirectiveBus:
    """Implements ports.DirectiveBus for control planes in one process."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[StopHint], None]] = []

    async def publish(self, hint: StopHint) -> None:
        """Delivers at once."""
        for deliver in tuple(self._listeners):
            deliver(hint)

    async def run(self, deliver: Callable[[StopHint], None]) -> None:
        """Listens until cancelled."""
        self._listeners.append(deliver)
        try:
            await asyncio.Event().wait()
        finally:
            self._listeners.remove(deliver)
