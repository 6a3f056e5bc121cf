"""The state of the model: hashable tuples for the explorer, a mutable draft for the rules, one form for equal states.

May live here: what there is to remember, and in which order. May not know: what changes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

# States of a queue in the ledger. A quarantined queue is WAITING until H (rule 13); the ledger has no other word for it.
IDLE: Final = 0
READY: Final = 1
LEASED: Final = 2
WAITING: Final = 3
QUARANTINED: Final = 4
QUEUE_STATES: Final = ("IDLE", "READY", "LEASED", "WAITING", "WAITING until H")

# Whether "empty" is believed (rule 13).
SUSPECT: Final = 1  # a lease ended unsettled, and H has not passed
PASSED: Final = 2  # H passed during the lease that is live: what its holder saw may be older

# What is known of work that the ledger has not been told of.
TOLD: Final = 0
UNTOUCHED: Final = 1  # a publisher is between its publish and its touch
FLAGGED: Final = 2  # only the reconciler can tell: the publisher died, or the store was lost

# Phases of a worker's slot.
FREE: Final = 0
TICKET: Final = 1  # holds a ticket, has not asked
GRANTED: Final = 2  # the ledger granted; the answer is on its way or lost
ANSWERED: Final = 3  # denied, or settled without a next lease; the ticket can be acked
OVER: Final = 4  # the ledger granted, and that lease ended before the answer arrived
SLICE: Final = 5
EMPTY: Final = 6  # basic.get answered empty
ENDING: Final = 7  # stopped with a backlog; what was in hand is on its way back to the queue
FAILING: Final = 8  # stopped by an error, likewise
UNLINKED: Final = 9  # the link to the broker broke; what was in hand is with the dead link
LOST: Final = 10  # frozen past its lease; its connection still holds what was in hand
OUTDATED: Final = 11  # acts under a lease that the ledger does not know, and has not noticed

HOLDS_LEASE: Final = frozenset((GRANTED, SLICE, EMPTY, ENDING, FAILING, UNLINKED))
CAN_ACK: Final = frozenset((SLICE, EMPTY, ENDING, FAILING, OUTDATED))
HOLDS_LATE: Final = frozenset((LOST, OUTDATED))

# Give-back that a control plane owes, having seen the caller of a granted acquire go (rule 11).
NO_GIVEBACK: Final = 0
GIVEBACK_DUE: Final = 1
GIVEBACK_OUTRUN: Final = 2  # a later reply carried the lease

STALE: Final = 0
"""The id of every ticket whose id is not in `out`: they are all alike. Live ids count from 1, in the order of `ids`."""

State = tuple[
    tuple[tuple[int, ...], ...],  # queues
    tuple[tuple[int, ...], ...],  # workers
    tuple[tuple[int, int], ...],  # strays: messages held by dead links, as (queue, messages)
    tuple[tuple[int, int, int], ...],  # out: live ids, as (class, published, copies in the attention queue)
    tuple[int, ...],  # stale tickets in the attention queue of each class
    tuple[int, int, int, int],  # admission closed; on demand only: faults so far, turns without a token, leases never discounted
    str,  # a rule seen broken by a step itself
]


@dataclass(slots=True)
class Queue:
    """A work queue: what the ledger knows, and how many messages are ready at the broker."""

    priority: int
    state: int = IDLE
    paused: int = 0
    dirty: int = 0
    suspect: int = 0
    gap: int = TOLD
    work: int = 0
    lease_class: int = -1

    def key(self) -> tuple[int, ...]:
        return (self.priority, self.state, self.paused, self.dirty, self.suspect, self.gap, self.work, self.lease_class)


@dataclass(slots=True)
class Worker:
    """One slot of a worker. `queue` is -1 without one; `ticket_class` is -1 without a ticket."""

    serves: int  # index into the configuration's sets of classes
    phase: int = FREE
    queue: int = -1
    hand: int = 0
    ticket_class: int = -1
    ticket: int = STALE
    giveback: int = NO_GIVEBACK

    def key(self) -> tuple[int, ...]:
        return (self.serves, self.phase, self.queue, self.hand, self.ticket_class, self.ticket, self.giveback)


@dataclass(slots=True)
class Announcement:
    """An id of `out`: owed until published, with its copies in the attention queue."""

    priority: int
    published: int = 0
    copies: int = 0


@dataclass(slots=True)
class Draft:
    """A state being changed by one step."""

    queues: list[Queue]
    workers: list[Worker]
    strays: list[tuple[int, int]]
    out: list[Announcement]
    stale: list[int]
    closed: int = 0
    faults: int = 0
    tokenless: int = 0
    leaked: int = 0
    broken: str = ""
    struck: list[int] = field(default_factory=list)  # indexes of `out` to be left out of the frozen state

    @classmethod
    def of(cls, state: State) -> Draft:
        queues, workers, strays, out, stale, (closed, faults, tokenless, leaked), broken = state
        return cls(
            [Queue(*q) for q in queues],
            [Worker(*w) for w in workers],
            list(strays),
            [Announcement(*a) for a in out],
            list(stale),
            closed,
            faults,
            tokenless,
            leaked,
            broken,
        )

    def strike(self, ticket: int) -> None:
        """Takes a live id out of `out`: whatever copies there are become stale tickets. 0 is taken for no id."""
        if ticket == STALE or ticket - 1 in self.struck:
            return
        gone = self.out[ticket - 1]
        self.stale[gone.priority] += gone.copies
        self.struck.append(ticket - 1)
        for worker in self.workers:
            if worker.ticket == ticket:
                worker.ticket = STALE

    def live(self, priority: int) -> int:
        """|out| of a class."""
        return sum(1 for n, a in enumerate(self.out) if a.priority == priority and n not in self.struck)

    def messages(self, index: int) -> int:
        """Messages of a queue, wherever they are."""
        held = sum(w.hand for w in self.workers if w.queue == index)
        return self.queues[index].work + held + sum(n for q, n in self.strays if q == index)

    def late(self, index: int) -> bool:
        """Whether a holder that the ledger has given up may still return messages to the queue, or act on it."""
        if any(q == index for q, _ in self.strays):
            return True
        return any(w.queue == index and (w.phase == OUTDATED or (w.phase == LOST and w.hand)) for w in self.workers)

    def frozen(self) -> State:
        if self.struck:
            self._drop_struck()
        for index, queue in enumerate(self.queues):
            if queue.gap == FLAGGED and not self.messages(index):
                queue.gap = TOLD  # nothing is left that anyone would have to be told of
        return (
            tuple([q.key() for q in self.queues]),
            tuple([w.key() for w in self.workers]),
            tuple(sorted(self.strays)),
            tuple([(a.priority, a.published, a.copies) for a in self.out]),
            tuple(self.stale),
            (self.closed, self.faults, self.tokenless, self.leaked),
            self.broken,
        )

    def _drop_struck(self) -> None:
        kept = [n for n in range(len(self.out)) if n not in self.struck]
        for worker in self.workers:
            if worker.ticket != STALE:
                worker.ticket = kept.index(worker.ticket - 1) + 1
        self.out = [self.out[n] for n in kept]
        self.struck = []


def canonical(state: State) -> State:
    """Queues, workers and ids in a fixed order. Equal queues (or workers) are told apart by what refers to them."""
    queues, workers, strays, out, stale, counts, broken = state
    places = sorted(range(len(queues)), key=queues.__getitem__)
    if len(set(queues)) < len(queues):
        places.sort(key=lambda n: (queues[n], _referring(n, workers, strays)))
    queue_names = {old: new for new, old in enumerate(places)} | {-1: -1}
    renamed = [(s, p, queue_names[q], h, c, t, g) for s, p, q, h, c, t, g in workers]
    renamed.sort(key=lambda w: (*w[:5], out[w[5] - 1] if w[5] else (), w[6]))
    holders: list[list[int]] = [[n for n, w in enumerate(renamed) if w[5] == i + 1] for i in range(len(out))]
    order = sorted(range(len(out)), key=lambda i: (out[i], holders[i]))
    ids = {0: 0} | {old + 1: new + 1 for new, old in enumerate(order)}
    return (
        tuple([queues[n] for n in places]),
        tuple([(s, p, q, h, c, ids[t], g) for s, p, q, h, c, t, g in renamed]),
        tuple(sorted([(queue_names[q], n) for q, n in strays])),
        tuple([out[i] for i in order]),
        stale,
        counts,
        broken,
    )


def _referring(queue: int, workers: tuple[tuple[int, ...], ...], strays: tuple[tuple[int, int], ...]) -> list[tuple[int, ...]]:
    told = [(s, p, h, c, t > 0, g) for s, p, q, h, c, t, g in workers if q == queue]
    return sorted([*told, *((-1, n) for q, n in strays if q == queue)])
