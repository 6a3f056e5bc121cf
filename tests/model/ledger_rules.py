"""The rules of the ledger as atomic steps on a draft; every step ends by topping up the balance.

May live here: what the ledger does, and the one-line faults that a variant plants in it. May not know: workers' own steps, the
broker, publishers; tickets (balance.py). Time is its events: a lease lapses, a back-off is due, H has passed, admission opens.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.model.balance import TOKENS_BY_GRANTS, Balance
from tests.model.state import (
    EMPTY,
    FAILING,
    GRANTED,
    HOLDS_LEASE,
    IDLE,
    LEASED,
    LOST,
    NO_GIVEBACK,
    OUTDATED,
    OVER,
    PASSED,
    QUARANTINED,
    READY,
    SLICE,
    STALE,
    SUSPECT,
    UNLINKED,
    WAITING,
    Draft,
    Worker,
)
from tests.model.state import GIVEBACK_OUTRUN as OUTRUN

FAULT_SETTLED_IDLE = "settle ended IDLE on a dirty queue"


class LedgerRules(Balance):
    """The ledger's steps."""

    # ---- touch and ready ------------------------------------------------------------------------------------------------

    def touch(self, d: Draft, index: int) -> None:
        """IDLE becomes READY, LEASED becomes dirty. A queue in order that may get messages back rests until H (rule 13)."""
        queue = d.queues[index]
        if queue.state == IDLE and queue.suspect and self.ordered:
            queue.state = QUARANTINED
        elif queue.state == IDLE:
            self._ready(d, index)
        elif queue.state == LEASED:
            queue.dirty = 1
        if self.variant == "raised attention is a token":
            self.owe(d, queue.priority)
        self.top_up(d, "touch")

    def _ready(self, d: Draft, index: int) -> None:
        queue = d.queues[index]
        queue.state, queue.dirty = READY, 0
        if self.variant in TOKENS_BY_GRANTS:
            self.owe(d, queue.priority)

    # ---- acquire, settle, chain -----------------------------------------------------------------------------------------

    def choices(self, d: Draft, serves: Sequence[int]) -> list[int]:
        """Queues that may be granted to a slot serving these classes. The model grants each: who deserves it is left open."""
        if d.closed:
            return []
        open_classes = [p for p in serves if self.free_slots(d, p)]
        return [i for i, q in enumerate(d.queues) if q.state == READY and not q.paused and q.priority in open_classes]

    def ask_with(self, d: Draft, worker: Worker) -> None:
        """The ticket's id is outstanding no more; an absent one is no token (rule 6)."""
        if worker.ticket == STALE and self.variant == "a duplicate counts as a token":
            others = [n for n, a in enumerate(d.out, 1) if a.priority == worker.ticket_class and n - 1 not in d.struck]
            d.strike(others[0] if others else STALE)
        d.strike(worker.ticket)

    def grant(self, d: Draft, worker: Worker, index: int) -> None:
        """The queue is leased to the worker."""
        queue = d.queues[index]
        queue.state, queue.dirty, queue.lease_class = LEASED, 0, queue.priority
        worker.phase, worker.queue, worker.hand, worker.giveback = GRANTED, index, 0, NO_GIVEBACK

    def next_choices(self, d: Draft, index: int, serves: Sequence[int]) -> list[int]:
        """Queues that may be granted in the step that has just settled that queue."""
        if self.variant == "tokens handed about by grants" and d.queues[index].state != READY:
            return []
        return self.choices(d, serves)

    def settle(self, d: Draft, index: int, phase: int, *, chained: bool = False) -> None:
        """What the end of a slice, told by the phase that it ended in, makes of its queue."""
        queue = d.queues[index]
        if phase == UNLINKED and self.variant != "a lost link settles like any other end":
            self._after_loss(d, index)
        elif phase == EMPTY:
            self._settle_empty(d, index)
        elif phase == FAILING:
            queue.state, queue.dirty = WAITING, 0
        else:
            self._ready(d, index)
        self._end(d, index)
        if chained and self.variant == "tokens handed about by grants":
            d.out.pop()

    def _end(self, d: Draft, index: int) -> None:
        queue = d.queues[index]
        queue.lease_class = -1
        if queue.suspect == PASSED:
            queue.suspect = 0

    def _settle_empty(self, d: Draft, index: int) -> None:
        queue = d.queues[index]
        remembered = queue.dirty and self.variant != "settle ignores dirty"
        if remembered or queue.suspect == PASSED:
            self._ready(d, index)
        elif queue.suspect and self.variant != "empty is believed before H":
            queue.state, queue.dirty = QUARANTINED, 0
        else:
            d.broken = d.broken or (FAULT_SETTLED_IDLE if queue.dirty else "")
            queue.state, queue.dirty = IDLE, 0

    def settle_late(self, d: Draft, index: int) -> None:
        """A settle under a lease that has ended is refused by its token (rule 4); in one variant it ends whoever's lease."""
        queue = d.queues[index]
        if self.variant == "a late settle is accepted" and queue.state == LEASED:
            self._ready(d, index)
            self._end(d, index)
            self.top_up(d, "settle")

    # ---- other ends of a lease ------------------------------------------------------------------------------------------

    def expire(self, d: Draft, index: int) -> None:
        """The lease's time is over. Its holder never knew of it, is gone, or is frozen and will see its own deadline first."""
        for worker in d.workers:
            if worker.queue == index and worker.phase in HOLDS_LEASE:
                self._outlive(worker)
        self._end(d, index)
        if self.variant == "usage is a counter that expiry forgets":
            d.leaked = min(d.leaked + 1, len(d.queues))
        self._after_loss(d, index)
        self.top_up(d, "expiry")

    def _outlive(self, worker: Worker) -> None:
        unaware = worker.phase == GRANTED
        overstays = worker.giveback == OUTRUN and worker.phase == SLICE
        if overstays and self.variant == "a replay grants the full validity":
            worker.phase = OUTDATED
        elif unaware:
            worker.phase, worker.queue = OVER, (worker.queue if self.variant == "a replay grants an ended lease" else -1)
        else:
            worker.phase = LOST
        worker.giveback = NO_GIVEBACK

    def _after_loss(self, d: Draft, index: int) -> None:
        """The holder's connection may hold messages until H: a queue in order rests until then (rule 13)."""
        queue = d.queues[index]
        queue.suspect = SUSPECT
        if self.ordered and self.variant != "an ordered queue does not rest":
            queue.state, queue.dirty = QUARANTINED, 0
        else:
            self._ready(d, index)

    def give_back(self, d: Draft, worker: Worker) -> bool:
        """A caller was seen to be gone: ends its lease unless a later reply carried it (rule 11); whether it did."""
        outrun = worker.giveback == OUTRUN
        worker.giveback = NO_GIVEBACK
        if outrun and self.variant != "give-back after a later reply":
            return False
        self._ready(d, worker.queue)
        self._end(d, worker.queue)
        self.top_up(d, "give-back")
        return True

    # ---- time, operators, loss ------------------------------------------------------------------------------------------

    def due(self, d: Draft, index: int) -> None:
        """The back-off is over."""
        self._ready(d, index)
        self.top_up(d, "due")

    def pass_h(self, d: Draft, index: int) -> None:
        """H has passed since the queue's last unsettled lease. What a lease granted before has seen of it is not believed."""
        queue = d.queues[index]
        queue.suspect = PASSED if queue.state == LEASED and self.variant != "empty is believed when told after H" else 0
        if queue.state == QUARANTINED:
            self._ready(d, index)
        self.top_up(d, "due")

    def pause(self, d: Draft, index: int, paused: int) -> None:
        """A paused queue keeps its state and is out of the running."""
        d.queues[index].paused = paused
        self.top_up(d, "pause" if paused else "resume")

    def change_class(self, d: Draft, index: int, priority: int) -> None:
        """The queue competes in another class; a live lease still counts where it was granted."""
        d.queues[index].priority = priority
        self.top_up(d, "class change")

    def lose_store(self, d: Draft) -> None:
        """Everything is forgotten; admission closes, and every queue may get messages back (rules 13 and 16)."""
        for queue in d.queues:
            queue.state, queue.dirty, queue.lease_class, queue.paused = IDLE, 0, -1, 0
            queue.suspect = 0 if self.variant == "a lost store leaves no suspicion" else SUSPECT
        for number in range(1, len(d.out) + 1):
            d.strike(number)
        d.closed = int(self.variant != "admission stays open after a loss")
        for worker in d.workers:
            if worker.phase in HOLDS_LEASE:
                worker.phase = OUTDATED if worker.phase in (GRANTED, SLICE, EMPTY) else LOST
            worker.giveback = NO_GIVEBACK

    def open_admission(self, d: Draft) -> None:
        """The longest lease that may have been granted before the loss has ended."""
        d.closed = 0
        self.top_up(d, "opening")
