"""Tickets: what is one, which slot takes it, when it goes back, how long it is held.

May live here: parsing and queueing decisions, pure. May not know: the broker, clocks; times are arguments, in float seconds.

    delivered ──▶ a slot is free: taken at once
        │
        └──▶ none is: waits ──▶ a slot becomes free within 500 ms: taken
                         └──▶ none does: nacked, so that another worker can take the turn

    taken ──▶ asked with ──▶ answered (granted and settled, or denied): acked
                     └──▶ no answer, or the lease was lost: held back a moment, then nacked
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Generic, TypeVar

from .leases import EndReason, Ticket

MAX_TICKET_BYTES = 8192
MAX_ANNOUNCEMENT_ID_CHARACTERS = 128
PATIENCE_S = 0.5
"""How long a delivered ticket waits for a free slot."""

T = TypeVar("T")


class NotATicketError(ValueError):
    """The body is no ticket; the text says why, fit for a header of the dead letter."""


def parse_ticket(class_id: str, body: bytes) -> Ticket:
    """The ticket in a body from `attention.<class_id>`. Raises NotATicketError."""
    if len(body) > MAX_TICKET_BYTES:
        raise NotATicketError(f"a ticket of {len(body)} bytes; at most {MAX_TICKET_BYTES} are read")
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        raise NotATicketError("the body is not JSON") from None
    if not isinstance(fields, dict):
        raise NotATicketError("the body is not a JSON object")
    announcement_id = fields.get("announcement_id", fields.get("announcementId"))
    if not isinstance(announcement_id, str) or not 1 <= len(announcement_id) <= MAX_ANNOUNCEMENT_ID_CHARACTERS:
        raise NotATicketError(
            "no announcement_id: attention is raised with routing key `work`, tickets come from the control plane"
        )
    return Ticket(class_id, announcement_id)


class TicketDesk(Generic[T]):
    """Brings delivered tickets and free slots together, first come first served; the last freed slot is used first.

    Property: a ticket waits only while no slot is free, and every ticket leaves exactly once, by `arrived`, `freed`,
    `overdue` or `withdraw`.
    """

    def __init__(self, slots: int, patience_s: float = PATIENCE_S) -> None:
        self._free = list(range(slots - 1, -1, -1))
        self._patience_s = patience_s
        self._waiting: deque[tuple[float, T]] = deque()

    @property
    def waiting_total(self) -> int:
        """Tickets in hand that no slot has taken."""
        return len(self._waiting)

    def arrived(self, ticket: T, now_s: float) -> int | None:
        """A ticket was delivered: the slot that takes it, or None when it waits."""
        if self._free:
            return self._free.pop()
        self._waiting.append((now_s + self._patience_s, ticket))
        return None

    def freed(self, slot: int) -> T | None:
        """A slot has done its turn: the ticket that it takes next, or None when it is free."""
        if self._waiting:
            return self._waiting.popleft()[1]
        self._free.append(slot)
        return None

    def overdue(self, now_s: float) -> list[T]:
        """Tickets that waited too long; they leave."""
        tickets = []
        while self._waiting and self._waiting[0][0] <= now_s:
            tickets.append(self._waiting.popleft()[1])
        return tickets

    @property
    def next_overdue_s(self) -> float:
        """When `overdue` will have something to tell; infinity while nothing waits."""
        return self._waiting[0][0] if self._waiting else math.inf

    def withdraw(self, gone: Callable[[T], bool]) -> list[T]:
        """Waiting tickets for which `gone` holds; they leave."""
        tickets = [ticket for _, ticket in self._waiting if gone(ticket)]
        self._waiting = deque(entry for entry in self._waiting if not gone(entry[1]))
        return tickets


class TurnEnd(Enum):
    """How the turn of a ticket ended."""

    ANSWERED = "the ledger gave the last word: a denial, or it settled"
    UNKNOWN = "no answer came, or the lease was lost without our settle"


def is_spent(end: TurnEnd) -> bool:
    """Whether the ticket is to be acked; otherwise it is held back a moment and nacked.

    A ticket is acked only on an answer that the ledger gave, for only then has the ledger recorded what brings the queue back.
    """
    return end is TurnEnd.ANSWERED


_NO_CHAIN = frozenset({EndReason.LEASE_LOST, EndReason.BROKER_LOST, EndReason.UNUSED, EndReason.SHUTDOWN})


def wants_next(reason: EndReason, now_s: float, hold_until_s: float, *, stopping: bool) -> bool:
    """Whether a slice that ends so asks for the next lease: while its ticket may be held, and it can work."""
    return not stopping and now_s < hold_until_s and reason not in _NO_CHAIN
