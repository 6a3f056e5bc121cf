"""Steps of the workers' slots: ticket, ask, slice, settle, and the ways in which they fail.

May live here: what a slot may do when, and what its death leaves behind. May not know: the ledger's decisions.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model import state as s
from tests.model.explorer import Step
from tests.model.setting import QUEUE_NAMES, Actor
from tests.model.state import Draft, State

Steps = Iterator[Step[State]]


class Slots(Actor):
    """A slot holds at most one ticket; after its ask the ticket's id is spent, and only its back-pressure remains."""

    def steps(self, state: State, now: Draft, number: int) -> Steps:
        phase, who = now.workers[number].phase, f"worker {number + 1}"
        if phase == s.FREE:
            yield from self._take(state, now, number, who)
        elif phase == s.TICKET:
            yield from self._ask(state, now, number, who)
        elif phase == s.GRANTED:
            yield from self._await(state, now, number, who)
        elif phase == s.ANSWERED:
            yield self.step(state, f"{who} gets its answer and acks its ticket", self._free, number)
        elif phase == s.OVER:
            yield from self._find_over(state, now, number, who)
        if self.may("crash") and phase not in (s.FREE, s.LOST):
            yield from self.fault(state, f"{who} dies", self._die, number)

    def _free(self, d: Draft, number: int) -> None:
        worker = d.workers[number]
        d.strike(worker.ticket)  # spent by the ask, but in a variant
        worker.phase, worker.queue, worker.hand = s.FREE, -1, 0
        worker.ticket_class, worker.ticket, worker.giveback = -1, s.STALE, s.NO_GIVEBACK

    # ---- ticket and ask -------------------------------------------------------------------------------------------------

    def _take(self, state: State, now: Draft, number: int, who: str) -> Steps:
        serves = self.setting.serves[now.workers[number].serves]
        for priority in serves:
            if now.stale[priority]:
                yield self.step(state, f"{who} takes a stale ticket of class {priority}", self._hold, number, priority, s.STALE)
        seen = set()
        for ticket, a in enumerate(now.out, 1):
            kind = (a.priority, a.published, a.copies)
            if a.copies and a.priority in serves and kind not in seen:
                seen.add(kind)
                yield self.step(state, f"{who} takes ticket {ticket} of class {a.priority}", self._hold, number, a.priority, ticket)

    def _hold(self, d: Draft, number: int, priority: int, ticket: int) -> None:
        worker = d.workers[number]
        worker.phase, worker.ticket_class, worker.ticket = s.TICKET, priority, ticket
        if ticket == s.STALE:
            d.stale[priority] -= 1
        else:
            d.out[ticket - 1].copies -= 1

    def _ask(self, state: State, now: Draft, number: int, who: str) -> Steps:
        choices = self.rules.choices(now, self.setting.serves[now.workers[number].serves])
        for choice in choices:
            yield self.step(state, f"{who} asks and is granted {QUEUE_NAMES[choice]}", self._answer_ask, number, choice)
        if not choices and self.planted("a denial is acked before it is recorded"):
            yield self.step(state, f"{who} asks and is denied", self._answer, number, -1)
        elif not choices:
            yield self.step(state, f"{who} asks and is denied", self._answer_ask, number, -1)

    def _answer_ask(self, d: Draft, number: int, choice: int) -> None:
        worker = d.workers[number]
        if self.setting.faults and worker.ticket == s.STALE:
            d.tokenless = min(d.tokenless + 1, self.setting.faults + 1)
        self.rules.ask_with(d, worker)
        self._answer(d, number, choice)
        self.rules.top_up(d, "ask")

    def _answer(self, d: Draft, number: int, choice: int) -> None:
        worker = d.workers[number]
        prompt = "answer" in self.setting.prompt
        if choice >= 0:
            self.rules.grant(d, worker, choice)
            worker.phase = s.SLICE if prompt else s.GRANTED
        elif prompt:
            self._free(d, number)
        else:
            worker.phase, worker.queue, worker.hand, worker.giveback = s.ANSWERED, -1, 0, s.NO_GIVEBACK

    # ---- the answer to a grant ------------------------------------------------------------------------------------------

    def _await(self, state: State, now: Draft, number: int, who: str) -> Steps:
        worker = now.workers[number]
        name = QUEUE_NAMES[worker.queue]
        if worker.giveback != s.GIVEBACK_DUE:
            yield self.step(state, f"{who} receives the lease on {name}", self._enter, number, s.SLICE)
        if worker.giveback == s.GIVEBACK_DUE:
            label = f"{who} asks again with the same id and is told {name} again"
            yield self.step(state, label, self._set_giveback, number, s.GIVEBACK_OUTRUN)
        if worker.giveback == s.NO_GIVEBACK and self.may("lost reply"):
            label = f"the call of {who} is cancelled before its answer left: a give-back is due"
            yield from self.fault(state, label, self._set_giveback, number, s.GIVEBACK_DUE)
        yield from self.give_back(state, now, number)

    def _enter(self, d: Draft, number: int, phase: int) -> None:
        d.workers[number].phase = phase

    def _set_giveback(self, d: Draft, number: int, to: int) -> None:
        d.workers[number].giveback = to

    def give_back(self, state: State, now: Draft, number: int) -> Steps:
        """The give-back that a control plane owes reaches the ledger."""
        if now.workers[number].giveback != s.NO_GIVEBACK:
            name = QUEUE_NAMES[now.workers[number].queue]
            yield self.step(state, f"the give-back of {name} reaches the ledger", self._take_giveback, number)

    def _take_giveback(self, d: Draft, number: int) -> None:
        worker = d.workers[number]
        if not self.rules.give_back(d, worker):
            return
        if worker.phase == s.GRANTED:  # the stored answer is deleted, so its retry is a new ask
            worker.phase, worker.queue = s.TICKET, -1
        else:
            worker.phase = s.OUTDATED

    def _find_over(self, state: State, now: Draft, number: int, who: str) -> Steps:
        worker = now.workers[number]
        if worker.queue >= 0:  # in a variant
            label = f"{who} asks again with the same id and is granted its ended lease on {QUEUE_NAMES[worker.queue]}"
            yield self.step(state, label, self._enter, number, s.OUTDATED)
        yield self.step(state, f"{who} learns that its lease was over before it began", self._ask_anew, number)

    def _ask_anew(self, d: Draft, number: int) -> None:
        d.workers[number].phase, d.workers[number].queue = s.TICKET, -1

    # ---- death ----------------------------------------------------------------------------------------------------------

    def _die(self, d: Draft, number: int) -> None:
        worker = d.workers[number]
        self.cut(d, number)
        acked_already = self.planted("a ticket is acked before its answer") and worker.phase == s.TICKET
        if not acked_already and worker.ticket == s.STALE:
            d.stale[worker.ticket_class] += 1
        elif not acked_already:
            d.out[worker.ticket - 1].copies += 1
        worker.ticket = s.STALE
        self._free(d, number)

    def cut(self, d: Draft, number: int) -> None:
        """The link is gone; the broker has not noticed and still holds what was in hand."""
        worker = d.workers[number]
        if worker.hand:
            d.strays.append((worker.queue, worker.hand))
        worker.hand = 0


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
            yield self.step(state, f"{who} sees {name} empty", self._enter, number, s.EMPTY)
        yield self.step(state, f"{who} ends its slice of {name} with a backlog", self._enter, number, s.ENDING)
        if worker.hand and self.may("error"):
            yield from self.fault(state, f"a handler of {name} fails at {who}", self._enter, number, s.FAILING)
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
        for choice in self.rules.choices(after, self.setting.serves[worker.serves]):
            label = f"{who} settles {name} and is granted {QUEUE_NAMES[choice]}"
            yield self.step(state, label, self._answer_settle, number, choice)

    def _answer_settle(self, d: Draft, number: int, choice: int) -> None:
        worker = d.workers[number]
        index = worker.queue
        self.cut(d, number)  # nothing is in hand, but where the settle overtakes what is on its way back
        self.rules.settle(d, index, worker.phase)
        self._answer(d, number, choice)
        self.rules.top_up(d, "settle")

    # ---- without a lease ------------------------------------------------------------------------------------------------

    def _outdated(self, state: State, now: Draft, number: int, who: str) -> Steps:
        worker = now.workers[number]
        if worker.hand:
            label = f"{who} acks a message of {QUEUE_NAMES[worker.queue]} under a lease that the ledger does not know"
            yield self.step(state, label, self._ack, number)
        yield self.step(state, f"{who} stops by its own clock", self._enter, number, s.LOST)

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
        self._free(d, number)
