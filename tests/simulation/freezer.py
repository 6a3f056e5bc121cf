"""SIGSTOP for tasks: none of a frozen process runs, whatever becomes of it meanwhile; thawed, it sees everything at once.

Knows Trio's run queue, which Trio does not promise to keep: what a frozen process's tasks are woken by is put aside as it is
scheduled. Timers go on, as a real process's clock does.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import trio
from trio._core import _run

OWNER: ContextVar[object] = ContextVar("OWNER")
"""The process to which the current task belongs; tasks inherit it."""


class Freezer(trio.abc.Instrument):
    """Installed in Trio only while something is frozen: it costs a call for each task scheduled."""

    def __init__(self) -> None:
        self._aside: dict[object, list[Any]] = {}

    def freeze(self, owner: object) -> None:
        """From now on, but for tasks whose step is due in this very pass of the scheduler."""
        if not self._aside:
            trio.lowlevel.add_instrument(self)
        aside = self._aside.setdefault(owner, [])
        queue = _run.GLOBAL_RUN_CONTEXT.runner.runq
        due = list(queue)
        queue.clear()
        for task in due:
            (aside if task.context.get(OWNER) is owner else queue).append(task)

    def thaw(self, owner: object) -> None:
        """Whatever was put aside runs; without effect on one that is not frozen."""
        if owner not in self._aside:
            return
        aside = self._aside.pop(owner)
        if not self._aside:
            trio.lowlevel.remove_instrument(self)
        _run.GLOBAL_RUN_CONTEXT.runner.runq.extend(aside)

    def thaw_all(self) -> None:
        """For the end of a run: a task put aside cannot end."""
        for owner in list(self._aside):
            self.thaw(owner)

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        """Trio has just appended it to its queue."""
        aside = self._aside.get(task.context.get(OWNER))
        if aside is not None:
            aside.append(_run.GLOBAL_RUN_CONTEXT.runner.runq.pop())
