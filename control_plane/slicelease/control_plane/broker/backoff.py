"""How long to wait before the next attempt. Pure: randomness is an argument; knows no clock and no connection."""

from __future__ import annotations

from collections.abc import Callable


class Backoff:
    """Growing, capped and jittered delays.

    The n-th delay lies between half and the whole of min(cap, base · 2ⁿ): never zero, so nobody loops hot; spread, so
    that a hundred clients of one restarted broker do not come back in one instant; capped, so that none stays away.
    """

    def __init__(self, base_s: float, cap_s: float, random: Callable[[], float]) -> None:
        self._base_s = base_s
        self._cap_s = cap_s
        self._random = random  # uniform in [0, 1)
        self._attempt = 0

    def reset(self) -> None:
        """The last attempt succeeded and lasted."""
        self._attempt = 0

    def next_s(self) -> float:
        """The next delay in seconds."""
        ceiling_s = min(self._cap_s, self._base_s * (1 << min(self._attempt, 30)))
        self._attempt += 1
        return ceiling_s * (1 + self._random()) / 2
