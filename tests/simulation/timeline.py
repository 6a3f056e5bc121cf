"""Things that happen outside of any worker: the network, the broker's heartbeats, thawing.

One task runs callbacks in the order of their times, so that what is on its way costs no task, and goes on when the worker that
sent it is frozen or gone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

import trio


class Timeline:
    """Callbacks by time; equal times in the order in which they were added."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._nap = trio.CancelScope()

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Calls it in so many seconds, from this timeline's task."""
        at_s = trio.current_time() + seconds
        heappush(self._due, (at_s, next(self._numbers), call))
        if at_s < self._nap.deadline:
            self._nap.deadline = at_s

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            now_s = trio.current_time()
            while self._due and self._due[0][0] <= now_s:
                heappop(self._due)[2]()
            with trio.CancelScope(deadline=self._due[0][0] if self._due else math.inf) as self._nap:
                await trio.sleep_forever()
