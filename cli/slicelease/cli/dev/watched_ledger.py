"""A ledger that counts what it answers, before anybody else sees it.

May live here: counts of grants, waits, denials, slices and slot time, taken from outcomes. May not know: which ledger it
watches. A repeated answer (`carried` above 1) is counted once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from slicelease.control_plane.domain.commands import Command, EndReason, Settle, Totals
from slicelease.control_plane.domain.names import LeaseKey
from slicelease.control_plane.domain.outcomes import Denied, Granted, Outcome, Settled
from slicelease.control_plane.ports import Ledger


class LedgerCounts:
    """Counts since the start. Waits are whole milliseconds by class, from READY to the grant."""

    def __init__(self) -> None:
        self.grants = 0
        self.slices = 0
        self.denials: Counter[str] = Counter()
        self.waits_ms: dict[str, Counter[int]] = defaultdict(Counter)
        self.slot_ms: Counter[str] = Counter()
        self.dead_lettered: Counter[str] = Counter()

    def granted(self, grant: Granted) -> None:
        """A lease was granted."""
        if grant.carried > 1:
            return
        self.grants += 1
        self.waits_ms[grant.priority_class][grant.waited_ms] += 1

    def denied(self, denial: Denied) -> None:
        """No lease was granted."""
        self.denials[denial.reason.name] += 1

    def settled(self, lease: LeaseKey, reason: EndReason, totals: Totals, slot_ms: int) -> None:
        """A slice ended; one whose grant came too late was none."""
        self.slices += reason is not EndReason.UNUSED
        self.slot_ms[lease.tenant] += slot_ms
        self.dead_lettered[lease.tenant] += totals.dead_lettered


class WatchedLedger:
    """Implements ports.Ledger over another, for one event loop."""

    def __init__(self, watched: Ledger, counts: LedgerCounts) -> None:
        self._watched = watched
        self._counts = counts
        self._settled: dict[tuple[str, int], int] = {}

    async def execute(self, commands: Sequence[Command]) -> list[Outcome]:
        """As the watched ledger answers."""
        outcomes = await self._watched.execute(commands)
        for command, outcome in zip(commands, outcomes, strict=True):
            self._count(command, outcome)
        return outcomes

    def _count(self, command: Command, outcome: Outcome) -> None:
        match outcome:
            case Granted():
                self._counts.granted(outcome)
            case Denied():
                self._counts.denied(outcome)
            case Settled() if isinstance(command, Settle):
                self._count_settled(command, outcome)
            case _:
                pass

    def _count_settled(self, command: Settle, outcome: Settled) -> None:
        slot = (command.request.session, command.request.slot)
        if self._settled.get(slot) == command.request.n:
            return  # the same answer again
        self._settled[slot] = command.request.n
        self._counts.settled(command.lease, command.end_reason, command.totals, outcome.slot_ms)
        if outcome.next is not None:
            self._counts.granted(outcome.next)
