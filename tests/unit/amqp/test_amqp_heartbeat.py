"""The pure rules of heartbeats and of the back-off."""

import itertools

import pytest

from slicelease.worker.amqp.heartbeat import lost_at, negotiate, send_due
from slicelease.worker.amqp.reconnect import Backoff


@pytest.mark.parametrize(("ours", "theirs", "agreed"), [(5, 60, 5), (60, 5, 5), (5, 0, 5), (0, 60, 0), (0, 0, 0)])
def test_negotiation(ours: int, theirs: int, agreed: int) -> None:
    assert negotiate(ours, theirs) == agreed


def test_times() -> None:
    assert send_due(4, 100.0) == 102.0
    assert lost_at(4, 100.0, 0.0) == 108.0
    assert lost_at(4, 100.0, 120.0) == 122.0  # after a stall of our own the socket is read first


def test_the_back_off_grows_to_its_cap_and_never_beyond() -> None:
    backoff = Backoff(first_s=0.5, factor=2, cap_s=10)
    ceilings = [backoff.ceiling_s(attempt) for attempt in (0, 1, 2, 3, 4, 5, 1000, 10**9)]
    assert ceilings == [0.5, 1, 2, 4, 8, 10, 10, 10]


def test_a_hundred_dials_spread_evenly_over_their_window() -> None:
    backoff = Backoff(first_s=1, factor=2, cap_s=15)
    delays = [backoff.delay_s(10, number / 100) for number in range(100)]
    assert min(delays) == 0.5
    assert max(delays) < 15
    gaps = [later - earlier for earlier, later in itertools.pairwise(delays)]
    assert max(gaps) == pytest.approx(min(gaps))


@pytest.mark.parametrize("wrong", [{"first_s": 0}, {"first_s": 20}, {"factor": 0.5}])
def test_a_back_off_that_shrinks_or_spins_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="back-off"):
        Backoff(**wrong)
