"""What a run of the demo came to: the JSON object, and the exit code.

May live here: sums and percentiles. May not know: how the numbers were come by.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

EXIT_DONE = 0
EXIT_LOST = 1
EXIT_TIME_UP = 3


@dataclass(frozen=True, slots=True)
class Report:
    """Numbers of one run. Waits are milliseconds by class; each with how often it was seen."""

    published: int
    processed: int
    remaining: int
    dead_lettered: int
    repeated: int
    out_of_order: int
    slices: int
    grants: int
    denials: Mapping[str, int]
    waits_ms: Mapping[str, Counter[int]]
    jain_index: float
    duration_s: float

    @property
    def lost(self) -> int:
        """Published, and neither processed nor dead-lettered nor still there."""
        return self.published - self.processed - self.remaining - self.dead_lettered

    @property
    def exit_code(self) -> int:
        """0 when nothing is lost and nothing remains, 1 when something is lost, 3 when something remains."""
        if self.lost:
            return EXIT_LOST
        return EXIT_TIME_UP if self.remaining else EXIT_DONE

    def as_json(self) -> dict[str, object]:
        """The JSON object."""
        return {
            "published": self.published,
            "processed": self.processed,
            "remaining": self.remaining,
            "dead_lettered": self.dead_lettered,
            "lost": self.lost,
            "repeated": self.repeated,
            "out_of_order": self.out_of_order,
            "slices": self.slices,
            "grants": self.grants,
            "denials": dict(sorted(self.denials.items())),
            "wait_ms": {class_id: wait_summary(waits) for class_id, waits in self.waits_ms.items()},
            "jain_index": round(self.jain_index, 4),
            "duration_s": round(self.duration_s, 3),
        }


def wait_summary(waits_ms: Counter[int]) -> dict[str, int | None]:
    """Median, 99th percentile and longest; None where there was no grant."""
    return {
        "p50": percentile(waits_ms, 50),
        "p99": percentile(waits_ms, 99),
        "max": max(waits_ms, default=None),
    }


def percentile(values: Counter[int], percent: int) -> int | None:
    """The smallest value that at least `percent` of all values do not exceed (nearest rank); None of no values."""
    wanted = -(-values.total() * percent // 100)
    for value in sorted(values):
        wanted -= values[value]
        if wanted <= 0:
            return value
    return None
