"""What is shown while it runs: numbers of one moment, as a line or as a table.

May live here: rates, differences and their layout. May not know: when to show them, clocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from slicelease.control_plane.domain.outcomes import Stats

from .report import wait_summary


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One moment. Counts are since the start; waits are those of the grants since the moment before."""

    at_s: float
    published: int
    processed: int
    messages_per_s: float
    queues_with_work: int
    leases: int
    leases_per_s: float
    waits_ms: Mapping[str, Counter[int]]


@dataclass(slots=True)
class ProgressMeter:
    """Makes snapshots, remembering the last for rates."""

    _at_s: float = 0.0
    _processed: int = 0
    _grants: int = 0
    _waits_ms: dict[str, Counter[int]] = field(default_factory=dict)

    def take(
        self, at_s: float, published: int, processed: int, grants: int, waits_ms: Mapping[str, Counter[int]], stats: Stats
    ) -> Snapshot:
        """The moment `at_s` seconds after the start."""
        passed_s = max(at_s - self._at_s, 1e-3)
        ready = sum(one.ready for one in stats.classes)
        leases = sum(one.leases for one in stats.classes)
        snapshot = Snapshot(
            at_s=at_s,
            published=published,
            processed=processed,
            messages_per_s=(processed - self._processed) / passed_s,
            queues_with_work=ready + leases + stats.waiting,
            leases=leases,
            leases_per_s=(grants - self._grants) / passed_s,
            waits_ms={name: waits - self._waits_ms.get(name, Counter()) for name, waits in waits_ms.items()},
        )
        self._at_s, self._processed, self._grants = at_s, processed, grants
        self._waits_ms = {name: Counter(waits) for name, waits in waits_ms.items()}
        return snapshot


def as_line(snapshot: Snapshot) -> str:
    """For a log or a pipe."""
    waits = ", ".join(f"{name} {_wait(waits)}" for name, waits in snapshot.waits_ms.items() if waits)
    return (
        f"{snapshot.at_s:.0f} s: published {snapshot.published:,}, processed {snapshot.processed:,}"
        f" ({snapshot.messages_per_s:,.0f}/s), queues with work {snapshot.queues_with_work:,},"
        f" leases {snapshot.leases} ({snapshot.leases_per_s:,.0f}/s)" + (f", waits p50/p99: {waits}" if waits else "")
    )


def as_rows(snapshot: Snapshot) -> list[tuple[str, str]]:
    """For a table: what, and how much."""
    rows = [
        ("published", f"{snapshot.published:,}"),
        ("processed", f"{snapshot.processed:,}"),
        ("messages/s", f"{snapshot.messages_per_s:,.0f}"),
        ("queues with work", f"{snapshot.queues_with_work:,}"),
        ("leases", f"{snapshot.leases}  ({snapshot.leases_per_s:,.0f}/s)"),
    ]
    return rows + [(f"wait {name} p50/p99", _wait(waits) if waits else "–") for name, waits in snapshot.waits_ms.items()]


def _wait(waits_ms: Counter[int]) -> str:
    summary = wait_summary(waits_ms)
    return f"{summary['p50']}/{summary['p99']} ms"
