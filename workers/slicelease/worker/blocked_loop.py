"""Names a handler that blocks the event loop, before it costs the connection to the broker.

May know Trio's instruments and threads. May not know leases. A loop that does not turn answers no heartbeat, renews no lease
and acks nothing; its own code cannot say so, hence a thread that looks from outside.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import structlog
import trio

from .handlers import Work
from .slice_run import Slot

_log = structlog.get_logger(__name__)
_LOOKS = 8
"""Looks within the limit."""


class LoopWatch(trio.abc.Instrument):
    """Remembers which task the loop runs, and since when. A step costs two attribute writes and a clock."""

    def __init__(self) -> None:
        self.since_s = 0.0
        self.task: trio.lowlevel.Task | None = None

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """A task runs from now on."""
        self.since_s = time.monotonic()
        self.task = task

    def before_io_wait(self, timeout: float) -> None:  # noqa: ARG002  Trio's signature
        """Nothing runs."""
        self.task = None


@contextmanager
def watch_loop(
    slots: Sequence[Slot], limit_s: float, name_of: Callable[[Work], str], blocked: Callable[[], None]
) -> Iterator[None]:
    """Within the block, warns once for each step of a task that takes longer than `limit_s`, and calls `blocked`.

    `name_of` gives the name of a message's handler. It and `blocked` are called in another thread.
    """
    watch, done = LoopWatch(), threading.Event()
    loop_thread = threading.get_ident()

    def look() -> None:
        told_s = 0.0
        while not done.wait(limit_s / _LOOKS):
            task, since_s = watch.task, watch.since_s
            blocked_s = time.monotonic() - since_s
            if task is None or since_s == told_s or blocked_s < limit_s:
                continue
            told_s = since_s
            blocked()
            _warn(task, _work_of(task, slots), name_of, blocked_s, _place(loop_thread))

    trio.lowlevel.add_instrument(watch)
    threading.Thread(target=look, name="slicelease-loop-watch", daemon=True).start()
    try:
        yield
    finally:
        done.set()
        trio.lowlevel.remove_instrument(watch)


def _work_of(task: trio.lowlevel.Task, slots: Sequence[Slot]) -> Work | None:
    """The message whose handler this task, or a nursery above it, runs."""
    at: trio.lowlevel.Task | None = task
    while at is not None:
        for slot in slots:
            if slot.task is at:
                return slot.doing
        at = at.parent_nursery.parent_task if at.parent_nursery is not None else None
    return None


def _place(thread_id: int) -> str:
    """Where the thread is just now: the innermost frame."""
    frame = sys._current_frames().get(thread_id)
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}" if frame is not None else "?"


def _warn(task: trio.lowlevel.Task, work: Work | None, name_of: Callable[[Work], str], blocked_s: float, place: str) -> None:
    about = {"task": task.name}
    if work is not None:
        about = {"tenant": work.tenant, "queue": work.queue, "message_id": work.message_id, "handler": name_of(work)}
    _log.warning(
        "the event loop is blocked: no heartbeat, renewal or ack goes out; slow code belongs into a plain `def` handler",
        blocked_s=round(blocked_s, 1),
        place=place,
        **about,
    )
