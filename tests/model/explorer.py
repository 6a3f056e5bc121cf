"""A small explicit-state checker: every reachable state, breadth first, so that the first fault found has a shortest trace.

May live here: exploration, invariants, backward reachability, traces. May not know: what is modelled.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

S = TypeVar("S", bound=Hashable)
Named = tuple[str, Callable[[S], bool]]


class Step(NamedTuple, Generic[S]):
    """One atomic step. `progress`: it needs no fault, no operator and no new work, so the way to the goal may use it."""

    label: str
    progress: bool
    state: S


class Model(Protocol[S]):
    """What can be explored."""

    def initial(self) -> S:
        """The state that everything starts from."""
        ...

    def successors(self, state: S) -> Iterable[Step[S]]:
        """Every step that can be taken now."""
        ...

    def canonical(self, state: S) -> S:
        """One representative of all states that differ in names only; the identity is always right."""
        ...

    def describe(self, state: S) -> str:
        """The state in words, on one line."""
        ...


class StateLimitError(Exception):
    """There are more states than the caller allowed; nothing is proved."""


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A shortest way from the initial state to a state that breaks `broken`, as (step, state after it) in words."""

    broken: str
    steps: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        lines = [f"{n:3}. {label}\n       {state}" for n, (label, state) in enumerate(self.steps, 1)]
        return "\n".join([f"broken: {self.broken}", *lines])


@dataclass(frozen=True, slots=True)
class Report:
    """What an exploration found. With a counterexample, `states` is how many had been seen by then."""

    states: int
    steps: int
    seconds: float
    counterexample: Counterexample | None


class Explorer(Generic[S]):
    """One exploration of one model. `limit` bounds the number of states; more raise StateLimitError."""

    def __init__(self, model: Model[S], invariants: Sequence[Named[S]], goal: Named[S] | None, limit: int) -> None:
        self._model = model
        self._invariants = invariants
        self._goal = goal
        self._limit = limit
        self._numbers: dict[S, int] = {}
        self.states: list[S] = []
        self._parents = array("q")
        self._sources = array("q")
        self._targets = array("q")
        self._steps = 0

    def run(self) -> Report:
        """Explores everything, or until an invariant breaks; then asks whether every state can still reach the goal."""
        started = time.perf_counter()
        found = self._explore() or self._forgotten()
        return Report(len(self.states), self._steps, time.perf_counter() - started, found)

    def _explore(self) -> Counterexample | None:
        broken = self._add(self._model.canonical(self._model.initial()), -1)
        number = 0
        while broken is None and number < len(self.states):
            broken = self._expand(number)
            number += 1
        return broken

    def _expand(self, number: int) -> Counterexample | None:
        numbers, canonical = self._numbers, self._model.canonical
        for step in self._model.successors(self.states[number]):
            self._steps += 1
            known = numbers.get(step.state)
            if known is None:
                state = canonical(step.state)
                known = numbers.get(state)
                if known is None:
                    known = len(self.states)
                    broken = self._add(state, number)
                    if broken is not None:
                        return broken
            if step.progress and known != number:
                self._sources.append(number)
                self._targets.append(known)
        return None

    def _add(self, state: S, parent: int) -> Counterexample | None:
        if len(self.states) >= self._limit:
            raise StateLimitError(f"more than {self._limit:,} states: raise the limit or make the configuration smaller")
        self._numbers[state] = len(self.states)
        self.states.append(state)
        self._parents.append(parent)
        for name, holds in self._invariants:
            if not holds(state):
                return self._trace(name, len(self.states) - 1)
        return None

    def _forgotten(self) -> Counterexample | None:
        """The first state, in breadth-first order, from which no way of progress steps leads to the goal."""
        if self._goal is None or len(self.states) == 0:
            return None
        name, holds = self._goal
        reached = bytearray(len(self.states))
        pending = [number for number, state in enumerate(self.states) if holds(state)]
        for number in pending:
            reached[number] = 1
        self._walk_back(reached, pending)
        lost = reached.find(0)
        return None if lost < 0 else self._trace(name, lost)

    def _walk_back(self, reached: bytearray, pending: list[int]) -> None:
        first, following = self._incoming()
        while pending:
            edge = first[pending.pop()]
            while edge >= 0:
                source = self._sources[edge]
                if not reached[source]:
                    reached[source] = 1
                    pending.append(source)
                edge = following[edge]

    def _incoming(self) -> tuple[array[int], array[int]]:
        """Chains of the progress steps into each state: the first one, and after each the next one; -1 ends a chain."""
        first = array("q", [-1]) * len(self.states)
        following = array("q", [-1]) * len(self._targets)
        for edge, target in enumerate(self._targets):
            following[edge] = first[target]
            first[target] = edge
        return first, following

    def _trace(self, broken: str, number: int) -> Counterexample:
        """Retraced without renaming, so that one queue keeps one name all along."""
        path = []
        while number > 0:
            path.append(self.states[number])
            number = self._parents[number]
        model, state, told = self._model, self._model.initial(), []
        for wanted in reversed(path):
            step = next(step for step in model.successors(state) if model.canonical(step.state) == wanted)
            state = step.state
            told.append((step.label, model.describe(state)))
        return Counterexample(broken, tuple(told))


def reachable(model: Model[S], *, limit: int = 500_000) -> list[S]:
    """Every reachable state, in breadth-first order, in canonical form."""
    explorer = Explorer(model, [], None, limit)
    explorer.run()
    return explorer.states


def explore(model: Model[S], invariants: Sequence[Named[S]], goal: Named[S] | None = None, *, limit: int = 500_000) -> Report:
    """Explores the model: `invariants` must hold in every state, and every state must be able to reach `goal`."""
    return Explorer(model, invariants, goal, limit).run()
