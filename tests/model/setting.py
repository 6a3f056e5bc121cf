"""What is explored: how much there is of everything, what may happen, and how a step is made of it.

May live here: bounds and the making of steps. May not know: who takes which step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.model.explorer import Step
from tests.model.ledger_rules import LedgerRules
from tests.model.state import HOLDS_LATE, Draft, State

QUEUE_NAMES = "ABC"

EVENTS = {
    "crash": "a worker dies at any point; what it held comes back at once or late",
    "freeze": "a worker freezes past its lease and wakes; its connection may be cut meanwhile",
    "lost reply": "the answer to an acquire is lost, asked for again, given back, or comes after its lease",
    "lost link": "a slice loses its link to the broker and settles with that reason",
    "error": "a handler fails: settled WAITING",
    "dead publisher": "a publisher dies between publish and touch",
    "touch": "attention is raised without new work, at any time",
    "double announcement": "the announcer dies between publishing a ticket and marking it published",
    "pause": "queues are paused and resumed in any state",
    "class change": "queues change class in any state",
    "purge": "an operator purges a queue",
    "lost tickets": "an attention queue is lost with its tickets",
    "lost store": "the ledger's store is emptied",
}

PROMPT = {
    "publisher": "publish and touch",
    "announcer": "owe, publish and mark",
    "answer": "the ledger's step and the arrival of its answer",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One exploration. `variant` plants one fault."""

    queues: tuple[int, ...]
    """Class of each queue."""
    serves: tuple[tuple[int, ...], ...]
    """Classes that each worker slot serves."""
    happens: frozenset[str] = frozenset()
    """Of EVENTS."""
    ceilings: tuple[int, ...] = (0,)
    """Most leases of each class; 0: any number."""
    prompt: frozenset[str] = frozenset()
    """Who takes two steps as one, to keep the exploration small; of PROMPT."""
    messages: int = 1
    """Most messages of a queue at one time."""
    in_hand: int = 1
    """Most messages that a slice holds unacked."""
    ordered: bool = False
    """The queues promise order."""
    stale: int = 2
    """A fault that would leave more stale tickets than this is left out."""
    strays: int = 1
    """Dead links that hold messages at one time; a fault that would make more is left out."""
    faults: int = 0
    """Most faults in one run; 0: any number, and none is counted."""
    variant: str = ""

    def __post_init__(self) -> None:
        unknown = (self.happens - EVENTS.keys()) | (self.prompt - PROMPT.keys())
        if unknown:
            raise ValueError(f"unknown: {sorted(unknown)}")


@dataclass(frozen=True, slots=True)
class Actor:
    """Who takes steps. A subclass yields them from a state and a draft of it that it only reads."""

    setting: Setting
    rules: LedgerRules

    def may(self, event: str) -> bool:
        """Whether that happens in this exploration."""
        return event in self.setting.happens

    def planted(self, variant: str) -> bool:
        """Whether that fault is planted."""
        return self.setting.variant == variant

    def step(self, state: State, label: str, change: Callable[..., object], *arguments: object) -> Step[State]:
        """A step of the ordinary course."""
        draft = Draft.of(state)
        change(draft, *arguments)
        return Step(label, True, draft.frozen())

    def fault(self, state: State, label: str, change: Callable[..., object], *arguments: object) -> Iterator[Step[State]]:
        """A step that nothing may depend on: a fault, an operator, new work. None beyond the bounds."""
        draft = Draft.of(state)
        change(draft, *arguments)
        if self.setting.faults:
            draft.faults += 1
        after = draft.frozen()
        returning = sum(1 for w in draft.workers if w.phase in HOLDS_LATE and w.ticket_class >= 0)
        within = sum(draft.stale) + returning <= self.setting.stale and len(draft.strays) <= self.setting.strays
        if within and draft.faults <= self.setting.faults:
            yield Step(label, False, after)
