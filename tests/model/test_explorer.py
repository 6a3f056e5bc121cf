"""The explorer itself: it finds what is wrong with small models whose state spaces can be counted by hand."""

from collections.abc import Iterator

import pytest

from tests.model.explorer import StateLimitError, Step, explore

Pair = tuple[int, int]


class Counters:
    """Two counters up to `top`, each raised by one; equal up to their order. Going down is no progress."""

    def __init__(self, top: int, *, alike: bool = True, down: bool = False) -> None:
        self.top, self.alike, self.down = top, alike, down

    def initial(self) -> Pair:
        return (0, 0)

    def successors(self, state: Pair) -> Iterator[Step[Pair]]:
        left, right = state
        if left < self.top:
            yield Step("left", True, (left + 1, right))
        if right < self.top:
            yield Step("right", True, (left, right + 1))
        if self.down and left:
            yield Step("down", False, (left - 1, right))

    def canonical(self, state: Pair) -> Pair:
        return (min(state), max(state)) if self.alike else state

    def describe(self, state: Pair) -> str:
        return f"{state[0]} and {state[1]}"


def test_every_state_is_seen_once() -> None:
    assert explore(Counters(4, alike=False), []).states == 25


def test_states_alike_are_seen_as_one() -> None:
    assert explore(Counters(4), []).states == 15


def test_an_invariant_is_broken_by_a_shortest_trace() -> None:
    found = explore(Counters(4), [("small", lambda state: sum(state) < 3)]).counterexample
    assert found is not None
    assert found.broken == "small"
    assert len(found.steps) == 3


def test_a_trace_keeps_the_names_that_its_steps_use() -> None:
    found = explore(Counters(4), [("apart", lambda state: abs(state[0] - state[1]) < 3)]).counterexample
    assert found is not None
    assert {label for label, _ in found.steps} in ({"left"}, {"right"})
    assert str(found).splitlines()[0] == "broken: apart"
    assert found.steps[-1][1] in ("3 and 0", "0 and 3")


def test_the_initial_state_is_checked() -> None:
    found = explore(Counters(1), [("never", lambda state: False)]).counterexample
    assert found is not None
    assert found.steps == ()


def test_a_goal_in_reach_of_all_is_no_counterexample() -> None:
    assert explore(Counters(3), [], ("full", lambda state: state == (3, 3))).counterexample is None


def test_a_state_that_cannot_reach_the_goal_is_found_with_its_trace() -> None:
    found = explore(Counters(3, alike=False), [], ("uneven", lambda state: state == (1, 2))).counterexample
    assert found is not None
    assert found.broken == "uneven"
    assert found.steps[-1][1] in ("2 and 0", "0 and 3")
    assert len(found.steps) == 2


def test_the_way_to_the_goal_takes_progress_steps_only() -> None:
    model = Counters(3, alike=False, down=True)
    assert explore(model, [], ("start", lambda state: state == (0, 0))).counterexample is not None


def test_a_state_limit_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(StateLimitError, match="more than 10 states: raise the limit"):
        explore(Counters(9), [], limit=10)
