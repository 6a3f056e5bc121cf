"""Looks whether the attention queues hold what the ledger believes to be in them.

May live here: looking and telling. May not know: when tickets count as lost; the ledger decides that from what it is told.
"""

from __future__ import annotations

import structlog

from slicelease.control_plane.domain.commands import Command, ListClasses, ObserveAttention
from slicelease.control_plane.domain.outcomes import ClassView, Observed, Page
from slicelease.control_plane.ports import Broker, Ledger

from .answers import answer
from .observer import LoopObserver

_log = structlog.get_logger(__name__)

_PAGE = 100


class AttentionWatch:
    """One look at every class; cheap enough for every second or two."""

    def __init__(self, ledger: Ledger, broker: Broker, observer: LoopObserver) -> None:
        self._ledger = ledger
        self._broker = broker
        self._observer = observer

    async def run_once(self) -> bool:
        """Always False. Raises LedgerUnavailableError, LedgerVersionError, BrokerUnavailableError."""
        classes = await self._classes()
        looks: list[Command] = [ObserveAttention(class_id, await self._count(class_id)) for class_id in classes]
        outcomes = await self._ledger.execute(looks) if looks else []
        for class_id, outcome in zip(classes, outcomes, strict=True):
            # A class that was deleted meanwhile is refused.
            if isinstance(outcome, Observed) and outcome.dropped:
                self._observer.tickets_lost(class_id, outcome.dropped)
                _log.warning("tickets were lost; announcing again", priority_class=class_id, tickets=outcome.dropped)
        return False

    async def _classes(self) -> list[str]:
        classes: list[str] = []
        after = ""
        while True:
            (outcome,) = await self._ledger.execute([ListClasses(after, _PAGE)])
            page = answer(outcome, Page)
            classes += [view.class_id for view in page.items if isinstance(view, ClassView)]
            after = page.next_after
            if not after:
                return classes

    async def _count(self, class_id: str) -> int:
        count = await self._broker.attention_count(class_id)
        if count is None:
            _log.warning("an attention queue is missing; declaring it", priority_class=class_id)
            await self._broker.declare_topology([class_id])
        return count or 0
