"""The worker's nursery tree: links ⊃ attention consumers and slots ⊃ slices ⊃ handlers.

May know Trio, the ports, and who does what. May not know AMQP, gRPC, settings files or signals. Shutdown is a deadline:
stop consuming, give waiting tickets back, let each slice end at its next message, then cancel what still runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import structlog
import trio

from .handler_run import HandlerRunner
from .handlers import SliceWorker
from .lease_keeper import LeaseKeeper
from .leases import EndReason
from .metrics import WorkerMetrics
from .ports import LeaseClient, WorkerBroker
from .slice_run import Crew, Slot
from .tickets import TicketHall
from .turn import Turns

_log = structlog.get_logger(__name__)

AFTER_GRACE_S = 5.0
"""How long slices may take to give back and settle when the grace is over."""
_THREADS_A_SLOT = 2
"""One runs, and one may be left over from a lost lease."""


@dataclass(frozen=True, slots=True)
class RuntimeOptions:
    """What the settings decide. Durations in seconds."""

    classes: tuple[str, ...]
    slots: int = 8
    ticket_hold_s: float = 60.0
    shutdown_grace_s: float = 20.0


class Runtime:
    """One worker process. `random_number` gives numbers in [0, 1), for jitter."""

    def __init__(
        self,
        app: SliceWorker,
        broker: WorkerBroker,
        leases: LeaseClient,
        options: RuntimeOptions,
        random_number: Callable[[], float],
        metrics: WorkerMetrics | None = None,
    ) -> None:
        self.metrics = metrics or WorkerMetrics()
        self.slots = [Slot(number) for number in range(options.slots)]
        self._broker = broker
        self._leases = leases
        self._options = options
        self._keeper = LeaseKeeper(leases)
        handlers = HandlerRunner(app, _THREADS_A_SLOT * options.slots)
        self._turns = Turns(Crew(broker, leases, self._keeper, handlers, self.metrics), options.classes, options.ticket_hold_s)
        self._hall = TicketHall(broker, options.classes, options.slots, random_number, self.metrics)
        self._stopping = False

    def unready_reasons(self) -> list[str]:
        """Why this worker does not take work now; empty when it does."""
        reasons = [reason for reason in (self._broker.unready_reason(), self._leases.unready_reason()) if reason]
        if self._stopping:
            reasons.append("shutting down")
        elif not reasons and not self._hall.consumed:
            reasons.append("no attention queue of the classes " + ", ".join(self._options.classes) + " can be consumed")
        return reasons

    async def run(self, stop: trio.Event, *, on_ready: Callable[[], None] = lambda: None) -> None:
        """Works until `stop` is set and everything in hand is settled or given back.

        `on_ready` is called once the session is open. Cancelling `run` ends it at once and loses nothing: what is unacked
        goes back, and leases run out. Raises what the links raise for settings that no retry can mend.
        """
        async with trio.open_nursery() as links:
            async with trio.open_nursery() as opening:
                opening.start_soon(_cancel_when, stop, opening.cancel_scope)
                await links.start(self._broker.run)
                await links.start(self._leases.run, self._keeper.direct)
                opening.cancel_scope.cancel()
            if not stop.is_set():
                on_ready()
                links.start_soon(self._keeper.run)
                await self._work(stop)
            links.cancel_scope.cancel()

    async def _work(self, stop: trio.Event) -> None:
        async with trio.open_nursery() as around:
            around.start_soon(self._hall.run)
            async with trio.open_nursery() as slots:
                for slot in self.slots:
                    slots.start_soon(self._serve, slot)
                await stop.wait()
                self._wind_down(around, slots)
            around.cancel_scope.cancel()

    async def _serve(self, slot: Slot) -> None:
        """Takes one ticket after another."""
        slot.task = trio.lowlevel.current_task()
        while (held := await self._hall.next_ticket(slot.number)) is not None:
            with self.metrics.busy_slots.track_inprogress():
                while held is not None:
                    end = await self._turns.take(slot, held.ticket)
                    held = await self._hall.turn_over(slot.number, held, end)

    def _wind_down(self, around: trio.Nursery, slots: trio.Nursery) -> None:
        """Tells everything to end; the deadlines see to it that it does."""
        grace_s = self._options.shutdown_grace_s
        _log.info("shutting down", slices=len(self._keeper), grace_s=grace_s)
        self._stopping = True
        self._turns.stop()
        self._keeper.stop_all(EndReason.SHUTDOWN)
        around.start_soon(self._hall.stop)
        around.start_soon(self._abandon_after, grace_s)
        slots.cancel_scope.deadline = trio.current_time() + grace_s + AFTER_GRACE_S

    async def _abandon_after(self, grace_s: float) -> None:
        await trio.sleep(grace_s)
        self._keeper.abandon_all()


async def _cancel_when(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
