"""Jain's index and the windows it is taken over."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicelease.cli.dev.fairness import ClassWindow, index_of, jain_index, relative


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=30), st.floats(0.01, 100))
def test_the_index_lies_between_one_nth_and_one_and_knows_no_unit(shares: list[int], unit: float) -> None:
    index = jain_index(shares)
    assert 1 / len(shares) - 1e-9 <= index <= 1 + 1e-9
    assert jain_index(share * unit for share in shares) == pytest.approx(index)


def test_known_values() -> None:
    assert jain_index([5, 5, 5]) == 1
    assert jain_index([1, 0, 0, 0]) == 0.25
    assert jain_index([3, 1]) == 0.8
    assert jain_index([]) == jain_index([0, 0]) == jain_index([7]) == 1


def test_shares_are_taken_relative_to_their_mean() -> None:
    assert relative([2, 4, 6]) == [0.5, 1, 1.5]
    assert relative([]) == relative([0, 0]) == []


def test_a_window_closes_at_a_quarter_and_counts_what_was_given_inside_it() -> None:
    window = ClassWindow(100, {"a": 10, "b": 20})
    assert not window.may_close(26)
    assert window.may_close(25)
    window.close(["a", "b", "c"], {"a": 30, "b": 40, "c": 20, "gone": 999})
    assert window.shares == [1, 1, 1]
    assert not window.may_close(0), "it closes once"


def test_classes_are_compared_within_themselves_only() -> None:
    fast, slow, idle = ClassWindow(10, {}), ClassWindow(10, {}), ClassWindow(10, {})
    fast.close(["a", "b"], {"a": 1_000, "b": 1_000})
    slow.close(["c", "d"], {"c": 1, "d": 1})
    idle.close(["e"], {})
    assert index_of([fast, slow, idle, ClassWindow(10, {})]) == 1
    slow.shares = [1.5, 0.5]
    assert index_of([fast, slow]) == pytest.approx(16 / (4 * 4.5))
