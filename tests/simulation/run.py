"""Runs of the simulation: a seed is the whole run.

Trio shuffles tasks that are due together with a generator of its own, which is seeded here; nothing in a run reads a real clock.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
import trio
import trio.testing
from trio._core import _run

from .record import BrokenPromiseError
from .shape import Figures, Shape
from .world import PUBLISHERS, World


def simulate(seed: int, shape: Shape) -> Figures:
    """One run. Raises BrokenPromiseError, whose notes say how to run it again."""
    begin_s = time.process_time()
    try:
        with _same_order(seed), _quiet():
            world, drained_after_s = trio.run(_run_world, seed, shape, clock=trio.testing.MockClock(autojump_threshold=0))
    except BaseExceptionGroup as group:
        broken, others = group.split(BrokenPromiseError)
        if broken is None or others is not None:
            group.add_note(f"seed {seed}, {shape}")
            raise
        raise _first(broken, f"seed {seed}, {shape}") from group
    return _figures(world, seed, drained_after_s, time.process_time() - begin_s)


async def _run_world(seed: int, shape: Shape) -> tuple[World, float]:
    async with trio.open_nursery() as nursery:
        world = World(seed, shape, nursery)
        nursery.start_soon(world.timeline.run)
        try:
            drained_after_s = await _live(world)
        finally:
            world.freezer.thaw_all()  # a frozen task cannot be cancelled
        nursery.cancel_scope.cancel()
    return world, drained_after_s


async def _live(world: World) -> float:
    await world.set_up()
    async with trio.open_nursery() as busy:
        busy.start_soon(world.troubles.run, world.shape.every_s)
        for _ in range(PUBLISHERS):
            busy.start_soon(world.publish)
        await trio.sleep(world.shape.publish_s)
        busy.cancel_scope.cancel()
    world.calm()
    drained_after_s = await _drain(world)
    await _stop(world)
    world.check_all()
    return drained_after_s


async def _drain(world: World) -> float:
    """How long until everything is done and at rest."""
    begin_s = trio.current_time()
    while not world.is_done():
        if trio.current_time() - begin_s > world.shape.drain_s:
            raise BrokenPromiseError(f"not drained {world.shape.drain_s:g} s after the last trouble: {world.rest()}")
        await trio.sleep(1)
    return trio.current_time() - begin_s


async def _stop(world: World) -> None:
    """Every worker, wherever it is in its life, ends within its grace."""
    await trio.sleep(40)  # the last replacements are there by then, and the frozen are thawed
    for process in world.processes:
        process.stop.set()
    with trio.move_on_after(60):
        for process in list(world.processes):
            await process.ended.wait()
        return
    raise BrokenPromiseError("workers did not end within their grace")


def _figures(world: World, seed: int, drained_after_s: float, cpu_s: float) -> Figures:
    record = world.record
    dead = world.count_dead()
    return Figures(
        seed,
        record.trace,
        messages=len(record.flags),
        handled=record.finished(),
        dead=dead,
        repeats=record.repeats,
        grants=record.grants,
        steps=world.steps,
        troubles={**world.troubles.counts, **world.network.troubles},
        longest_wait_s={class_id: wait_ms / 1_000 for class_id, wait_ms in record.longest_wait_ms.items()},
        drained_after_s=drained_after_s,
        cpu_s=cpu_s,
    )


@contextmanager
def _same_order(seed: int) -> Iterator[None]:
    """Trio's order of tasks depends on the seed alone."""
    before, state = _run._ALLOW_DETERMINISTIC_SCHEDULING, _run._r.getstate()
    _run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    _run._r.seed(seed)
    try:
        yield
    finally:
        _run._ALLOW_DETERMINISTIC_SCHEDULING = before  # type: ignore[misc]
        _run._r.setstate(state)


@contextmanager
def _quiet() -> Iterator[None]:
    """Thousands of warnings are what a simulation is for; nobody reads them."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    try:
        yield
    finally:
        structlog.configure(**before)


def _first(group: BaseExceptionGroup[BrokenPromiseError], note: str) -> BrokenPromiseError:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, BrokenPromiseError)
    return BrokenPromiseError(f"{error} ({note})")
