"""A random walk through the model with the specification beside it: each step as the command that it stands for.

May live here: the translation of steps, and the comparison. May not know: how either side decides. Where the model leaves open
which queue is granted, the specification chooses, and the model must have that choice.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from slicelease.control_plane.domain import commands as c
from slicelease.control_plane.domain.names import LeaseKey
from slicelease.control_plane.domain.outcomes import Denied, GivenBack, Granted, Outcome, Refused, Settled
from tests.model import state as s
from tests.model.attention_model import AttentionModel
from tests.model.explorer import Step
from tests.model.setting import QUEUE_NAMES, Setting
from tests.model.specification import Specification
from tests.model.state import Draft, State

_REASONS = {s.EMPTY: c.EndReason.EMPTY, s.FAILING: c.EndReason.ERROR, s.UNLINKED: c.EndReason.BROKER_LOST}


@dataclass(slots=True)
class Slot:
    """What a slot remembers besides the model."""

    n: int = 0
    asked: c.Acquire | c.Settle | None = None  # its last request
    lease: LeaseKey | None = None
    ticket: tuple[str, str] = ("", "")
    carried: int = 0  # how many replies have carried the lease
    cancelled: int = 0  # which of them a cancelled call would have brought


class Walk:
    """Both sides of one walk. `told` are the labels of the steps taken."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._model = AttentionModel(setting)
        self._state = self._model.initial()
        self._specification = Specification(setting)
        self._slots = [Slot() for _ in setting.serves]
        self.told: list[str] = []

    def advance(self, dice: random.Random) -> None:
        """Takes one step on both sides and compares."""
        steps = list(self._model.successors(self._state))
        wanted = dice.choice(steps)
        label = self._ask(wanted.label) or self._settle(wanted.label, want_next=dice.random() < 0.5) or self._other(wanted.label)
        self._state = self._labelled(steps, label).state
        self.told.append(label)
        self._specification.publish()
        self._compare()

    def _labelled(self, steps: list[Step[State]], label: str) -> Step[State]:
        found = [step for step in steps if step.label == label]
        assert found, f"the model has no step {label!r} after {self.told}"
        return found[0]

    # ---- where the specification chooses --------------------------------------------------------------------------------

    def _ask(self, label: str) -> str | None:
        asks = re.match(r"(worker (\d) asks and is )(granted|denied)", label)
        if asks is None:
            return None
        number = int(asks[2]) - 1
        slot = self._slots[number]
        slot.asked = c.Acquire(self._request(number), self._serves(number), *slot.ticket)
        slot.ticket = (slot.ticket[0], "spent")
        answer = self._specification.one(slot.asked)
        assert isinstance(answer, Granted | Denied), f"{answer} after {self.told}"
        return asks[1] + (f"granted {self._hold(slot, answer)}" if isinstance(answer, Granted) else "denied")

    def _settle(self, label: str, *, want_next: bool) -> str | None:
        settles = re.match(r"worker (\d) settles (\w)", label)
        if settles is None:
            return None
        number = int(settles[1]) - 1
        slot = self._slots[number]
        slot.asked = self._settlement(number, want_next=want_next)
        settled = self._specification.one(slot.asked)
        assert isinstance(settled, Settled), f"{settled} after {self.told}"
        return settles[0] + (f" and is granted {self._hold(slot, settled.next)}" if settled.next else "")

    def _settlement(self, number: int, *, want_next: bool) -> c.Settle:
        lease = self._slots[number].lease
        assert lease is not None
        reason = _REASONS.get(self._state[1][number][1], c.EndReason.MESSAGES)
        classes = self._serves(number)
        return c.Settle(self._request(number), lease, reason, c.Totals(), failed_id="m", want_next=want_next, classes=classes)

    def _hold(self, slot: Slot, granted: Granted) -> str:
        slot.lease, slot.carried = granted.lease, 1
        return granted.lease.tenant

    def _request(self, number: int) -> c.SlotRequest:
        self._slots[number].n += 1
        return c.SlotRequest("walk", number, self._slots[number].n, "d")

    def _serves(self, number: int) -> tuple[str, ...]:
        return tuple(f"c{priority}" for priority in self._setting.serves[number])

    # ---- where it does not ----------------------------------------------------------------------------------------------

    def _other(self, label: str) -> str:
        """Steps that no pattern names do not concern the ledger."""
        for pattern, action in PATTERNS.items():
            found = re.search(pattern, label)
            if found is not None:
                action(self, *found.groups())
                break
        return label

    def _pass_h(self, name: str) -> None:
        resting = self._state[0][QUEUE_NAMES.index(name)][1] == s.QUARANTINED
        self._specification.pass_h(name, resting=resting)

    def _take(self, number: str, ticket: str, priority: str) -> None:
        self._slots[int(number) - 1].ticket = (f"c{priority}", self._specification.ids[int(ticket) - 1])

    def _take_stale(self, number: str, priority: str) -> None:
        self._slots[int(number) - 1].ticket = (f"c{priority}", "spent")

    def _cancel(self, number: str) -> None:
        slot = self._slots[int(number) - 1]
        slot.cancelled = slot.carried

    def _again(self, number: str) -> None:
        slot = self._slots[int(number) - 1]
        again = self._repeat(slot)
        granted = again.next if isinstance(again, Settled) else again
        slot.carried += 1
        assert isinstance(granted, Granted)
        assert (granted.lease, granted.carried) == (slot.lease, slot.carried)

    def _over(self, number: str) -> None:
        again = self._repeat(self._slots[int(number) - 1])
        assert isinstance(again, Refused) or (isinstance(again, Settled) and again.next is None)

    def _repeat(self, slot: Slot) -> Outcome:
        assert slot.asked is not None
        return self._specification.one(slot.asked)

    def _give_back(self, name: str) -> None:
        (number,) = (n for n, w in enumerate(self._state[1]) if w[6] and QUEUE_NAMES[w[2]] == name)
        slot = self._slots[number]
        assert slot.lease is not None
        assert slot.asked is not None
        outrun = self._state[1][number][6] == s.GIVEBACK_OUTRUN
        given = self._specification.one(c.GiveBack("walk", number, slot.asked.request.n, slot.lease, slot.cancelled))
        assert given == GivenBack(not outrun)

    # ---- comparison -----------------------------------------------------------------------------------------------------

    def _compare(self) -> None:
        ours, theirs = list(self._modelled()), list(self._specification.state())
        assert ours == theirs, f"the model has {ours}, the specification {theirs}, after {self.told}"

    def _modelled(self) -> Iterator[object]:
        d = Draft.of(self._state)
        for queue in d.queues:
            lease_class = f"c{queue.lease_class}" if queue.state == s.LEASED else ""
            state = s.WAITING if queue.state == s.QUARANTINED else queue.state
            yield state, bool(queue.paused), bool(queue.dirty), f"c{queue.priority}", lease_class
        yield [f"c{a.priority}" for a in d.out]


def _on(name: str) -> Callable[..., None]:
    """The event of that name of the specification."""
    return lambda walk, *groups: getattr(walk._specification, name)(*groups)


PATTERNS: dict[str, Callable[..., None]] = {
    r"into (\w) and touches it$": _on("touch"),
    r"^the publisher touches (\w)$": _on("touch"),
    r"^the reconciler finds work in (\w) ": _on("touch"),
    r"^attention is raised for (\w)$": _on("touch"),
    r"^worker (\d) takes ticket (\d+) of class (\d)$": Walk._take,
    r"^worker (\d) takes a stale ticket of class (\d)$": Walk._take_stale,
    r"^the lease on (\w) lapses": _on("lapse"),
    r"^the holder of (\w) freezes, and its lease lapses$": _on("lapse"),
    r"^the back-off of (\w) is over$": _on("due"),
    r"^H has passed for (\w)$": Walk._pass_h,
    r"^(\w) is paused$": _on("pause"),
    r"^(\w) is resumed$": _on("resume"),
    r"^(\w) moves to class (\d)$": _on("move"),
    r"^the call of worker (\d) is cancelled": Walk._cancel,
    r"^worker (\d) asks again with the same id and is told \w again$": Walk._again,
    r"^worker (\d) learns that its lease was over": Walk._over,
    r"^the give-back of (\w) reaches the ledger$": Walk._give_back,
    r"^the tickets of class (\d) are found lost$": _on("look"),
}
"""Labels that concern the ledger, with what they stand for."""
