"""The parts of `slicelease dev`, each as a context: control plane, workers, ledger.

May live here: how each is started and ended. May not know: the demo, the order of things (session.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio

from slicelease.cli.memory_broker.asyncio_adapter import AsyncioBroker
from slicelease.cli.memory_broker.core import MemoryBroker
from slicelease.cli.memory_broker.trio_adapter import TrioBroker
from slicelease.control_plane.app import serve
from slicelease.control_plane.config import ControlPlaneSettings
from slicelease.control_plane.ports import Ledger
from slicelease.worker import SliceWorker
from slicelease.worker.app import work
from slicelease.worker.config import WorkerSettings

from .ending import DevError, Ending
from .worker_pool import WorkerPool

_JOIN_MARGIN_S = 5.0


@asynccontextmanager
async def control_plane(
    settings: ControlPlaneSettings, ledger: Ledger, core: MemoryBroker | None, ending: Ending
) -> AsyncIterator[str]:
    """A control plane for the time of the block; its gRPC address. Should it end by itself, the run ends.

    `core` is the in-memory broker, None to use that of the settings. Raises DevError when it does not start.
    """
    broker = None if core is None else AsyncioBroker(core)
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[str] = loop.create_future()
    stop = asyncio.Event()
    serving = loop.create_task(serve(settings, ledger=ledger, broker=broker, on_ready=ready.set_result, stop=stop))
    try:
        either: list[asyncio.Future[Any]] = [serving, ready]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            raise DevError(f"the control plane did not start: {_why(serving)}")
        serving.add_done_callback(lambda task: ending.come(DevError(f"the control plane has ended: {_why(task)}")))
        yield ready.result()
    finally:
        stop.set()
        await asyncio.wait([serving])
        if broker is not None:
            broker.close()


@asynccontextmanager
async def worker_pool(
    settings: WorkerSettings, app: SliceWorker, count: int, core: MemoryBroker | None, ending: Ending
) -> AsyncIterator[None]:
    """Workers for the time of the block; at its end their slices end. Should they end by themselves, the run ends.

    Raises DevError when they do not end in time.
    """
    loop = asyncio.get_running_loop()

    def run_worker(stop: trio.Event) -> Awaitable[None]:
        return work(settings, app, broker=None if core is None else TrioBroker(core), stop=stop)

    def on_end(error: BaseException | None) -> None:
        loop.call_soon_threadsafe(partial(ending.come, _pool_error(error)))

    pool = WorkerPool(run_worker, count, on_end)
    pool.start()
    try:
        yield
    finally:
        pool.stop()
        grace_s = settings.shutdown_grace.total_seconds() + _JOIN_MARGIN_S
        if not await asyncio.to_thread(pool.join, grace_s):
            raise DevError(f"the workers did not end in {grace_s:g} s")


def _pool_error(error: BaseException | None) -> DevError | None:
    return None if error is None else DevError(f"the workers have ended: {_plainly(error)}")


def _why(task: asyncio.Task[int]) -> str:
    if task.cancelled():
        return "it was cancelled"
    error = task.exception()
    return f"exit code {task.result()}" if error is None else _plainly(error)


def _plainly(error: BaseException) -> str:
    """The texts of an error, of a group's innermost ones."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(map(_plainly, error.exceptions))
    return f"{type(error).__name__}: {error}"
