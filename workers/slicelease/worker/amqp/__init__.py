"""AMQP 0-9-1 for Trio: a connection without I/O, and its transport. See docs/amqp.md."""

from slicelease.worker.amqp.channel import Channel, Fetch
from slicelease.worker.amqp.consumer import Consumer
from slicelease.worker.amqp.dial import open_connection, open_connection_on
from slicelease.worker.amqp.errors import (
    AccessRefused,
    AmqpError,
    CannotConnect,
    ChannelAccessRefused,
    ChannelClosed,
    ConnectionClosed,
    ConnectionLost,
    ConsumerCancelled,
    ExchangeMissing,
    HeartbeatMissed,
    LoginRefused,
    MalformedMessage,
    NotFound,
    PreconditionFailed,
    ProtocolViolation,
    PublishRefused,
    QueueMissing,
    ResourceLocked,
    TooManyChannels,
    Unroutable,
    UrlError,
)
from slicelease.worker.amqp.handshake import Handshake
from slicelease.worker.amqp.message import Message
from slicelease.worker.amqp.properties import PERSISTENT, Properties
from slicelease.worker.amqp.reconnect import Backoff, Connected, Disconnected, keep_connected
from slicelease.worker.amqp.topology import QueueInfo
from slicelease.worker.amqp.transport import Connection, ConnectionStatistics
from slicelease.worker.amqp.url import ConnectionParameters
from slicelease.worker.amqp.values import LongString, Value

__all__ = [
    "PERSISTENT",
    "AccessRefused",
    "AmqpError",
    "Backoff",
    "CannotConnect",
    "Channel",
    "ChannelAccessRefused",
    "ChannelClosed",
    "Connected",
    "Connection",
    "ConnectionClosed",
    "ConnectionLost",
    "ConnectionParameters",
    "ConnectionStatistics",
    "Consumer",
    "ConsumerCancelled",
    "Disconnected",
    "ExchangeMissing",
    "Fetch",
    "Handshake",
    "HeartbeatMissed",
    "LoginRefused",
    "LongString",
    "MalformedMessage",
    "Message",
    "NotFound",
    "PreconditionFailed",
    "Properties",
    "ProtocolViolation",
    "PublishRefused",
    "QueueInfo",
    "QueueMissing",
    "ResourceLocked",
    "TooManyChannels",
    "Unroutable",
    "UrlError",
    "Value",
    "keep_connected",
    "open_connection",
    "open_connection_on",
]
