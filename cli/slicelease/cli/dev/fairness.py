"""How evenly tenants that competed were served.

May live here: Jain's index and the window it is taken over. May not know: clocks, where service is measured.

The index is J = (Σx)² / (n · Σx²), 1/n to 1 (Jain, Chiu, Hawe 1984). A class's window opens when the whole load is
published and closes when three quarters of the class's messages that were open then are processed (by then its
competitors have had several slices each, and fair queueing lets two of them differ by one slice). Its competitors are the tenants
that have a backlog at the close: nothing was published meanwhile, so each had one all the time, and fair queueing owes
all of them the same. A competitor's x is the slot time that it got in the window divided by the mean of its class's
competitors, because classes are not meant to be served alike. J is taken over the competitors of all classes in one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


def jain_index(shares: Iterable[float]) -> float:
    """Jain's index of the shares, between 1/n and 1; 1 where fewer than two share, or nothing was shared."""
    values = list(shares)
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def relative(shares: Iterable[int]) -> list[float]:
    """Each share over the mean of all; empty where nothing was shared."""
    values = list(shares)
    total = sum(values)
    return [value * len(values) / total for value in values] if total else []


@dataclass(slots=True)
class ClassWindow:
    """One class's window. Service is the slot time, in ms, that each tenant was given so far."""

    open_messages: int
    at_open_ms: Mapping[str, int]
    shares: list[float] | None = field(default=None)
    """Set at the close."""

    def may_close(self, open_messages: int) -> bool:
        """Whether three quarters of what was open then are processed."""
        return self.shares is None and open_messages * 4 <= self.open_messages

    def close(self, competitors: Iterable[str], now_ms: Mapping[str, int]) -> None:
        """Takes the competitors' shares."""
        self.shares = relative(now_ms.get(name, 0) - self.at_open_ms.get(name, 0) for name in competitors)


def index_of(windows: Iterable[ClassWindow]) -> float:
    """Jain's index over the closed windows."""
    return jain_index(share for window in windows for share in window.shares or ())
