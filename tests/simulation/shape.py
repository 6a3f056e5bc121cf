"""How big a simulation is, and how often what goes wrong. Values only.

Times are seconds of the mock clock, probabilities shares of 1.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shape:
    """A virtual hour by default."""

    tenants: int = 1_000
    workers: int = 50
    slots: int = 2
    replicas: int = 2
    messages: int = 100_000
    publish_s: float = 3_000.0
    """For so long work is published and things go wrong."""
    drain_s: float = 600.0
    """So long after that everything must be done."""
    burst: int = 8
    """Messages of one publish, on average."""
    work_s: float = 1.0
    """What the first message of a slice takes, on average."""
    every_s: float = 15.0
    """Between two things that go wrong, on average."""
    lost_call: float = 0.004
    """Lease calls whose request or reply gets lost; as many are slow, and as many arrive twice."""
    lost_touch: float = 0.01
    """Publishes that nobody tells of."""
    twice: float = 0.002
    """Messages published twice under one id."""


FULL = Shape()
SMALL = Shape(tenants=200, workers=10, messages=16_000, publish_s=900.0, every_s=8.0)


@dataclass(frozen=True, slots=True)
class Figures:
    """What a run was. Times in virtual seconds, but for `cpu_s`."""

    seed: int
    trace: str
    messages: int
    handled: int
    dead: int
    repeats: int
    grants: int
    steps: int
    troubles: dict[str, int]
    longest_wait_s: dict[str, float]
    drained_after_s: float
    cpu_s: float

    def __str__(self) -> str:
        waits = ", ".join(f"{class_id} {wait:.1f} s" for class_id, wait in sorted(self.longest_wait_s.items()))
        troubles = ", ".join(f"{count} {name}" for name, count in sorted(self.troubles.items()))
        return (
            f"seed {self.seed}: trace {self.trace}, {self.messages} messages, {self.handled} handled, {self.dead} dead letters, "
            f"{self.repeats} repeats, {self.grants} leases, {self.steps} ledger steps; drained {self.drained_after_s:.0f} s "
            f"after the end of troubles; longest waits {waits}; {troubles}; {self.cpu_s:.1f} s CPU"
        )
