"""Steps of the workers' slots: ticket, ask, answer, give-back, death.

May live here: what a slot may do when, and what its death leaves behind. May not know: the ledger's decisions; slices.
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
            yield self.step(state, f"{who} gets its answer and acks its ticket", self.free, number)
        elif phase == s.OVER:
            yield from self._find_over(state, now, number, who)
        if self.may("crash") and phase not in (s.FREE, s.LOST):
            yield from self.fault(state, f"{who} dies", self._die, number)

    def free(self, d: Draft, number: int) -> None:
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
                yield self.step(
                    state, f"{who} takes ticket {ticket} of class {a.priority}", self._hold, number, a.priority, ticket
                )

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
            yield self.step(state, f"{who} asks and is denied", self.answer, number, -1)
        elif not choices:
            yield self.step(state, f"{who} asks and is denied", self._answer_ask, number, -1)

    def _answer_ask(self, d: Draft, number: int, choice: int) -> None:
        worker = d.workers[number]
        if self.setting.faults and worker.ticket == s.STALE:
            d.tokenless = min(d.tokenless + 1, self.setting.faults + 1)
        self.rules.ask_with(d, worker)
        self.answer(d, number, choice)
        self.rules.top_up(d, "ask")

    def answer(self, d: Draft, number: int, choice: int) -> None:
        worker = d.workers[number]
        prompt = "answer" in self.setting.prompt
        if choice >= 0:
            self.rules.grant(d, worker, choice)
            worker.phase = s.SLICE if prompt else s.GRANTED
        elif prompt:
            self.free(d, number)
        else:
            worker.phase, worker.queue, worker.hand, worker.giveback = s.ANSWERED, -1, 0, s.NO_GIVEBACK

    # ---- the answer to a grant ------------------------------------------------------------------------------------------

    def _await(self, state: State, now: Draft, number: int, who: str) -> Steps:
        worker = now.workers[number]
        name = QUEUE_NAMES[worker.queue]
        if worker.giveback != s.GIVEBACK_DUE:
            yield self.step(state, f"{who} receives the lease on {name}", self.enter, number, s.SLICE)
        if worker.giveback == s.GIVEBACK_DUE:
            label = f"{who} asks again with the same id and is told {name} again"
            yield self.step(state, label, self._set_giveback, number, s.GIVEBACK_OUTRUN)
        if worker.giveback == s.NO_GIVEBACK and self.may("lost reply"):
            label = f"the call of {who} is cancelled before its answer left: a give-back is due"
            yield from self.fault(state, label, self._set_giveback, number, s.GIVEBACK_DUE)
        yield from self.give_back(state, now, number)

    def enter(self, d: Draft, number: int, phase: int) -> None:
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
            yield self.step(state, label, self.enter, number, s.OUTDATED)
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
        self.free(d, number)

    def cut(self, d: Draft, number: int) -> None:
        """The link is gone; the broker has not noticed and still holds what was in hand."""
        worker = d.workers[number]
        if worker.hand:
            d.strays.append((worker.queue, worker.hand))
        worker.hand = 0
