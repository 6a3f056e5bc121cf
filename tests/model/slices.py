"""Steps of a slice: fetch, ack, get-empty, end, settle, and what is left of it without a lease.

May live here: what the holder of a lease may do when. May not know: the ledger's decisions; tickets (slots.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model import state as s
from tests.model.explorer import Step
from tests.model.setting import QUEUE_NAMES
from tests.model.slots import Slots
from tests.model.state import Draft, State

Steps = Iterator[Step[State]]


class Slices(Slots):
    """A slice fetches, handles and acks, ends, and settles when the broker has taken back what it did not handle."""

    def steps(self, state: State, now: Draft, number: int) -> Steps:
        worker, who = now.workers[number], f"worker {number + 1}"
        name = QUEUE_NAMES[worker.queue]
        if worker.phase == s.SLICE:
            yield from self._run(state, now, number, who)
        elif worker.phase == s.OUTDATED:
            yield from self._outdated(state, now, number, who)
        elif worker.phase == s.LOST:
            yield from self._lost(state, now, number, who)
        else:
            if worker.hand:
                yield self.step(state, f"the broker takes back what {who} held of {name}", self._return_hand, number)
            if not worker.hand or self.planted("settle without the barrier"):
                yield from self._settle(state, now, number, who)

    def _run(self, state: State, now: Draft, number: int, who: str) -> Steps:
        worker = now.workers[number]
        work, name = now.queues[worker.queue].work, QUEUE_NAMES[worker.queue]
        if work and worker.hand < self.setting.in_hand:
            yield self.step(state, f"{who} fetches a message of {name}", self._fetch, number)
        if worker.hand:
            yield self.step(state, f"{who} acks a message of {name}", self._ack, number)
        elif not work:
            yield self.step(state, f"{who} sees {name} empty", self.enter, number, s.EMPTY)
        yield self.step(state, f"{who} ends its slice of {name} with a backlog", self.enter, number, s.ENDING)
        if worker.hand and self.may("error"):
            yield from self.fault(state, f"a handler of {name} fails at {who}", self.enter, number, s.FAILING)
        if self.may("lost link"):
            yield from self.fault(state, f"{who} loses its link to the broker", self._unlink, number)
        yield from self.give_back(state, now, number)

    def _fetch(self, d: Draft, number: int) -> None:
        worker = d.workers[number]
        d.queues[worker.queue].work -= 1
        worker.hand += 1

    def _ack(self, d: Draft, number: int) -> None:
        d.workers[number].hand -= 1

    def _unlink(self, d: Draft, number: int) -> None:
        self.cut(d, number)
        d.workers[number].phase = s.UNLINKED

    def _return_hand(self, d: Draft, number: int) -> None:
        worker = d.workers[number]
        d.queues[worker.queue].work += worker.hand
        worker.hand = 0

    # ---- settle ---------------------------------------------------------------------------------------------------------

    def _settle(self, state: State, now: Draft, number: int, who: str) -> Steps:
        worker = now.workers[number]
        name = QUEUE_NAMES[worker.queue]
        yield self.step(state, f"{who} settles {name}", self._answer_settle, number, -1)
        after = Draft.of(state)
        self.rules.settle(after, worker.queue, worker.phase)
        for choice in self.rules.next_choices(after, worker.queue, self.setting.serves[worker.serves]):
            label = f"{who} settles {name} and is granted {QUEUE_NAMES[choice]}"
            yield self.step(state, label, self._answer_settle, number, choice)

    def _answer_settle(self, d: Draft, number: int, choice: int) -> None:
        worker = d.workers[number]
        index = worker.queue
        self.cut(d, number)  # nothing is in hand, but where the settle overtakes what is on its way back
        self.rules.settle(d, index, worker.phase, chained=choice >= 0)
        self.answer(d, number, choice)
        self.rules.top_up(d, "settle")

    # ---- without a lease ------------------------------------------------------------------------------------------------

    def _outdated(self, state: State, now: Draft, number: int, who: str) -> Steps:
        worker = now.workers[number]
        if worker.hand:
            label = f"{who} acks a message of {QUEUE_NAMES[worker.queue]} under a lease that the ledger does not know"
            yield self.step(state, label, self._ack, number)
        yield self.step(state, f"{who} stops by its own clock", self.enter, number, s.LOST)

    def _lost(self, state: State, now: Draft, number: int, who: str) -> Steps:
        worker = now.workers[number]
        name = QUEUE_NAMES[worker.queue]
        yield self.step(state, f"{who} sees its lease on {name} over, closes its channel, returns its ticket", self._wake, number)
        if worker.hand:
            label = f"the broker cuts the frozen connection of {who} and takes back what it held of {name}"
            yield self.step(state, label, self._return_hand, number)
        if self.planted("a late settle is accepted"):
            yield from self.fault(state, f"{who} settles its old lease on {name}", self.rules.settle_late, worker.queue)

    def _wake(self, d: Draft, number: int) -> None:
        self._return_hand(d, number)
        d.stale[d.workers[number].ticket_class] += 1
        self.free(d, number)
