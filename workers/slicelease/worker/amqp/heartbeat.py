"""Heartbeats: when to send one, when to give the peer up.

Pure functions of monotonic times in seconds; nothing here reads a clock.
"""

from __future__ import annotations


def negotiate(offered_s: int, proposed_s: int) -> int:
    """The interval that both sides keep: the shorter one; ours when the broker proposes none; 0 when we want none."""
    return min(offered_s, proposed_s or offered_s)


def send_due(interval_s: int, last_sent: float) -> float:
    """When a heartbeat must go out if nothing else did: half an interval after the last byte."""
    return last_sent + interval_s / 2


def lost_at(interval_s: int, last_received: float, stalled_until: float) -> float:
    """When a silent peer counts as lost: two intervals after its last byte.

    After a stall of our own (the loop did not run until `stalled_until`) what it sent may lie unread, so it gets half an
    interval from then.
    """
    return max(last_received + 2 * interval_s, stalled_until + interval_s / 2)
