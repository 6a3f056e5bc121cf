"""The report: its keys, its arithmetic, its exit codes; and the lines shown meanwhile."""

from collections import Counter
from typing import Any

import pytest

from slicelease.cli.dev.greeting import summary
from slicelease.cli.dev.progress import ProgressMeter, as_line, as_rows
from slicelease.cli.dev.report import Report, percentile, wait_summary
from slicelease.control_plane.domain.outcomes import ClassStats, Stats


def report(**changes: Any) -> Report:
    values: dict[str, Any] = {
        "published": 10,
        "processed": 10,
        "remaining": 0,
        "dead_lettered": 0,
        "repeated": 1,
        "out_of_order": 0,
        "slices": 4,
        "grants": 5,
        "denials": {"NO_READY_QUEUE": 2, "CLASS_FULL": 1},
        "waits_ms": {"interactive": Counter({3: 1, 5: 3}), "bulk": Counter()},
        "jain_index": 0.99999,
        "duration_s": 1.23456,
    }
    return Report(**{**values, **changes})


def test_the_json_object_is_exactly_this() -> None:
    assert report().as_json() == {
        "published": 10,
        "processed": 10,
        "remaining": 0,
        "dead_lettered": 0,
        "lost": 0,
        "repeated": 1,
        "out_of_order": 0,
        "slices": 4,
        "grants": 5,
        "denials": {"CLASS_FULL": 1, "NO_READY_QUEUE": 2},
        "wait_ms": {
            "interactive": {"p50": 5, "p99": 5, "max": 5},
            "bulk": {"p50": None, "p99": None, "max": None},
        },
        "jain_index": 1.0,
        "duration_s": 1.235,
    }


@pytest.mark.parametrize(
    ("changes", "lost", "code"),
    [
        ({}, 0, 0),
        ({"processed": 7, "remaining": 3}, 0, 3),
        ({"processed": 7, "dead_lettered": 3}, 0, 0),
        ({"processed": 7}, 3, 1),
        ({"processed": 7, "remaining": 1}, 2, 1),
        ({"processed": 7, "remaining": 4}, -1, 1),
    ],
)
def test_what_is_lost_and_the_exit_code(changes: dict[str, int], lost: int, code: int) -> None:
    made = report(**changes)
    assert (made.lost, made.exit_code) == (lost, code)


def test_percentiles_are_nearest_rank() -> None:
    hundred = Counter(dict.fromkeys(range(1, 101), 1))
    assert (percentile(hundred, 50), percentile(hundred, 99), percentile(hundred, 100)) == (50, 99, 100)
    assert percentile(Counter({4: 1}), 50) == 4
    assert wait_summary(Counter({1: 98, 70: 2})) == {"p50": 1, "p99": 70, "max": 70}
    assert wait_summary(Counter()) == {"p50": None, "p99": None, "max": None}


def test_the_summary_has_a_line_for_each_key() -> None:
    lines = summary(report(denials={}).as_json()).splitlines()
    assert [line.split()[0] for line in lines] == list(report().as_json())
    assert "denials        none" in lines


def test_progress_shows_rates_since_the_last_moment() -> None:
    stats = Stats((ClassStats("bulk", 5, 2, 0, 0, 9), ClassStats("standard", 1, 0, 0, 0, 0)), 3, 10, 10, 0)
    meter, waits = ProgressMeter(), {"bulk": Counter({4: 2}), "standard": Counter[int]()}
    meter.take(2.0, 50, 20, 3, waits, stats)
    waits["bulk"][9] += 1
    snapshot = meter.take(4.0, 90, 80, 13, waits, stats)
    assert (snapshot.messages_per_s, snapshot.leases_per_s) == (30, 5)
    assert (snapshot.queues_with_work, snapshot.leases) == (11, 2)
    assert as_line(snapshot) == (
        "4 s: published 90, processed 80 (30/s), queues with work 11, leases 2 (5/s), waits p50/p99: bulk 9/9 ms"
    )
    assert ("wait standard p50/p99", "–") in as_rows(snapshot)
