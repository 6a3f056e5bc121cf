"""One run of `slicelease dev`: brings the system up, lets the demo run, and takes everything down again.

May live here: the order of starting and ending, and what is said when. May not know: options, how things are counted. The
control plane and the demo run under asyncio in the main thread, the workers under Trio in a thread of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TextIO

import click
import grpc.aio

from slicelease.cli.embedded_valkey import EmbeddedValkey
from slicelease.cli.memory_broker.core import MemoryBroker
from slicelease.control_plane.domain.commands import ReadStats
from slicelease.control_plane.domain.outcomes import Stats
from slicelease.control_plane.ports import Ledger, LedgerUnavailableError
from slicelease.worker import SliceWorker

from .client import DemoClient, demo_client
from .demo import Demo
from .display import display_for
from .ending import DevError, Ending
from .greeting import greeting, summary
from .handlers import demo_app, logging_app
from .journal import Journal
from .load import DEMO_CLASSES, demo_tenants
from .plan import DemoPlan, DevPlan
from .progress import ProgressMeter, Snapshot
from .report import EXIT_DONE, Report
from .store import open_ledger
from .system import control_plane, worker_pool
from .watched_ledger import LedgerCounts, WatchedLedger

_DRAIN_S = 3.0
"""How long an endless load, told to end, waits for what is still in the queues."""
_CLEAN_UP_S = 15.0
_READY_S = 20.0
_VALKEY_LOOK_S = 0.5
_KILLED_BY_SIGINT = 130


class Session:
    """One run; `valkey` is the embedded store, started already, or None; `app` the handlers without a demo, None: dev's own."""

    def __init__(self, plan: DevPlan, valkey: EmbeddedValkey | None, app: SliceWorker | None) -> None:
        self._plan = plan
        self._valkey = valkey
        self._app = app
        self._counts = LedgerCounts()
        self._core = MemoryBroker() if plan.amqp_url is None else None
        self._ending = Ending()
        self._talk: TextIO = sys.stderr if plan.as_json else sys.stdout
        self._tenants = [] if plan.demo is None else demo_tenants(plan.demo.tenants, plan.tenant_prefix)
        self._journal = Journal(self._tenants)

    async def run(self) -> int:
        """Until the end; the exit code. Raises DevError."""
        with _signals(self._ending, self._valkey):
            if self._plan.amqp_url is not None:
                from .guard import refuse_vhost_in_use  # loads the AMQP client, which the in-memory broker does without

                await refuse_vhost_in_use(self._plan.amqp_url)
            async with open_ledger(self._plan) as opened, self._watched_valkey():
                ledger = WatchedLedger(opened, self._counts)
                async with control_plane(self._plan.control_plane, ledger, self._core, self._ending) as address:
                    return await self._run_in(ledger, address)

    async def _run_in(self, ledger: Ledger, address: str) -> int:
        async with demo_client(address, self._plan.run_id) as client:
            if self._plan.demo is None:
                await self._run_workers_only(address, client)
                return EXIT_DONE
            report = await self._run_demo(ledger, address, client, self._plan.demo)
        self._print(report)
        return report.exit_code

    async def _run_workers_only(self, address: str, client: DemoClient) -> None:
        if not await self._unless_ended(self._wait_ready(client)):
            return
        async with self._workers(address, self._app or logging_app(self._plan.work_ms)):
            self._greet(address)
            with self._time_limit():
                await self._ending.wait()
        self._check()

    async def _run_demo(self, ledger: Ledger, address: str, client: DemoClient, plan: DemoPlan) -> Report:
        demo = Demo(plan, self._tenants, self._journal, self._counts, asyncio.get_running_loop().time)
        try:
            if not await self._unless_ended(self._prepare(client)):
                return demo.report({})
            async with self._workers(address, demo_app(self._journal, self._plan.work_ms)):
                self._greet(address)
                async with self._progress(ledger):
                    with self._time_limit():
                        await demo.run(client, self._ending)
                if plan.messages is None:
                    await demo.drain(_DRAIN_S)
            self._check()
            unfinished = [one.tenant for one in self._journal.tenants.values() if one.backlog > 0]
            return demo.report(await client.remaining(unfinished))
        except grpc.aio.AioRpcError as error:
            raise DevError(f"the control plane answered {error.code().name}: {error.details()}") from error
        finally:
            if self._plan.outlives:
                await self._clean_up(client)

    async def _prepare(self, client: DemoClient) -> None:
        await self._wait_ready(client)
        await client.create_tenants(self._tenants)

    async def _wait_ready(self, client: DemoClient) -> None:
        try:
            await client.wait_serving(_READY_S)
        except (TimeoutError, grpc.aio.AioRpcError):
            raise DevError(f"ledger and broker were not ready within {_READY_S:g} s; the log says why") from None

    async def _unless_ended(self, work: Coroutine[None, None, None]) -> bool:
        """Does the work, but drops it when the run is to end; whether it was done. Raises what the work raises."""
        loop = asyncio.get_running_loop()
        working, ended = loop.create_task(work), loop.create_task(self._ending.wait())
        await asyncio.wait([working, ended], return_when=asyncio.FIRST_COMPLETED)
        for task in (working, ended):
            task.cancel()
        await asyncio.wait([working, ended])
        self._check()
        if working.cancelled():
            return False
        working.result()
        return True

    @asynccontextmanager
    async def _workers(self, address: str, app: SliceWorker) -> AsyncIterator[None]:
        settings = self._plan.worker_settings(address)
        async with worker_pool(settings, app, self._plan.workers, self._core, self._ending):
            yield

    def _check(self) -> None:
        """Raises the error that ended the run, if one did."""
        if self._ending.error is not None:
            raise self._ending.error

    @contextmanager
    def _time_limit(self) -> Iterator[None]:
        if self._plan.seconds is None:
            yield
            return
        timer = asyncio.get_running_loop().call_later(self._plan.seconds, self._ending.come)
        try:
            yield
        finally:
            timer.cancel()

    @asynccontextmanager
    async def _progress(self, ledger: Ledger) -> AsyncIterator[None]:
        """Shows progress for the time of the block."""
        showing = asyncio.get_running_loop().create_task(self._show_progress(ledger))
        try:
            yield
        finally:
            showing.cancel()
            await asyncio.wait([showing])

    async def _show_progress(self, ledger: Ledger) -> None:
        meter, clock = ProgressMeter(), asyncio.get_running_loop().time
        began_s = clock()
        with display_for(sys.stderr) as display:
            while await self._ending.pause(display.every_s):
                with contextlib.suppress(LedgerUnavailableError):
                    display.show(self._snapshot(meter, clock() - began_s, await _stats(ledger)))

    def _snapshot(self, meter: ProgressMeter, at_s: float, stats: Stats) -> Snapshot:
        waits_ms = {class_id: self._counts.waits_ms[class_id] for class_id in DEMO_CLASSES}
        journal = self._journal
        return meter.take(at_s, journal.published, journal.processed, self._counts.grants, waits_ms, stats)

    @asynccontextmanager
    async def _watched_valkey(self) -> AsyncIterator[None]:
        """Ends the run when the embedded store is gone: without it nothing is granted any more."""
        watching = asyncio.get_running_loop().create_task(self._watch_valkey())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.wait([watching])

    async def _watch_valkey(self) -> None:
        while await self._ending.pause(_VALKEY_LOOK_S):
            if self._valkey is not None and not self._valkey.running:
                self._ending.come(DevError("the embedded Valkey has ended"))

    async def _clean_up(self, client: DemoClient) -> None:
        """Removes the demo's tenants from servers that go on."""
        try:
            async with asyncio.timeout(_CLEAN_UP_S):
                await client.delete_tenants(self._tenants)
        except (TimeoutError, grpc.aio.AioRpcError) as error:
            click.echo(f"tenants {self._plan.tenant_prefix}* could not all be deleted: {error!r}", err=True)

    def _greet(self, address: str) -> None:
        plan = self._plan
        text = greeting(address, plan.ledger_text, plan.broker_text, plan.metrics_text)
        print(text, file=self._talk, flush=True)

    def _print(self, report: Report) -> None:
        text = json.dumps(report.as_json()) if self._plan.as_json else summary(report.as_json())
        print(text, flush=True)  # noqa: T201  the result


async def _stats(ledger: Ledger) -> Stats:
    (outcome,) = await ledger.execute([ReadStats()])
    if not isinstance(outcome, Stats):
        raise LedgerUnavailableError(f"no answer to ReadStats: {outcome}")
    return outcome


@contextmanager
def _signals(ending: Ending, valkey: EmbeddedValkey | None) -> Iterator[None]:
    """The first SIGINT or SIGTERM ends the run in good order, the second at once; both lose nothing."""
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if ending.has_come:
            if valkey is not None:
                valkey.stop()
            os._exit(_KILLED_BY_SIGINT)
        ending.come()

    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, on_signal)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
