"""What client and broker tell each other before the connection is open.

Pure. The password is in the answer to connection.start and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pamqp import commands, common

from slicelease.worker.amqp import frames
from slicelease.worker.amqp.errors import COMMAND_INVALID, SYNTAX_ERROR, ProtocolViolation
from slicelease.worker.amqp.heartbeat import negotiate
from slicelease.worker.amqp.url import MAX_VHOST_LENGTH

MAX_HEARTBEAT_S = 65_535
_CAPABILITIES = (
    "publisher_confirms",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "authentication_failure_close",
)


@dataclass(frozen=True, slots=True)
class Handshake:
    """What the client says of itself. `heartbeat_s` is an offer in whole seconds, 0 for none. Raises ValueError."""

    user: str
    password: str = field(repr=False)
    vhost: str = "/"
    name: str = "slicelease"
    heartbeat_s: int = 5
    frame_max: int = frames.FRAME_MAX_SIZE
    channel_max: int = frames.CHANNEL_MAX

    def __post_init__(self) -> None:
        if "\0" in self.user or "\0" in self.password:
            raise ValueError("user and password must not hold a NUL: it separates them on the wire")
        if len(self.vhost) > MAX_VHOST_LENGTH:
            raise ValueError(f"a virtual host has at most {MAX_VHOST_LENGTH} characters")
        if not 0 <= self.heartbeat_s <= MAX_HEARTBEAT_S:
            raise ValueError(f"the heartbeat must be 0 to {MAX_HEARTBEAT_S} s")


def start_ok(handshake: Handshake, start: commands.Connection.Start) -> commands.Connection.StartOk:
    """Introduce ourselves: PLAIN, and what we can do. Raises ProtocolViolation when the server does not take PLAIN."""
    if "PLAIN" not in str(start.mechanisms).split():
        raise ProtocolViolation(COMMAND_INVALID, "the server does not take PLAIN authentication")
    about: common.FieldTable = {
        "product": "slicelease",
        "connection_name": handshake.name,
        "capabilities": dict.fromkeys(_CAPABILITIES, True),
    }
    return commands.Connection.StartOk(about, "PLAIN", f"\0{handshake.user}\0{handshake.password}", "en_US")


@dataclass(frozen=True, slots=True)
class Limits:
    """What both sides keep: the smaller of both proposals, where a broker's 0 is none."""

    channel_max: int
    frame_max: int
    heartbeat_s: int


def agree(handshake: Handshake, tune: commands.Connection.Tune) -> Limits:
    """The limits of the connection. Raises ProtocolViolation when the broker's frames would be too small."""
    frame_max = min(tune.frame_max or handshake.frame_max, handshake.frame_max)
    if frame_max < frames.FRAME_MIN_SIZE:
        raise ProtocolViolation(SYNTAX_ERROR, f"frame-max {frame_max} is below {frames.FRAME_MIN_SIZE}")
    channel_max = min(tune.channel_max or handshake.channel_max, handshake.channel_max)
    return Limits(channel_max, frame_max, negotiate(handshake.heartbeat_s, tune.heartbeat or 0))
