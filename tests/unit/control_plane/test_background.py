"""Loops under supervision, and the gate of a shutdown."""

from __future__ import annotations

import asyncio

import pytest

from slicelease.control_plane.app.background import Background
from slicelease.control_plane.app.observed import may_owe
from slicelease.control_plane.domain.commands import EndReason
from slicelease.control_plane.domain.names import LeaseKey
from slicelease.control_plane.domain.outcomes import DenialReason, Denied, Outcome, QueueState, Settled, Touched, Woken
from slicelease.control_plane.metrics import Metrics
from slicelease.control_plane.ports import LedgerUnavailableError, StopHint
from slicelease.control_plane.rpc.directives import MAX_PENDING, LocalDirectiveBus, Sessions
from slicelease.control_plane.rpc.gate import Gate
from tests.servers.waiting import wait_for_asyncio


class Passes:
    """A loop whose passes do as the script says, then report no more."""

    def __init__(self, *script: bool | Exception) -> None:
        self.script = list(script)
        self.done = 0

    async def run_once(self) -> bool:
        self.done += 1
        step = self.script.pop(0) if self.script else False
        if isinstance(step, Exception):
            raise step
        return step


@pytest.mark.asyncio
async def test_passes_follow_each_other_while_there_is_more_and_a_poke_ends_the_pause() -> None:
    background, passes = Background(Metrics(), dice=lambda: 0.5), Passes(True, True, False)
    background.start("loop", passes.run_once, period_s=3_600)
    await wait_for_asyncio(lambda: passes.done == 3, 5, "three passes")
    background.poke("loop")
    await wait_for_asyncio(lambda: passes.done == 4, 5, "the poked pass")
    background.poke("no such loop")
    await background.stop(1)
    assert passes.done == 4


@pytest.mark.asyncio
async def test_a_loop_survives_errors_and_backs_off() -> None:
    metrics = Metrics()
    background = Background(metrics, dice=lambda: 0.0)
    passes = Passes(LedgerUnavailableError("away"), ZeroDivisionError("ours"), LedgerUnavailableError("away"), True)
    background.start("loop", passes.run_once, period_s=3_600)
    await wait_for_asyncio(lambda: passes.done >= 5, 10, "recovery")
    await background.stop(1)
    failed = metrics.registry.get_sample_value("slicelease_loop_passes_total", {"loop": "loop", "result": "failed"})
    assert failed == 3


@pytest.mark.asyncio
async def test_a_pass_that_runs_may_end_and_one_that_does_not_is_cancelled() -> None:
    entered, leave, cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def patient() -> bool:
        entered.set()
        try:
            await leave.wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return True

    background = Background(Metrics())
    background.start("loop", patient, 0.0)
    await entered.wait()
    asyncio.get_running_loop().call_later(0.05, leave.set)
    await background.stop(5)
    assert not cancelled.is_set()

    leave.clear()
    entered.clear()
    stuck = Background(Metrics())
    stuck.start("loop", patient, 0.0)
    await entered.wait()
    await stuck.stop(0.05)
    assert cancelled.is_set()


@pytest.mark.parametrize(
    ("outcome", "owed"),
    [
        (Touched(coalesced=False, created=False), True),
        (Touched(coalesced=True, created=False), False),
        (Settled(QueueState.READY, 0, 0, "bulk", None), True),
        (Settled(QueueState.IDLE, 0, 0, "bulk", None), False),
        (Woken(2, more=False), True),
        (Woken(0, more=False), False),
        (Denied(DenialReason.NO_READY_QUEUE, 0), False),
    ],
)
def test_the_announcer_is_woken_by_what_may_owe(outcome: Outcome, owed: bool) -> None:
    assert may_owe(outcome) is owed


@pytest.mark.asyncio
async def test_the_gate_waits_for_calls_and_for_what_is_behind_them() -> None:
    gate, leave = Gate(), asyncio.Event()

    async def call() -> None:
        task = asyncio.current_task()
        assert task is not None
        gate.enter(task)
        try:
            await leave.wait()
        finally:
            gate.leave(task)

    async def behind() -> None:
        await leave.wait()

    running = asyncio.create_task(call())
    gate.behind(behind())
    await wait_for_asyncio(lambda: gate.running == 1, 5, "the call")
    assert not await gate.wait_empty(0.02)
    leave.set()
    assert await gate.wait_empty(5)
    await running


HINT = StopHint("w1", LeaseKey("acme", "mail", 17), EndReason.PAUSED)


@pytest.mark.asyncio
async def test_a_hint_reaches_every_stream_of_its_session_and_no_other() -> None:
    bus, sessions = LocalDirectiveBus(), Sessions()
    listening = asyncio.create_task(bus.run(sessions.deliver))
    await asyncio.sleep(0)
    with sessions.open("w1") as old, sessions.open("w1") as new, sessions.open("w2") as other:
        await bus.publish(HINT)
        assert [await old.next(), await new.next()] == [HINT, HINT]
        sessions.end()
        assert [await old.next(), await other.next()] == [None, None]
    assert len(sessions) == 0
    with sessions.open("w3") as late:
        assert await late.next() is None
    listening.cancel()


@pytest.mark.asyncio
async def test_a_slow_stream_keeps_the_newest_hints() -> None:
    sessions = Sessions()
    with sessions.open("w1") as stream:
        for token in range(MAX_PENDING + 5):
            sessions.deliver(StopHint("w1", LeaseKey("acme", "mail", token), EndReason.PAUSED))
        first = await stream.next()
    assert first is not None
    assert first.lease.token == 5
