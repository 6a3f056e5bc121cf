"""The balance of announcements against grantable queues (rule 6), and the look for lost tickets (rule 17).

May live here: `out`, ceilings, topping up, and the faults that a variant plants in them. May not know: leases' lives.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.model.state import LEASED, READY, Announcement, Draft

TOKENS_BY_GRANTS = ("tokens come with READY", "tokens handed about by grants")
"""Variants without a balance: a queue that becomes READY brings a token; in the second, a chained grant keeps it instead."""


@dataclass(frozen=True, slots=True)
class Balance:
    """The balance under `ceilings` by class (0: none); `variant`: the planted fault; `ordered`: the queues promise order."""

    ceilings: tuple[int, ...]
    ordered: bool = False
    variant: str = ""
    prompt: bool = False
    """Announcements are published in the step that owes them."""

    def usage(self, d: Draft, priority: int) -> int:
        """Live leases of a class, counted from their entries; in one variant a counter that expiry forgets."""
        return sum(1 for q in d.queues if q.state == LEASED and q.lease_class == priority) + (
            d.leaked if self.variant == "usage is a counter that expiry forgets" else 0
        )

    def free_slots(self, d: Draft, priority: int) -> int:
        """Leases that may still be granted under the class."""
        ceiling = self.ceilings[priority]
        return max(0, ceiling - self.usage(d, priority)) if ceiling else len(d.queues)

    def grantable(self, d: Draft, priority: int) -> int:
        """Queues of the class that could be granted now."""
        if d.closed:
            return 0
        ready = sum(1 for q in d.queues if q.state == READY and not q.paused and q.priority == priority)
        return min(ready, self.free_slots(d, priority))

    def top_up(self, d: Draft, after: str) -> None:
        """Owes as many announcements as there are grantable queues without one (rule 6)."""
        if self.variant in (f"no top-up after {after}", *TOKENS_BY_GRANTS):
            return
        for priority in range(len(self.ceilings)):
            for _ in range(self.grantable(d, priority) - d.live(priority)):
                self.owe(d, priority)

    def owe(self, d: Draft, priority: int) -> None:
        """Adds an id to `out`."""
        d.out.append(Announcement(priority, int(self.prompt), int(self.prompt)))

    def strikable(self, d: Draft, priority: int) -> bool:
        """Whether an owed id of the class is no longer needed."""
        return d.live(priority) > self.grantable(d, priority)

    def lost_tickets(self, d: Draft, priority: int) -> bool:
        """Whether the look of rule 17 finds the class's tickets lost."""
        of_class = [a for a in d.out if a.priority == priority]
        silent = not d.stale[priority] and all(a.published and not a.copies for a in of_class)
        return silent and bool(of_class) and self.grantable(d, priority) > 0

    def announce_again(self, d: Draft, priority: int) -> None:
        """Drops the published ids of the class (rule 17)."""
        for number, announcement in enumerate(d.out, 1):
            if announcement.priority == priority and announcement.published:
                d.strike(number)
        self.top_up(d, "look")
