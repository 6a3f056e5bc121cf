"""Background work under supervision: passes, pauses with jitter, back-off after errors, one log line for each change.

May live here: when a pass runs. May not know: what a pass does.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from slicelease.control_plane.metrics import Metrics
from slicelease.control_plane.ports import BrokerUnavailableError, LedgerUnavailableError, LedgerVersionError

FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 0.1, 5.0
_EXPECTED = (LedgerUnavailableError, LedgerVersionError, BrokerUnavailableError)
_DICE = random.SystemRandom().random
_log = structlog.get_logger("slicelease.loops")


class Background:
    """The loops of this process. `dice` gives numbers in [0, 1): pauses are spread so that replicas do not march in step."""

    def __init__(self, metrics: Metrics, dice: Callable[[], float] = _DICE) -> None:
        self._metrics = metrics
        self._dice = dice
        self._tasks: list[asyncio.Task[None]] = []
        self._waiting: list[asyncio.Task[Any]] = []
        self._pokes: dict[str, asyncio.Event] = {}
        self._stopping = False

    def start(self, name: str, run_once: Callable[[], Awaitable[bool]], period_s: float) -> None:
        """Runs passes until one says that there is no more, then pauses for about `period_s`, again and again."""
        self._pokes[name] = asyncio.Event()
        self._tasks.append(asyncio.create_task(self._loop(name, run_once, period_s), name=name))

    def wait_in(self, name: str, run_once: Callable[[], Awaitable[bool]]) -> None:
        """The same for passes that wait for their work themselves: the end of the loops cuts them short."""
        self._pokes[name] = asyncio.Event()
        self.watch(asyncio.create_task(self._loop(name, run_once, 0.0), name=name))

    def watch(self, task: asyncio.Task[Any]) -> None:
        """Ends this task with the loops."""
        self._waiting.append(task)

    def poke(self, name: str) -> None:
        """Ends the loop's pause: there may be something to do."""
        poke = self._pokes.get(name)
        if poke is not None:
            poke.set()

    async def stop(self, timeout_s: float) -> None:
        """No pass is begun any more; one that runs has that time to end, then it is cancelled."""
        self._stopping = True
        for poke in self._pokes.values():
            poke.set()
        for task in self._waiting:
            task.cancel()
        if self._tasks and timeout_s > 0:
            await asyncio.wait(self._tasks, timeout=timeout_s)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._waiting, return_exceptions=True)

    async def _loop(self, name: str, run_once: Callable[[], Awaitable[bool]], period_s: float) -> None:
        failures = 0
        fault: type[Exception] | None = None
        while not self._stopping:
            self._pokes[name].clear()
            try:
                more = await run_once()
            except Exception as error:  # noqa: BLE001  # a loop goes on whatever a pass met
                failures, more = failures + 1, False
                if type(error) is not fault:
                    _report(name, error)
                fault = type(error)
                self._metrics.count("loop_passes_total", name, "failed")
                await asyncio.sleep(self._backoff_s(failures))
                continue
            if fault is not None:
                _log.info("a loop works again", loop=name, failures=failures)
            failures, fault = 0, None
            self._metrics.count("loop_passes_total", name, "worked" if more else "idle")
            await self._pause(name, 0.0 if more else period_s * (0.8 + 0.4 * self._dice()))

    async def _pause(self, name: str, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(seconds):
                await self._pokes[name].wait()
        except TimeoutError:
            pass

    def _backoff_s(self, failures: int) -> float:
        """Exponential with full jitter above a half."""
        longest = min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** min(failures - 1, 10))
        return longest * (0.5 + 0.5 * self._dice())


def _report(name: str, error: Exception) -> None:
    if isinstance(error, _EXPECTED):
        _log.warning("a loop fails and tries again", loop=name, error=type(error).__name__, text=str(error))
    else:
        _log.error("a loop fails unexpectedly and tries again", loop=name, exc_info=error)
