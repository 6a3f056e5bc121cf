"""The states of a channel: a table. The diagram in docs/amqp.md and the transition tests come from it.

No I/O, no behaviour.
"""

from __future__ import annotations

from enum import Enum


class ChannelPhase(Enum):
    """Where a channel stands."""

    OPENING = "opening"
    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"


class ChannelTrigger(Enum):
    """What moves a channel."""

    OPEN_OK = "open-ok received"
    CLOSE_SENT = "close sent"
    CLOSE_RECEIVED = "close received"
    CLOSE_OK = "close-ok received"
    CONNECTION_GONE = "connection gone"


CHANNEL_TRANSITIONS: dict[ChannelPhase, dict[ChannelTrigger, ChannelPhase]] = {
    ChannelPhase.OPENING: {
        # Calls may be queued behind the open: the broker reads them in order.
        ChannelTrigger.OPEN_OK: ChannelPhase.OPEN,
        ChannelTrigger.CLOSE_SENT: ChannelPhase.CLOSING,
        ChannelTrigger.CLOSE_RECEIVED: ChannelPhase.CLOSED,
        ChannelTrigger.CONNECTION_GONE: ChannelPhase.CLOSED,
    },
    ChannelPhase.OPEN: {
        ChannelTrigger.CLOSE_SENT: ChannelPhase.CLOSING,
        ChannelTrigger.CLOSE_RECEIVED: ChannelPhase.CLOSED,
        ChannelTrigger.CONNECTION_GONE: ChannelPhase.CLOSED,
    },
    ChannelPhase.CLOSING: {
        # Both sides closed at once: ours is answered all the same.
        ChannelTrigger.CLOSE_RECEIVED: ChannelPhase.CLOSING,
        ChannelTrigger.CLOSE_OK: ChannelPhase.CLOSED,
        ChannelTrigger.CONNECTION_GONE: ChannelPhase.CLOSED,
    },
    ChannelPhase.CLOSED: {},
}
