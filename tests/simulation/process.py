"""A worker process: the product's runtime on its simulated link and client, to be killed, frozen, cut off and stopped.

May know the runtime, the link, the client. May not know when any of that happens, or what must hold.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from random import Random

import trio

from slicelease.cli.memory_broker.core import MemoryBroker
from slicelease.worker import SliceWorker
from slicelease.worker.runtime import Runtime, RuntimeOptions

from .freezer import OWNER, Freezer
from .lease_client import SimLeases
from .link import AckWatch, Connection, SimLink
from .network import Network
from .timeline import Timeline

CLASSES = ("interactive", "standard", "bulk")
HEARTBEAT_S = 5.0


class SimProcess:
    """One life of a worker. `number` is its place among the workers, `session` is its own."""

    def __init__(self, number: int, session: str, dice: Random, freezer: Freezer, timeline: Timeline) -> None:
        self.number = number
        self.session = session
        self.dice = dice
        self.dead = False
        self.frozen = False
        self.thawed_s = -1.0
        self.slice_token = 0
        self.stop = trio.Event()
        self.ended = trio.Event()
        self.scope = trio.CancelScope()
        self._freezer = freezer
        self._timeline = timeline

    @property
    def excused(self) -> bool:
        """Whether it cannot know that its lease is over: it does not run, or comes back just now."""
        return self.dead or self.frozen or self.thawed_s == trio.current_time()

    def build(
        self, app: SliceWorker, core: MemoryBroker, up: Callable[[], bool], acks: AckWatch, network: Network, slots: int
    ) -> None:
        """Makes its parts."""
        self.link = SimLink(core, self.dice, up, acks)
        self.leases = SimLeases(self.session, network, self.dice)
        self._runtime = Runtime(app, self.link, self.leases, RuntimeOptions(CLASSES, slots=slots), self.dice.random)

    def start(self, nursery: trio.Nursery) -> None:
        """Runs it, in a context that says whose the tasks are."""
        context = copy_context()
        context.run(OWNER.set, self)
        context.run(nursery.start_soon, self._run)

    async def _run(self) -> None:
        try:
            with self.scope:
                await self._runtime.run(self.stop)
        finally:
            self.ended.set()

    def kill(self, noticed_s: float) -> None:
        """It runs no more, from now on. The broker and the scheduler of this simulation let go of it after `noticed_s`."""
        self.dead = self.leases.severed = True
        self._freezer.freeze(self)
        self._timeline.after(noticed_s, self._bury)

    def _bury(self) -> None:
        # What its tasks still do on the way out meets a dead link and a severed client.
        self.link.lose().close_at_broker()
        self.scope.cancel()
        self._freezer.thaw(self)

    def freeze(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after that time; meanwhile the broker may lose patience."""
        self.frozen = True
        self._freezer.freeze(self)
        patience_s = HEARTBEAT_S * (2 + self.dice.random())
        if patience_s < seconds:
            connection = self.link.connection
            self._timeline.after(patience_s, connection.close_at_broker)
            self._timeline.after(seconds, lambda: self._see_closed(connection))
        self._timeline.after(seconds, self.thaw)

    def _see_closed(self, connection: Connection) -> None:
        if self.link.connection is connection:
            self.link.lose()

    def thaw(self) -> None:
        """Without effect on one that is not frozen, or was killed meanwhile."""
        if self.frozen and not self.dead:
            self.frozen, self.thawed_s = False, trio.current_time()
            self._freezer.thaw(self)

    def cut(self, noticed_s: float) -> None:
        """The link breaks: for the worker now, for the broker after that time."""
        self._timeline.after(noticed_s, self.link.lose().close_at_broker)
