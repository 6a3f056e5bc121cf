"""Why a run ends: the first reason counts."""

from __future__ import annotations

import asyncio


class DevError(Exception):
    """The run cannot go on; the text says why and what to do."""


class Ending:
    """Set once, by whoever first has a reason; everybody may wait for it. For one event loop."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.error: DevError | None = None

    @property
    def has_come(self) -> bool:
        """Whether the run is to end."""
        return self._event.is_set()

    def come(self, error: DevError | None = None) -> None:
        """The run is to end, with an error or in good order."""
        if not self.has_come:
            self.error = error
            self._event.set()

    async def wait(self) -> None:
        """Returns when the run is to end."""
        await self._event.wait()

    async def pause(self, seconds: float) -> bool:
        """Waits so long, or until the run is to end; whether it goes on."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return True
        return False
