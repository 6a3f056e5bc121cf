"""Finds what was lost: backlog that the ledger does not know of, work queues that the broker lost, tickets.

May live here: rounds over all queues, a page a pass. May not know: why anything was lost. The time of a round, and the
pause between rounds, bound how long a message published without a touch can lie unseen.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import structlog

from slicelease.control_plane.domain.commands import GetQueue, ListQueues, Touch
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.outcomes import Page, QueueState, QueueView, Refused, Touched
from slicelease.control_plane.ports import Broker, Ledger, QueueNotEmptyError

from .answers import answer
from .attention_watch import AttentionWatch
from .observer import LoopObserver
from .work_queues import declare_or_adopt

_log = structlog.get_logger(__name__)

_PAGE = 500


class Reconciler:
    """Compares ledger and broker, 500 queues a pass. Remembers between passes only how far its round is."""

    def __init__(self, ledger: Ledger, broker: Broker, observer: LoopObserver) -> None:
        self._ledger = ledger
        self._broker = broker
        self._observer = observer
        self._watch = AttentionWatch(ledger, broker, observer)
        self._after = ""

    async def run_once(self) -> bool:
        """A page; whether the round goes on. After an error the same page is next.

        Only IDLE queues are counted: any other will have a slice, and that finds what is there. Raises
        LedgerUnavailableError, LedgerVersionError, BrokerUnavailableError.
        """
        if not self._after:
            self._observer.reconcile_began()
            await self._watch.run_once()
        (outcome,) = await self._ledger.execute([ListQueues(after=self._after, limit=_PAGE)])
        page = answer(outcome, Page)
        await self._compare([view for view in page.items if isinstance(view, QueueView) and view.state is QueueState.IDLE])
        self._after = page.next_after
        if not self._after:
            self._observer.reconcile_ended()
        return bool(self._after)

    async def _compare(self, idle: Sequence[QueueView]) -> None:
        if not idle:
            return
        counts = await self._broker.message_counts([view.key for view in idle])
        await self._touch([view.key for view in idle if counts[view.key]])
        await self._redeclare([view for view in idle if counts[view.key] is None])

    async def _touch(self, keys: Sequence[QueueKey]) -> None:
        if not keys:
            return
        outcomes = await self._ledger.execute([Touch(key) for key in keys])
        # One that was touched meanwhile was not lost; one that was deleted is refused.
        news = Touched(coalesced=False, created=False)
        lost = [key for key, outcome in zip(keys, outcomes, strict=True) if outcome == news]
        self._observer.reconcile_touched(len(lost))
        for key in lost:
            _log.info("a backlog was found that no touch had told of", queue=key.member)

    async def _redeclare(self, views: Sequence[QueueView]) -> None:
        if not views:
            return
        for view in views:
            await declare_or_adopt(self._broker, view.key, view.policy.queue_type)
        self._observer.reconcile_redeclared(len(views))
        await self._undo_for_deleted([view.key for view in views])

    async def _undo_for_deleted(self, keys: Sequence[QueueKey]) -> None:
        """A queue deleted between the look and the declare must not live on at the broker, known to nobody."""
        outcomes = await self._ledger.execute([GetQueue(key) for key in keys])
        for key, outcome in zip(keys, outcomes, strict=True):
            if isinstance(outcome, Refused):
                with contextlib.suppress(QueueNotEmptyError):
                    await self._broker.delete_work_queue(key, if_empty=True)
