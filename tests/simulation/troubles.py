"""What goes wrong, one thing after another, at random times until it is told to be calm.

May know everything that can be hurt. May not know what must hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

import trio

from slicelease.control_plane.domain import names
from slicelease.control_plane.domain.commands import Pause, Resume, Revoke, UpdateTenant
from slicelease.control_plane.domain.policy import TenantPolicy

from .process import CLASSES, HEARTBEAT_S, SimProcess

if TYPE_CHECKING:
    from .world import World


class Troubles:
    """Draws and does them; `counts` says how many of each there were."""

    def __init__(self, world: World, dice: Random) -> None:
        self._world = world
        self._dice = dice
        self.counts: Counter[str] = Counter()
        self._kinds: dict[str, tuple[int, Callable[[], None]]] = {
            "workers killed": (30, self._kill),
            "workers frozen": (30, self._freeze),
            "links cut": (30, self._cut),
            "workers stopped": (15, self._stop),
            "replicas killed": (12, self._kill_replica),
            "broker restarts": (3, self._restart_broker),
            "store away": (5, self._store_away),
            "store restarts": (1, self._restart_store),
            "tickets lost": (5, self._lose_tickets),
            "queues paused": (10, self._pause),
            "classes changed": (10, self._change_class),
            "leases revoked": (5, self._revoke),
        }

    async def run(self, every_s: float) -> None:
        """Until cancelled."""
        names_, weights = list(self._kinds), [weight for weight, _ in self._kinds.values()]
        while True:
            await trio.sleep(self._dice.expovariate(1 / every_s))
            name = self._dice.choices(names_, weights)[0]
            self.counts[name] += 1
            self._world.record.note(name)
            self._kinds[name][1]()

    def kill(self, process: SimProcess) -> None:
        """SIGKILL, or its machine is gone: then the broker waits for heartbeats."""
        if not process.dead:
            process.kill(self._dice.choice((0.001, self._dice.random() * 3 * HEARTBEAT_S)))
            self._world.replace(process, self._dice.random() * 20)

    def _process(self) -> SimProcess | None:
        running = [each for each in self._world.processes if not (each.dead or each.frozen or each.stop.is_set())]
        return self._dice.choice(running) if running else None

    def _kill(self) -> None:
        if (process := self._process()) is not None:
            self.kill(process)

    def _freeze(self) -> None:
        if (process := self._process()) is not None:
            process.freeze(self._dice.expovariate(1 / 10))

    def _cut(self) -> None:
        if (process := self._process()) is not None:
            process.cut(self._dice.choice((0.001, self._dice.random() * 3 * HEARTBEAT_S)))

    def _stop(self) -> None:
        if (process := self._process()) is not None:
            process.stop.set()
            self._world.replace(process, self._dice.random() * 20)

    def _kill_replica(self) -> None:
        self._world.replace_replica(self._dice.randrange(len(self._world.replicas)), self._dice.random() * 15)

    def _restart_broker(self) -> None:
        world = self._world
        world.broker_up_s = trio.current_time() + 1 + self._dice.random() * 14
        for process in world.processes:
            process.link.lose().close_at_broker()
        for replica in world.replicas:
            replica.broker.lose_link()

    def _store_away(self) -> None:
        self._world.store_up_s = trio.current_time() + self._dice.random() * 20

    def _restart_store(self) -> None:
        self._world.ledger.restart()

    def _lose_tickets(self) -> None:
        self._world.core.purge(names.attention_queue(self._dice.choice(CLASSES)))

    def _pause(self) -> None:
        world, key = self._world, self._world.load.key()
        world.step([Pause(key)])
        world.tell_holder(key)
        world.timeline.after(self._dice.random() * 60, lambda: world.insist([Resume(key)]))

    def _change_class(self) -> None:
        policy = TenantPolicy(self._dice.choice(CLASSES), self._dice.choice((50, 100, 200)))
        self._world.step([UpdateTenant(self._world.load.key().tenant, policy)])

    def _revoke(self) -> None:
        leases = list(self._world.ledger.state.leases)
        if leases:
            key = self._dice.choice(leases)
            # By force, a queue without order may have two holders, which the record takes for a fault.
            force = self._world.record.queues[key.of_queue].strict and self._dice.random() < 0.5
            self._world.step([Revoke(key, force)])
