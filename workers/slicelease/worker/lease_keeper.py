"""Renews the leases of a process, each at a third of its validity, and brings the ledger's word to the slices.

May know Trio, the lease client's port, scopes and slice machines. May not know the broker or handlers. One task sleeps
until the earliest renewal is due; a task is started for a renewal only then, so a slice that ends before costs nothing.
"""

from __future__ import annotations

import math
from typing import Any

import structlog
import trio

from .leased_scope import LeasedScope
from .leases import Directive, EndReason, Grant, ProgressReport, Renewal
from .ports import LeaseClient, LeaseOverError, LeaseServiceUnavailableError, RequestRefusedError
from .slice_machine import SliceMachine

_log = structlog.get_logger(__name__)


class HeldLease:
    """A lease in hand: its grant, slot, slice and scope."""

    __slots__ = ("grant", "machine", "renewable", "renewal", "scope", "slot")

    def __init__(self, slot: int, grant: Grant, machine: SliceMachine[Any], scope: LeasedScope) -> None:
        self.slot = slot
        self.grant = grant
        self.machine = machine
        self.scope = scope
        self.renewable = True
        self.renewal: trio.CancelScope | None = None

    def renewed(self, asked_s: float, renewal: Renewal) -> None:
        """Takes the answer to a progress report."""
        if renewal.valid_s is not None:
            self.scope.renew(asked_s, renewal.valid_s)
        if renewal.stop is not None:
            self.machine.stop(renewal.stop)
            self.renewable = renewal.stop is not EndReason.REVOKED


class LeaseKeeper:
    """The leases in hand of one process."""

    def __init__(self, leases: LeaseClient) -> None:
        self._leases = leases
        self._held: dict[str, HeldLease] = {}
        self._nap = trio.CancelScope()

    def __len__(self) -> int:
        return len(self._held)

    async def run(self) -> None:
        """Renews until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                with trio.CancelScope(deadline=self._start_due(nursery)) as self._nap:
                    await trio.sleep_forever()

    def keep(self, held: HeldLease) -> None:
        """Renew this lease from now on."""
        self._held[held.grant.lease] = held
        self._wake_at(held.scope.window.renew_at_s)

    def release(self, held: HeldLease) -> None:
        """The slice is about to be settled: no more renewals; one under way is given up."""
        self._held.pop(held.grant.lease, None)
        if held.renewal is not None:
            held.renewal.cancel()

    def direct(self, directive: Directive) -> None:
        """A directive was pushed; one for a lease that is not in hand (any more) is dropped."""
        held = self._held.get(directive.lease)
        if held is not None:
            held.machine.stop(directive.stop)

    def stop_all(self, reason: EndReason) -> None:
        """Every slice is to end at its next message boundary."""
        for held in self._held.values():
            held.machine.stop(reason)

    def abandon_all(self) -> None:
        """Whatever runs under a lease is cancelled, with SHUTDOWN as the reason."""
        for held in list(self._held.values()):
            held.scope.abandon()

    def _wake_at(self, when_s: float) -> None:
        if when_s < self._nap.deadline:
            self._nap.deadline = when_s

    def _start_due(self, nursery: trio.Nursery) -> float:
        """Starts what is due; when the next is."""
        now_s, next_s = trio.current_time(), math.inf
        for held in self._held.values():
            if held.renewal is not None or not held.renewable or held.scope.is_over(now_s):
                continue
            if held.scope.window.renew_at_s <= now_s:
                held.renewal = trio.CancelScope()
                nursery.start_soon(self._renew, held, held.renewal)
            else:
                next_s = min(next_s, held.scope.window.renew_at_s)
        return next_s

    async def _renew(self, held: HeldLease, scope: trio.CancelScope) -> None:
        with scope:
            await self._report(held)
        held.renewal = None
        if not scope.cancel_called and held.renewable:
            self._wake_at(held.scope.window.renew_at_s)

    async def _report(self, held: HeldLease) -> None:
        asked_s = trio.current_time()
        report = ProgressReport(held.grant, held.machine.totals, "", held.machine.finished_ids)
        try:
            renewal = await self._leases.progress(held.slot, report, within_s=held.scope.window.remaining_s(asked_s))
        except LeaseServiceUnavailableError:
            return  # its time is up; the scope's own deadline says so
        except (LeaseOverError, RequestRefusedError) as error:
            _log.warning("lease lost", lease=held.grant.lease, why=str(error))
            held.scope.lose()
            return
        held.machine.reported(report.finished_ids)
        held.renewed(asked_s, renewal)
