"""When a lease must be renewed and when its holder must have stopped, by the holder's own clock.

May live here: arithmetic on instants and durations, pure. May not know: clocks; times are arguments, in float seconds of
Trio's monotonic clock, which no wall clock is ever compared with.
"""

from __future__ import annotations

from typing import NamedTuple

_MARGIN_SHARE = 20
_LONGEST_MARGIN_S = 1.0


class LeaseWindow(NamedTuple):
    """The validity of a lease: `valid_s` counted from `asked_s`, when the request that brought it was first sent.

    The ledger began to count later than that, so the window never ends after the lease. Property: for positive validity
    `asked_s < renew_at_s < stop_at_s < ends_at_s`.
    """

    asked_s: float
    valid_s: float

    @property
    def renew_at_s(self) -> float:
        """A third of the validity: two more tries fit before the end."""
        return self.asked_s + self.valid_s / 3

    @property
    def stop_at_s(self) -> float:
        """When the holder must have stopped: the end less a margin of a twentieth of the validity, at most 1 s.

        The margin pays for clocks that run at different rates and for giving the messages back.
        """
        return self.ends_at_s - min(self.valid_s / _MARGIN_SHARE, _LONGEST_MARGIN_S)

    @property
    def ends_at_s(self) -> float:
        """The end of the lease, as late as the holder may believe it."""
        return self.asked_s + self.valid_s

    def remaining_s(self, now_s: float) -> float:
        """What is left until the holder must have stopped; never below 0."""
        return max(0.0, self.stop_at_s - now_s)
