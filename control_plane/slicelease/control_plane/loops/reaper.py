"""Leases that ran out are ended. A hint: every step that decides something ends lapsed leases itself first."""

from __future__ import annotations

import structlog

from slicelease.control_plane.domain.commands import ExpireLapsed
from slicelease.control_plane.domain.outcomes import Expired
from slicelease.control_plane.ports import Ledger

from .answers import answer
from .observer import LoopObserver

_log = structlog.get_logger(__name__)

_LIMIT = 128


class Reaper:
    """Ends lapsed leases, 128 a pass, so that a mass expiry never holds up other calls for long."""

    def __init__(self, ledger: Ledger, observer: LoopObserver) -> None:
        self._ledger = ledger
        self._observer = observer

    async def run_once(self) -> bool:
        """Whether more may have lapsed. Raises LedgerUnavailableError, LedgerVersionError."""
        (outcome,) = await self._ledger.execute([ExpireLapsed(_LIMIT)])
        expired = answer(outcome, Expired)
        for lease, class_id in expired.leases:
            self._observer.lease_expired(class_id)
            _log.warning("a lease ran out unsettled", queue=lease.of_queue.member, token=lease.token)
        return expired.more
