"""The demo load while it runs: publishes, sees the fairness windows open and close, and makes the report.

May live here: when to publish what, and when the load is done. May not know: how the system is started and ended.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator

import grpc.aio

from .client import MAX_BATCH, DemoClient
from .ending import DevError, Ending
from .fairness import ClassWindow, index_of
from .journal import Journal
from .load import DEMO_CLASSES, DemoMessage, DemoTenant, demo_messages
from .plan import DemoPlan
from .report import Report
from .watched_ledger import LedgerCounts

_GENTLE_PERIOD_S = 0.1
_WATCH_PERIOD_S = 0.02


class Demo:
    """One load. `clock` gives seconds."""

    def __init__(
        self,
        plan: DemoPlan,
        tenants: list[DemoTenant],
        journal: Journal,
        counts: LedgerCounts,
        clock: Callable[[], float],
    ) -> None:
        self._plan = plan
        self._tenants = tenants
        self._journal = journal
        self._counts = counts
        self._clock = clock
        self._windows: dict[str, ClassWindow] = {}
        self._published_all = False
        self._began_s = clock()
        self._duration_s: float | None = None

    async def run(self, client: DemoClient, ending: Ending) -> None:
        """Publishes until all is published or the run ends, then waits until all is processed or the run ends."""
        self._began_s = self._clock()
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self._watch(ending))
            await self._publish_or_end(client, ending)
            if self._plan.messages is not None and not ending.has_come:
                self._open_windows()
            await watching
        self._duration_s = self._clock() - self._began_s

    async def drain(self, seconds: float) -> None:
        """Waits until all that was published is processed, but no longer than so many seconds."""
        end_s = self._clock() + seconds
        while self._journal.processed < self._journal.published and self._clock() < end_s:  # noqa: ASYNC110  another thread counts
            await asyncio.sleep(_WATCH_PERIOD_S)
        self._duration_s = self._clock() - self._began_s

    def report(self, remaining: dict[str, int]) -> Report:
        """The report; `remaining` is what the broker holds of tenants with a backlog, after the workers have ended.

        A message may be processed and still come back (its ack was cut off); those are taken out of what remains. One
        whose publish was not answered before the end, and that was processed all the same, was published.
        """
        journals = self._journal.tenants
        dead = {name: min(self._counts.dead_lettered[name], max(0, one.backlog)) for name, one in journals.items()}
        return Report(
            published=sum(max(one.published, one.processed) for one in journals.values()),
            processed=self._journal.processed,
            remaining=sum(min(remaining.get(name, 0), max(0, one.backlog) - dead[name]) for name, one in journals.items()),
            dead_lettered=sum(dead.values()),
            repeated=self._journal.repeated,
            out_of_order=self._journal.out_of_order,
            slices=self._counts.slices,
            grants=self._counts.grants,
            denials=self._counts.denials,
            waits_ms={class_id: self._counts.waits_ms[class_id] for class_id in DEMO_CLASSES},
            jain_index=index_of(self._windows.values()),
            duration_s=self._duration_s if self._duration_s is not None else self._clock() - self._began_s,
        )

    async def _publish_or_end(self, client: DemoClient, ending: Ending) -> None:
        try:
            await self._publish(client, ending)
        except grpc.aio.AioRpcError as error:
            ending.come(DevError(f"publishing was answered {error.code().name}: {error.details()}"))

    async def _publish(self, client: DemoClient, ending: Ending) -> None:
        load = demo_messages(self._tenants, self._plan.seed)
        if self._plan.messages is None:
            await self._publish_gently(client, load, ending)
        else:
            bounded = itertools.islice(load, self._plan.messages)
            while batch := list(itertools.islice(bounded, MAX_BATCH)):
                if ending.has_come:
                    return
                await self._publish_batch(client, batch, ending)
        self._published_all = True

    async def _publish_gently(self, client: DemoClient, load: Iterator[DemoMessage], ending: Ending) -> None:
        began_s, asked = self._clock(), 0
        while await ending.pause(_GENTLE_PERIOD_S):
            due = int((self._clock() - began_s) * self._plan.rate_per_s) - asked
            batch = list(itertools.islice(load, min(due, MAX_BATCH)))
            asked += len(batch)
            await self._publish_batch(client, batch, ending)

    async def _publish_batch(self, client: DemoClient, batch: list[DemoMessage], ending: Ending) -> None:
        """Until all of it is published, or the run ends."""
        while batch and not ending.has_come:
            published = await client.publish(batch)
            for message in published:
                self._journal.was_published(message)
            done = set(published)
            batch = [message for message in batch if message not in done]

    def _open_windows(self) -> None:
        so_far = dict(self._counts.slot_ms)
        for class_id in DEMO_CLASSES:
            self._windows[class_id] = ClassWindow(self._journal.class_backlog(class_id), so_far)

    async def _watch(self, ending: Ending) -> None:
        """Closes windows as they are done, and ends the run when all is processed."""
        while await ending.pause(_WATCH_PERIOD_S):
            for class_id, window in self._windows.items():
                if window.may_close(self._journal.class_backlog(class_id)):
                    window.close(self._journal.backlogged(class_id), self._counts.slot_ms)
            if self._published_all and self._journal.processed >= self._journal.published:
                ending.come()
