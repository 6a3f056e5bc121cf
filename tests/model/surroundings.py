"""Steps of all but the workers: publishers, reconciler, announcer, clocks, broker, operators, and what befalls the installation.

May live here: who may do what when. May not know: the ledger's decisions (ledger_rules.py), the workers (slots.py, slices.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model import state as s
from tests.model.explorer import Step
from tests.model.setting import QUEUE_NAMES, Actor
from tests.model.state import Draft, State

Steps = Iterator[Step[State]]


class Publishers(Actor):
    """They publish, then touch; who dies between leaves it to the reconciler."""

    def steps(self, state: State, now: Draft, index: int) -> Steps:
        queue, name = now.queues[index], QUEUE_NAMES[index]
        if queue.gap == s.TOLD and now.messages(index) < self.setting.messages:
            label = f"a publisher puts a message into {name}" + " and touches it" * ("publisher" in self.setting.prompt)
            yield Step(label, False, self.step(state, label, self._publish, index).state)
        if queue.gap == s.UNTOUCHED:
            yield self.step(state, f"the publisher touches {name}", self._touch, index)
            if self.may("dead publisher"):
                yield from self.fault(state, f"the publisher dies before it touches {name}", self._die, index)
        if queue.gap == s.FLAGGED and queue.work and not self.planted("no reconciler"):
            yield self.step(state, f"the reconciler finds work in {name} and touches it", self._touch, index)
        if self.may("touch") and queue.state != s.READY:
            yield from self.fault(state, f"attention is raised for {name}", self.rules.touch, index)

    def _publish(self, d: Draft, index: int) -> None:
        d.queues[index].work += 1
        d.queues[index].gap = s.UNTOUCHED
        if "publisher" in self.setting.prompt:
            self._touch(d, index)

    def _touch(self, d: Draft, index: int) -> None:
        d.queues[index].gap = s.TOLD
        self.rules.touch(d, index)

    def _die(self, d: Draft, index: int) -> None:
        d.queues[index].gap = s.FLAGGED


class LedgerClock(Actor):
    """Time as the ledger sees it: a back-off is over, H has passed, a lease lapses."""

    def steps(self, state: State, now: Draft, index: int) -> Steps:
        queue, name = now.queues[index], QUEUE_NAMES[index]
        if queue.state == s.WAITING:
            yield self.step(state, f"the back-off of {name} is over", self.rules.due, index)
        if queue.suspect == s.SUSPECT and not now.late(index):
            yield self.step(state, f"H has passed for {name}", self.rules.pass_h, index)
        if queue.state == s.LEASED:
            yield from self._lapse(state, now, index)

    def _lapse(self, state: State, now: Draft, index: int) -> Steps:
        """A live holder renews, or stops before the end: a lease lapses only under one that is gone, unaware or frozen."""
        name = QUEUE_NAMES[index]
        holders = [w for w in now.workers if w.queue == index and w.phase in s.HOLDS_LEASE]
        if not holders:
            yield self.step(state, f"the lease on {name} lapses, its holder being gone", self.rules.expire, index)
        elif all(w.phase == s.GRANTED for w in holders):
            if self.may("lost reply"):
                yield from self.fault(state, f"the lease on {name} lapses before its answer arrives", self.rules.expire, index)
        elif self.may("freeze"):
            yield from self.fault(state, f"the holder of {name} freezes, and its lease lapses", self.rules.expire, index)
        elif self.planted("a replay grants the full validity") and holders[0].giveback == s.GIVEBACK_OUTRUN:
            yield self.step(state, f"the lease on {name} lapses while its holder counts on more", self.rules.expire, index)


class Announcer(Actor):
    """Publishes owed ids, then marks them published; who dies between leaves the id to be claimed again."""

    def steps(self, state: State, now: Draft) -> Steps:
        held = {w.ticket for w in now.workers if w.phase == s.TICKET}
        seen = set()
        for number, owed in enumerate(now.out, 1):
            kind = (owed.priority, owed.copies, number in held)
            if owed.published or kind in seen:
                continue
            seen.add(kind)
            if owed.copies or number in held:
                label = f"the claim on {_ticket(now, number)} runs out: the announcer publishes it again and marks it"
                yield self.step(state, label, self._publish, number)
            else:
                yield from self._first(state, now, number)

    def _first(self, state: State, now: Draft, number: int) -> Steps:
        name = _ticket(now, number)
        yield self.step(state, f"the announcer publishes {name} and marks it", self._publish, number)
        if self.rules.strikable(now, now.out[number - 1].priority):
            yield self.step(state, f"the announcer strikes {name}, no longer needed", Draft.strike, number)
        if self.may("double announcement"):
            yield from self.fault(
                state, f"the announcer publishes {name} and dies before it marks it", self._publish_only, number
            )

    def _publish(self, d: Draft, number: int) -> None:
        self._publish_only(d, number)
        d.out[number - 1].published = 1

    def _publish_only(self, d: Draft, number: int) -> None:
        d.out[number - 1].copies += 1


def _ticket(now: Draft, number: int) -> str:
    return f"ticket {number} of class {now.out[number - 1].priority}"


class Operators(Actor):
    """They pause, resume, move and purge."""

    def steps(self, state: State, now: Draft, index: int) -> Steps:
        queue, name = now.queues[index], QUEUE_NAMES[index]
        if queue.paused:
            yield self.step(state, f"{name} is resumed", self.rules.pause, index, 0)
        elif self.may("pause"):
            yield from self.fault(state, f"{name} is paused", self.rules.pause, index, 1)
        if self.may("class change"):
            for priority in range(len(self.setting.ceilings)):
                if priority != queue.priority:
                    yield from self.fault(state, f"{name} moves to class {priority}", self.rules.change_class, index, priority)
        if self.may("purge") and queue.work:
            yield from self.fault(state, f"{name} is purged", self._purge, index)

    def _purge(self, d: Draft, index: int) -> None:
        d.queues[index].work = 0


class Installation(Actor):
    """The broker notices dead links; attention queues and the store may be lost."""

    def steps(self, state: State, now: Draft) -> Steps:
        for index, count in sorted(set(now.strays)):
            label = f"the broker takes back what a dead link held of {QUEUE_NAMES[index]}"
            yield self.step(state, label, self._requeue, index, count)
        if self.may("lost tickets"):
            for priority in range(len(self.setting.ceilings)):
                yield from self._tickets(state, now, priority)
        if self.may("lost store") and not now.closed:
            yield from self.fault(state, "the ledger's store is emptied", self._lose_store)
        if now.closed and not any(w.phase == s.OUTDATED for w in now.workers):
            yield self.step(state, "admission opens", self.rules.open_admission)

    def _requeue(self, d: Draft, index: int, count: int) -> None:
        d.strays.remove((index, count))
        d.queues[index].work += count

    def _tickets(self, state: State, now: Draft, priority: int) -> Steps:
        if now.stale[priority] or any(a.copies for a in now.out if a.priority == priority):
            yield from self.fault(state, f"the attention queue of class {priority} is lost", self._lose_tickets, priority)
        if self.rules.lost_tickets(now, priority) and not self.planted("no rule for lost tickets"):
            yield self.step(state, f"the tickets of class {priority} are found lost", self.rules.announce_again, priority)

    def _lose_tickets(self, d: Draft, priority: int) -> None:
        d.stale[priority] = 0
        for announcement in d.out:
            if announcement.priority == priority:
                announcement.copies = 0

    def _lose_store(self, d: Draft) -> None:
        self.rules.lose_store(d)
        for index, queue in enumerate(d.queues):
            if queue.gap == s.TOLD and d.messages(index):
                queue.gap = s.FLAGGED
