"""The states of a connection: a table. The diagram in docs/amqp.md and the transition tests come from it.

No I/O, no behaviour.
"""

from __future__ import annotations

from enum import Enum


class Phase(Enum):
    """Where a connection stands."""

    NEW = "new"
    AWAITS_START = "awaits start"
    AWAITS_TUNE = "awaits tune"
    AWAITS_OPEN_OK = "awaits open-ok"
    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"


class Trigger(Enum):
    """What moves a connection."""

    HEADER_SENT = "header sent"
    START = "start received"
    TUNE = "tune received"
    OPEN_OK = "open-ok received"
    CLOSE_SENT = "close sent"
    CLOSE_RECEIVED = "close received"
    CLOSE_OK = "close-ok received"
    LOST = "stream lost or protocol violated"


_ENDS = {Trigger.CLOSE_RECEIVED: Phase.CLOSED, Trigger.LOST: Phase.CLOSED}

TRANSITIONS: dict[Phase, dict[Trigger, Phase]] = {
    Phase.NEW: {Trigger.HEADER_SENT: Phase.AWAITS_START, Trigger.LOST: Phase.CLOSED},
    Phase.AWAITS_START: {Trigger.START: Phase.AWAITS_TUNE, **_ENDS},
    Phase.AWAITS_TUNE: {Trigger.TUNE: Phase.AWAITS_OPEN_OK, **_ENDS},
    Phase.AWAITS_OPEN_OK: {Trigger.OPEN_OK: Phase.OPEN, **_ENDS},
    Phase.OPEN: {Trigger.CLOSE_SENT: Phase.CLOSING, **_ENDS},
    # Both sides may close at once: then each answers the other.
    Phase.CLOSING: {Trigger.CLOSE_OK: Phase.CLOSED, **_ENDS},
    Phase.CLOSED: {},
}

OPENING = (Phase.NEW, Phase.AWAITS_START, Phase.AWAITS_TUNE, Phase.AWAITS_OPEN_OK)
"""The states before the connection can be used."""
