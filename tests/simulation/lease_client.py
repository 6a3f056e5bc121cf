"""The lease client as the product's behaves, over the simulated network: numbers, repeats, gives late grants back.

May know the worker's port and the network. The product's own client cannot run here: gRPC has threads and clocks of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from functools import partial
from itertools import count
from random import Random

import trio

from slicelease.control_plane.domain.commands import SlotRequest
from slicelease.control_plane.domain.outcomes import Granted, Outcome
from slicelease.worker.leases import (
    Denial,
    Directive,
    EndReason,
    Grant,
    ProgressReport,
    Renewal,
    Settlement,
    SliceEnd,
    SliceTotals,
    Ticket,
    Welcome,
)
from slicelease.worker.ports import LeaseOverError, LeaseServiceUnavailableError, RequestRefusedError
from tests.unit.worker import twin_words

from .network import Call, LeaseCommand, Network, UnavailableError

GIVE_BACK_WITHIN_S = 2.0
_FIRST_BACKOFF_S, _BACKOFF_CAP_S = 0.05, 1.0


class SimLeases:
    """`worker.ports.LeaseClient` of one session."""

    def __init__(self, session: str, network: Network, dice: Random) -> None:
        self._session = session
        self._network = network
        self._dice = dice
        self._numbers: dict[int, int] = {}
        self._locks: dict[int, trio.Lock] = {}
        self._nursery: trio.Nursery | None = None
        self._context: Context | None = None
        self.severed = False

    async def run(
        self,
        on_directive: Callable[[Directive], None],
        *,
        task_status: trio.TaskStatus[Welcome] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        await trio.sleep(self._dice.random() * 0.05)
        self._context = copy_context()
        async with trio.open_nursery() as self._nursery:
            self._network.listeners[self._session] = on_directive
            task_status.started(Welcome(5.0, 15.0))
            try:
                await trio.sleep_forever()
            finally:
                self._nursery = None
                del self._network.listeners[self._session]

    def unready_reason(self) -> str | None:
        return None if self._nursery is not None else "no session yet"

    async def acquire(self, slot: int, classes: Sequence[str], ticket: Ticket | None, *, within_s: float) -> Grant | Denial:
        return twin_words.acquired(
            await self._request(slot, "acquire", lambda r: twin_words.acquire_command(r, classes, ticket), within_s)
        )

    async def progress(self, slot: int, report: ProgressReport, *, within_s: float) -> Renewal:
        return twin_words.renewed(await self._request(slot, "progress", lambda r: twin_words.renew_command(r, report), within_s))

    async def settle(self, slot: int, end: SliceEnd, *, next_among: Sequence[str], within_s: float) -> Settlement:
        return twin_words.settled(
            await self._request(slot, "settle", lambda r: twin_words.settle_command(r, end, next_among), within_s)
        )

    async def _request(self, slot: int, kind: str, build: Callable[[SlotRequest], LeaseCommand], within_s: float) -> Outcome:
        with trio.move_on_after(within_s):
            async with self._locks.setdefault(slot, trio.Lock()):
                n = self._numbers[slot] = self._numbers.get(slot, 0) + 1
                return await self._repeat(build(SlotRequest(self._session, slot, n, f"{kind} {n}")))
        raise LeaseServiceUnavailableError(f"no answer within {within_s:g} s")

    async def _repeat(self, command: LeaseCommand) -> Outcome:
        for failures in count(1):
            if self.severed:
                await trio.sleep_forever()
            call = Call(command, partial(self._answered_late, command.request.slot))
            self._network.send(call)
            try:
                return twin_words.accepted(await call.wait())
            except UnavailableError:
                ceiling_s = min(_BACKOFF_CAP_S, _FIRST_BACKOFF_S * 2.0 ** min(failures, 30))
                await trio.sleep(ceiling_s * (0.5 + 0.5 * self._dice.random()))
        raise AssertionError("count() ended")

    def _answered_late(self, slot: int, granted: Granted) -> None:
        if self._nursery is None or self._context is None or self.severed:
            return
        # In the worker's own context: the task belongs to its process, though the network starts it.
        self._context.run(self._nursery.start_soon, self._give_back, slot, twin_words.grant_of(granted))

    async def _give_back(self, slot: int, grant: Grant) -> None:
        try:
            end = SliceEnd(grant, EndReason.UNUSED, SliceTotals())
            await self.settle(slot, end, next_among=(), within_s=GIVE_BACK_WITHIN_S)
        except (LeaseOverError, LeaseServiceUnavailableError, RequestRefusedError):
            pass  # it runs out by itself
