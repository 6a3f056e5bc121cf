"""Workers under Trio in a thread of their own, beside the control plane's asyncio.

May live here: starting and ending that thread. May not know: what the workers do.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import partial

import trio

RunWorker = Callable[[trio.Event], Awaitable[None]]
"""Runs one worker until the event is set and its slices have ended."""


class WorkerPool:
    """`count` workers in one Trio run. `on_end` is called in the pool's thread with its error, or None."""

    def __init__(self, run_worker: RunWorker, count: int, on_end: Callable[[BaseException | None], None]) -> None:
        self._run_worker = run_worker
        self._count = count
        self._on_end = on_end
        self._running: Future[tuple[trio.lowlevel.TrioToken, trio.Event]] = Future()
        self._thread = threading.Thread(target=self._main, name="slicelease-dev-workers")

    def start(self) -> None:
        """Returns when the Trio run has begun."""
        self._thread.start()
        self._running.result()

    def stop(self) -> None:
        """Asks all workers to end their slices and come to an end. Harmless when they have."""
        token, event = self._running.result()
        try:
            token.run_sync_soon(event.set)
        except trio.RunFinishedError:
            return

    def join(self, timeout_s: float) -> bool:
        """Whether the thread has ended in that time."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _main(self) -> None:
        error: BaseException | None = None
        try:
            trio.run(self._run, strict_exception_groups=True)
        except BaseException as caught:  # noqa: BLE001  the other thread decides what it means
            error = caught
        self._on_end(error)

    async def _run(self) -> None:
        stop = trio.Event()
        async with trio.open_nursery() as nursery:
            for _ in range(self._count):
                nursery.start_soon(partial(self._run_worker, stop))
            self._running.set_result((trio.lowlevel.current_trio_token(), stop))
