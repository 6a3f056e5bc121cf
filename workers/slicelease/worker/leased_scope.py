"""A lease as a cancel scope whose deadline lives in the ledger: renewing moves it, losing it cancels what runs inside.

May know Trio and the lease's window. May not know who renews, or what runs inside.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

import trio

from .lease_window import LeaseWindow
from .leases import EndReason


class LeasedScope:
    """Use it once, as a context manager around what the lease allows; Cancelled does not leave it when it was the cause.

    Why it ended has one answer, however many causes met: a lost lease wins over an end of the worker's grace.
    """

    def __init__(self, window: LeaseWindow) -> None:
        self.window = window
        self._abandoned = False
        self._scope = trio.CancelScope(deadline=window.stop_at_s)

    def __enter__(self) -> Self:
        self._scope.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return self._scope.__exit__(kind, error, traceback)

    def renew(self, asked_s: float, valid_s: float) -> None:
        """The ledger renewed the lease: validity `valid_s` from `asked_s`. Without effect once the scope is over."""
        self.window = LeaseWindow(asked_s, valid_s)
        self._scope.deadline = self.window.stop_at_s

    def lose(self) -> None:
        """The ledger says that the lease is over."""
        self._abandoned = False
        self._scope.cancel()

    def abandon(self) -> None:
        """The holder cannot wait any longer, though the lease stands."""
        if not self._scope.cancel_called:
            self._abandoned = True
            self._scope.cancel()

    @property
    def over(self) -> bool:
        """Whether the time is up or the scope was cancelled; then nothing that ran inside may be acked."""
        return self._scope.cancel_called

    @property
    def cause(self) -> EndReason:
        """Why it is over: LEASE_LOST, or SHUTDOWN when it was abandoned."""
        return EndReason.SHUTDOWN if self._abandoned else EndReason.LEASE_LOST
