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
        self._stop_at_s = window.stop_at_s
        self._lost = False
        self._abandoned = False
        self._scope = trio.CancelScope(deadline=self._stop_at_s)

    def __enter__(self) -> Self:
        self._scope.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return self._scope.__exit__(kind, error, traceback)

    def renew(self, asked_s: float, valid_s: float) -> None:
        """The ledger renewed the lease: validity `valid_s` from `asked_s`. Too late, it has no effect."""
        if self.is_over(trio.current_time()):
            return
        self.window = LeaseWindow(asked_s, valid_s)
        self._stop_at_s = self._scope.deadline = self.window.stop_at_s

    def lose(self) -> None:
        """The ledger says that the lease is over."""
        self._lost = True
        self._scope.cancel()

    def abandon(self) -> None:
        """The holder cannot wait any longer, though the lease stands."""
        self._abandoned = True
        self._scope.cancel()

    def is_over(self, now_s: float) -> bool:
        """Whether the time is up or the scope was cancelled; then nothing that ran inside may be acked.

        Seen by the clock alone, too: a worker that was frozen past its lease, or whose handler blocked the loop, may come
        here before Trio has looked at the deadline.
        """
        return self._lost or self._abandoned or now_s >= self._stop_at_s

    def cause(self, now_s: float) -> EndReason:
        """Why it is over: LEASE_LOST, or SHUTDOWN when it was abandoned in time."""
        in_time = self._abandoned and not self._lost and now_s < self._stop_at_s
        return EndReason.SHUTDOWN if in_time else EndReason.LEASE_LOST
