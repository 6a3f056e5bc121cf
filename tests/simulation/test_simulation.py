"""Three seeds at the reduced size, the same seed twice, and that the account sees what it is there to see.

`python -m tests.simulation` runs the full size and any seeds; docs/simulation.md tells how to run one again.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from slicelease.cli.memory_broker.channel import Channel, InHand
from slicelease.control_plane.domain.ledger import leases
from slicelease.control_plane.domain.ledger.running import make_ready
from slicelease.control_plane.domain.ledger.state import LeaseRecord, Step

from .record import BrokenPromiseError
from .run import simulate
from .shape import SMALL

TINY = replace(SMALL, tenants=40, workers=6, messages=2_500, publish_s=240.0, every_s=4.0)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_is_promised_holds(seed: int) -> None:
    figures = simulate(seed, SMALL)
    assert figures.messages > 0.8 * SMALL.messages
    assert figures.handled + figures.dead >= figures.messages
    assert figures.grants > 1_000
    assert figures.repeats > 0, "a simulation in which no ack is ever lost shows little"
    assert figures.troubles["workers killed"] > 5
    assert figures.troubles["workers frozen"] > 5
    # An outage of the store or the broker, a quarantine and the queue before it; nobody starves.
    assert all(wait_s < 120 for wait_s in figures.longest_wait_s.values()), figures.longest_wait_s


def test_a_seed_is_the_whole_run() -> None:
    figures = simulate(5, TINY)
    again = simulate(5, TINY)
    assert again == replace(figures, cpu_s=again.cpu_s)
    assert simulate(6, TINY).trace != figures.trace
    program = f"from tests.simulation.run import simulate; from tests.simulation.test_simulation import TINY; {SAY}"
    elsewhere = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "77"},
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    assert elsewhere.stdout.strip() == figures.trace


SAY = "print(simulate(5, TINY).trace)"


def _no_rest_after_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    def ready_at_once(step: Step, lease: LeaseRecord, last_ms: int) -> None:
        make_ready(step, lease.key.of_queue, step.now_ms)

    monkeypatch.setattr(leases, "_after_loss", ready_at_once)


def _attempts_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "_count_attempt", lambda *_: 1)


def _lost_on_close(monkeypatch: pytest.MonkeyPatch) -> None:
    release_all = Channel.release_all

    def forgetful(channel: Channel) -> list[InHand]:
        held = release_all(channel)
        for one in held:
            one.queue.unacked -= 1
        return []

    monkeypatch.setattr(Channel, "release_all", forgetful)


@pytest.mark.parametrize(
    ("break_it", "seen"),
    [
        (_no_rest_after_a_loss, "ms too early"),
        (_attempts_not_counted, "was started 6 times"),
        (_lost_on_close, "were published and not acked"),
    ],
)
def test_a_fault_put_in_is_seen(
    monkeypatch: pytest.MonkeyPatch, break_it: Callable[[pytest.MonkeyPatch], None], seen: str
) -> None:
    break_it(monkeypatch)
    with pytest.raises(BrokenPromiseError, match=seen) as caught:
        simulate(1, TINY)
    assert "(seed 1, Shape(tenants=40," in str(caught.value)
