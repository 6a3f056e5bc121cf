"""Whether this process takes calls, which ones are running, and what goes on behind calls that have ended.

May live here: the order of a shutdown as the calls see it. May not know: services, servers, signals.

    serving -> draining (no new leases, all else goes on) -> closed (new calls are refused) -> forced (running calls are ended)
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class DeadlinePassedError(Exception):
    """The caller's deadline has passed: nobody hears the answer, and none may be given."""


class Gate:
    """The state of the shutdown, and the calls that are inside."""

    def __init__(self) -> None:
        self.draining = False
        self.closed = False
        self.forced = False
        self._inside: set[asyncio.Task[Any]] = set()
        self._behind: set[asyncio.Task[Any]] = set()

    @property
    def running(self) -> int:
        """Calls that are running now."""
        return len(self._inside)

    def enter(self, task: asyncio.Task[Any]) -> None:
        """A call begins."""
        self._inside.add(task)

    def leave(self, task: asyncio.Task[Any]) -> None:
        """It ended."""
        self._inside.discard(task)

    def behind(self, work: Coroutine[Any, Any, object]) -> None:
        """Starts what must be done although its call is over; the shutdown waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self.keep(task)

    def keep(self, task: asyncio.Task[Any]) -> None:
        """The shutdown waits for this task too."""
        self._behind.add(task)
        task.add_done_callback(self._behind.discard)

    def drain(self) -> None:
        """No new leases from now on."""
        self.draining = True

    def close(self) -> None:
        """No new calls from now on."""
        self.draining = self.closed = True

    def force(self) -> None:
        """Ends the running calls: each answers that this server is shutting down."""
        self.forced = True
        for task in self._inside:
            task.cancel()

    async def wait_empty(self, timeout_s: float) -> bool:
        """Waits until no call is running and nothing is left behind one; whether that came in time."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_s
        while waiting := self._inside | self._behind:
            remaining = end - loop.time()
            if remaining <= 0:
                return False
            await asyncio.wait(waiting, timeout=remaining)
            await asyncio.sleep(0)  # a call leaves in its own task's last step
        return True
