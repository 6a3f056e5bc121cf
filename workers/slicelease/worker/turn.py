"""One ticket's turn: ask with it, work through the chain of leases that follows, and say how it ended.

May know Trio, the ports and slices. May not know where tickets come from, or what becomes of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import structlog
import trio

from .attention import TurnEnd, wants_next
from .leases import Denial, EndReason, Grant, SliceEnd, Ticket
from .ports import LeaseOverError, LeaseServiceUnavailableError, RequestRefusedError
from .slice_run import Crew, SliceRun, Slot

_log = structlog.get_logger(__name__)

ASK_WITHIN_S = 5.0
"""How long an ask is repeated before its ticket goes back: the first validity of a lease, so that one granted unheard is over."""
SETTLE_AT_LEAST_S = 2.0
"""How long a settle is repeated when its lease ends sooner, or when the worker shuts down."""
LAST_ASKS_S = 1.0
"""How long a shutdown waits for asks under way."""


@dataclass(frozen=True, slots=True)
class _Settled:
    """The settle was answered: the next lease, if any, and the instant its validity counts from."""

    next_grant: Grant | None
    asked_s: float


class Turns:
    """Takes turns, for all slots of a process."""

    def __init__(self, crew: Crew, classes: tuple[str, ...], ticket_hold_s: float) -> None:
        self._crew = crew
        self._classes = classes
        self._ticket_hold_s = ticket_hold_s
        self._asks: set[trio.CancelScope] = set()
        self._stopping = False

    def stop(self) -> None:
        """No further leases: asks under way get a moment more, slices are not chained."""
        self._stopping = True
        for ask in self._asks:
            ask.deadline = trio.current_time() + LAST_ASKS_S

    async def take(self, slot: Slot, ticket: Ticket) -> TurnEnd:
        """The turn of `ticket`."""
        asked_s = trio.current_time()
        hold_until_s = asked_s + self._ticket_hold_s
        grant = await self._ask(slot, ticket)
        if isinstance(grant, TurnEnd):
            return grant
        while True:
            settled = await self._slice(slot, grant, asked_s, hold_until_s)
            if settled is None:
                return TurnEnd.UNKNOWN
            if settled.next_grant is None:
                return TurnEnd.ANSWERED
            grant, asked_s = settled.next_grant, settled.asked_s

    async def _ask(self, slot: Slot, ticket: Ticket) -> Grant | TurnEnd:
        """A lease, or how the turn ended without one."""
        with trio.CancelScope() as ask:
            self._asks.add(ask)
            try:
                answer = await self._crew.leases.acquire(slot.number, self._classes, ticket, within_s=ASK_WITHIN_S)
            except LeaseOverError:
                return TurnEnd.ANSWERED  # granted, unheard, and over: the ledger has its queue back
            except LeaseServiceUnavailableError as error:
                _log.warning("no answer to an ask; the ticket goes back", why=str(error))
                return TurnEnd.UNKNOWN
            except RequestRefusedError as error:
                _log.error("ask refused; the ticket goes back", why=str(error))
                return TurnEnd.UNKNOWN
            finally:
                self._asks.discard(ask)
            if isinstance(answer, Denial):
                self._crew.metrics.denied(answer.reason)
                return TurnEnd.ANSWERED
            return answer
        return TurnEnd.UNKNOWN

    async def _slice(self, slot: Slot, grant: Grant, asked_s: float, hold_until_s: float) -> _Settled | None:
        """Runs a slice and settles it; None when the ledger did not take the settle."""
        run = SliceRun(self._crew, slot, grant, asked_s)
        with structlog.contextvars.bound_contextvars(tenant=grant.tenant, queue=grant.queue, token=grant.fencing_token):
            end = await run.run(EndReason.SHUTDOWN if self._stopping else None)
        self._crew.metrics.slice_ended(end)
        try:
            return await self._settle(slot, end, run, hold_until_s)
        except (LeaseOverError, LeaseServiceUnavailableError) as error:
            _log.warning("slice not settled", lease=grant.lease, reason=end.reason.name, why=str(error))
        except RequestRefusedError as error:
            _log.error("settle refused", lease=grant.lease, reason=end.reason.name, why=str(error))
        finally:
            run.over()
        return None

    async def _settle(self, slot: Slot, end: SliceEnd, run: SliceRun, hold_until_s: float) -> _Settled:
        now_s = trio.current_time()
        chain = wants_next(end.reason, now_s, hold_until_s, stopping=self._stopping)
        left_s = 0.0 if self._stopping else run.window.remaining_s(now_s)
        settlement = await self._crew.leases.settle(
            slot.number, end, next_among=self._classes if chain else (), within_s=max(left_s, SETTLE_AT_LEAST_S)
        )
        return _Settled(settlement.next_grant, now_s)
