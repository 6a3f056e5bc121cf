"""What a connection reports, besides answered calls (`Call`) and deliveries to consumers (`Message`).

No I/O, no behaviour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from slicelease.worker.amqp.calls import Call
from slicelease.worker.amqp.errors import AmqpError
from slicelease.worker.amqp.message import Message

if TYPE_CHECKING:
    from slicelease.worker.amqp.channel_state import ChannelState


class Opened(NamedTuple):
    """The handshake is done."""


class Blocked(NamedTuple):
    """The broker does not read from connections that publish; `reason` is its text."""

    reason: str


class Unblocked(NamedTuple):
    """The broker reads again."""


class ConsumerGone(NamedTuple):
    """The broker ended a consumer."""

    channel: ChannelState
    consumer_tag: str


class ChannelGone(NamedTuple):
    """A channel closed, by whichever side; its calls were answered with the same error."""

    channel: ChannelState
    error: AmqpError


class ConnectionGone(NamedTuple):
    """The connection ended. Send what is still queued, then close the stream."""

    error: AmqpError


Event: TypeAlias = Call | Message | Opened | Blocked | Unblocked | ConsumerGone | ChannelGone | ConnectionGone
