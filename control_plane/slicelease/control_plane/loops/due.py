"""Queues whose wait is over compete again."""

from __future__ import annotations

from slicelease.control_plane.domain.commands import WakeDue
from slicelease.control_plane.domain.outcomes import Woken
from slicelease.control_plane.ports import Ledger

from .answers import answer

_LIMIT = 128


class Due:
    """Wakes WAITING queues whose time has come, 128 a pass."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def run_once(self) -> bool:
        """Whether more may be due. Raises LedgerUnavailableError, LedgerVersionError."""
        (outcome,) = await self._ledger.execute([WakeDue(_LIMIT)])
        return answer(outcome, Woken).more
