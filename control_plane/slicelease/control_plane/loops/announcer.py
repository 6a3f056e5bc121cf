"""Owed announcements become tickets on the attention queues.

May live here: claim, publish, mark. May not know: why an announcement is owed. What is published and not marked, because
somebody died in between, is published again under the same id, which costs a turn to ask and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import structlog

from slicelease.control_plane.domain.commands import ClaimAnnouncements, Command, MarkPublished
from slicelease.control_plane.domain.outcomes import Announcements
from slicelease.control_plane.ports import Broker, Ledger

from .answers import answer
from .attention_body import ticket_body
from .observer import LoopObserver

_log = structlog.get_logger(__name__)

_LIMIT = 128


class Announcer:
    """Publishes what the ledger owes. `now_utc` stamps tickets, for people."""

    def __init__(self, ledger: Ledger, broker: Broker, observer: LoopObserver, now_utc: Callable[[], datetime]) -> None:
        self._ledger = ledger
        self._broker = broker
        self._observer = observer
        self._now_utc = now_utc

    async def run_once(self) -> bool:
        """Claims and publishes up to 128; whether more may be owed now.

        Only what the broker has confirmed and routed counts as published. Raises LedgerUnavailableError,
        LedgerVersionError, BrokerUnavailableError.
        """
        (outcome,) = await self._ledger.execute([ClaimAnnouncements(_LIMIT)])
        claimed = answer(outcome, Announcements).claimed
        marks: list[Command] = []
        try:
            for class_id, ids in _by_class(claimed).items():
                if published := await self._publish(class_id, ids):
                    marks.append(MarkPublished(class_id, tuple(ids[:published])))
                    self._observer.tickets_published(class_id, published)
        finally:
            await self._mark(marks)
        return len(claimed) >= _LIMIT

    async def _publish(self, class_id: str, ids: Sequence[str]) -> int:
        """How many leading ones are sure to be in the queue. A missing queue or binding is made, and tried once more."""
        bodies = [ticket_body(each, self._now_utc()) for each in ids]
        sure = await self._broker.announce(class_id, bodies)
        if sure < len(bodies):
            _log.warning("tickets found no queue; declaring it", priority_class=class_id, tickets=len(bodies) - sure)
            await self._broker.declare_topology([class_id])
            sure += await self._broker.announce(class_id, bodies[sure:])
        return sure

    async def _mark(self, marks: Sequence[Command]) -> None:
        if marks:
            await self._ledger.execute(marks)


def _by_class(claimed: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    """Ids by class, in the order claimed."""
    by_class: dict[str, list[str]] = {}
    for class_id, announcement_id in claimed:
        by_class.setdefault(class_id, []).append(announcement_id)
    return by_class
