"""A control plane's replica: the product's loops, under Trio, with its own view of ledger and broker.

May know the loops and the ports. Runs each loop as `app.background` does under asyncio: passes, pauses with jitter, back-off
after an error, a poke of the announcer when something may be owed. Killed between any two awaits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from random import Random

import trio

from slicelease.cli.memory_broker.asyncio_adapter import AsyncioBroker
from slicelease.cli.memory_broker.channel import Channel, Consumer
from slicelease.cli.memory_broker.core import MemoryBroker
from slicelease.control_plane.app.background import FIRST_BACKOFF_S, LONGEST_BACKOFF_S
from slicelease.control_plane.app.observed import may_owe
from slicelease.control_plane.app.serving import (
    ANNOUNCE_PERIOD_S,
    DUE_PERIOD_S,
    REAPER_PERIOD_S,
    WATCH_PERIOD_S,
)
from slicelease.control_plane.domain import names
from slicelease.control_plane.domain.commands import Command
from slicelease.control_plane.domain.outcomes import Outcome
from slicelease.control_plane.loops.announcer import Announcer
from slicelease.control_plane.loops.attention_watch import AttentionWatch
from slicelease.control_plane.loops.due import Due
from slicelease.control_plane.loops.intake import Intake
from slicelease.control_plane.loops.reaper import Reaper
from slicelease.control_plane.loops.reconciler import Reconciler
from slicelease.control_plane.ports import BrokerUnavailableError, LedgerUnavailableError, RaisedAttention
from tests.unit.loops.world import Seen

RECONCILE_PERIOD_S = 10.0
_BEGINNING = datetime(2024, 1, 1, tzinfo=UTC)
Step = Callable[[Sequence[Command]], list[Outcome] | None]


class SimBroker(AsyncioBroker):
    """The control plane's port over the core, which can be away; raised attention is waited for under Trio."""

    def __init__(self, core: MemoryBroker, dice: Random, is_up: Callable[[], bool]) -> None:
        super().__init__(core)
        self._dice = dice
        self._is_up = is_up
        self._raised: tuple[Channel, Consumer] | None = None
        self._arrived = trio.Event()

    async def announce(self, class_id: str, bodies: Sequence[bytes]) -> int:
        await self._travel()
        sure = await super().announce(class_id, bodies)
        await self._travel()  # the tickets are there and the confirm is not
        return sure

    async def attention_count(self, class_id: str) -> int | None:
        await self._travel()
        return await super().attention_count(class_id)

    async def message_counts(self, keys: Sequence[names.QueueKey]) -> dict[names.QueueKey, int | None]:
        await self._travel()
        return await super().message_counts(keys)

    async def take_raised(self, limit: int) -> list[RaisedAttention]:
        while True:
            await self._travel()
            if self._raised is None:
                channel = self._core.open_channel()
                self._raised = channel, channel.consume(names.RAISED_QUEUE, 1_000, lambda: self._arrived.set())
            channel, consumer = self._raised
            self._arrived = trio.Event()
            count = min(limit, len(consumer.inbox))
            taken = [delivery for _ in range(count) if (delivery := consumer.take()) is not None]
            if taken:
                return [RaisedAttention(delivery.message.body, (channel, delivery)) for delivery in taken]
            if not channel.closed:
                await self._arrived.wait()
            if channel.closed:
                self._raised = None

    def lose_link(self) -> None:
        """The broker restarts, or this replica is gone: what was in hand goes back."""
        if self._raised is not None:
            self._raised[0].close()
            self._arrived.set()

    async def _travel(self) -> None:
        await trio.sleep(self._dice.random() * 0.004)
        if not self._is_up():
            raise BrokerUnavailableError("the broker is away")


class SimLedger:
    """The control plane's port over the twin; now and then the answer gets lost after the step."""

    def __init__(self, step: Step, dice: Random, owed: Callable[[], None], lost: float) -> None:
        self._step = step
        self._dice = dice
        self._owed = owed
        self.lost = lost

    async def execute(self, commands: Sequence[Command]) -> list[Outcome]:
        await trio.sleep(self._dice.random() * 0.002)
        outcomes = self._step(commands)
        if outcomes is None or self._dice.random() < self.lost:
            raise LedgerUnavailableError("no answer")
        if any(map(may_owe, outcomes)):
            self._owed()
        return outcomes


class Replica:
    """Runs until it is killed."""

    def __init__(self, core: MemoryBroker, step: Step, dice: Random, broker_is_up: Callable[[], bool], lost: float) -> None:
        self._dice = dice
        self._poke = trio.Event()
        self.broker = SimBroker(core, dice, broker_is_up)
        self.ledger = SimLedger(step, dice, self.poke, lost)
        self.observer = Seen()
        self.scope = trio.CancelScope()
        self.up = False

    def poke(self) -> None:
        """Something may be owed."""
        self._poke.set()

    def kill(self) -> None:
        """None of its loops takes a further step that anybody sees."""
        self.up = False
        self.scope.cancel()
        self.broker.lose_link()

    async def run(self) -> None:
        ledger, broker, seen = self.ledger, self.broker, self.observer
        self.up = True
        with self.scope:
            async with trio.open_nursery() as nursery:
                announce = Announcer(ledger, broker, seen, lambda: _BEGINNING + timedelta(seconds=trio.current_time()))
                nursery.start_soon(self._loop, announce.run_once, ANNOUNCE_PERIOD_S, True)
                nursery.start_soon(self._loop, Intake(ledger, broker, seen, None).run_once, 0.0)
                nursery.start_soon(self._loop, Due(ledger).run_once, DUE_PERIOD_S)
                nursery.start_soon(self._loop, Reaper(ledger, seen).run_once, REAPER_PERIOD_S)
                nursery.start_soon(self._loop, AttentionWatch(ledger, broker, seen).run_once, WATCH_PERIOD_S)
                nursery.start_soon(self._loop, Reconciler(ledger, broker, seen).run_once, RECONCILE_PERIOD_S)

    async def _loop(self, run_once: Callable[[], Awaitable[bool]], period_s: float, poked: bool = False) -> None:
        failures = 0
        while True:
            wake = trio.Event()
            if poked:
                self._poke = wake
            try:
                more = await run_once()
            except (LedgerUnavailableError, BrokerUnavailableError):
                failures += 1
                longest_s = min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** min(failures - 1, 10))
                await trio.sleep(longest_s * (0.5 + 0.5 * self._dice.random()))
                continue
            failures = 0
            if not more:
                with trio.move_on_after(period_s * (0.8 + 0.4 * self._dice.random())):
                    await wake.wait()
