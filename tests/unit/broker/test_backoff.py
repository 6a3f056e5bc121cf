"""Delays between attempts: never none, growing, capped, spread (A22)."""

from hypothesis import given
from hypothesis import strategies as st

from slicelease.control_plane.broker.backoff import Backoff

FRACTIONS = st.floats(0, 1, exclude_max=True)


@given(st.lists(FRACTIONS, min_size=1, max_size=60))
def test_each_delay_lies_in_the_upper_half_of_its_ceiling(dice: list[float]) -> None:
    backoff = Backoff(0.25, 8.0, iter(dice).__next__)
    for attempt in range(len(dice)):
        ceiling_s = min(8.0, 0.25 * 2**attempt)
        assert ceiling_s / 2 <= backoff.next_s() <= ceiling_s


def test_it_spreads_those_who_were_cut_in_one_instant() -> None:
    first_s = [Backoff(0.25, 8.0, lambda n=n: n / 100).next_s() for n in range(100)]  # type: ignore[misc]  # a bound default
    assert len(set(first_s)) == 100
    assert max(first_s) - min(first_s) > 0.12


def test_after_a_lasting_success_it_begins_anew() -> None:
    backoff = Backoff(0.25, 8.0, lambda: 0.5)
    delays = [backoff.next_s() for _ in range(10)]
    backoff.reset()
    assert backoff.next_s() == delays[0] < delays[-1]
