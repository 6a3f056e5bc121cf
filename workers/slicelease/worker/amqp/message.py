"""A message as it was delivered: the body, where it came from, and the channel that alone may settle it.

No I/O: settling goes through the channel that the message holds, so a delivery tag never reaches another channel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from slicelease.worker.amqp.errors import MalformedMessage
from slicelease.worker.amqp.properties import Properties, decode_properties
from slicelease.worker.amqp.values import Value

_NO_HEADERS: Mapping[str, Value] = {}


class Settles(Protocol):
    """What a message needs of its channel."""

    def ack(self, delivery_tag: int, multiple: bool = False) -> None:
        """Say that it is done."""

    def nack(self, delivery_tag: int, *, multiple: bool = False, requeue: bool = True) -> None:
        """Give it back."""

    def reject(self, delivery_tag: int, *, requeue: bool = False) -> None:
        """Refuse it."""


class Message:
    """One delivery.

    `delivery_tag` counts within the channel; `message_count` is what the queue held behind it (None when it was pushed
    to a consumer); `consumer_tag` is None when it was fetched. `body` is bytes, whole. Properties are decoded when they
    are first asked for; `encoded_properties` are the publisher's bytes, which `Channel.publish` sends on unchanged.
    """

    __slots__ = (
        "_properties",
        "body",
        "channel",
        "consumer_tag",
        "delivery_tag",
        "encoded_properties",
        "exchange",
        "message_count",
        "redelivered",
        "routing_key",
    )

    def __init__(
        self,
        channel: Settles | None,
        delivery_tag: int,
        redelivered: bool,
        exchange: str,
        routing_key: str,
        message_count: int | None,
        consumer_tag: str | None,
    ) -> None:
        self.channel = channel
        self.delivery_tag = delivery_tag
        self.redelivered = redelivered
        self.exchange = exchange
        self.routing_key = routing_key
        self.message_count = message_count
        self.consumer_tag = consumer_tag
        self.body = b""
        self.encoded_properties = b"\x00\x00"
        self._properties: Properties | None = None

    def __repr__(self) -> str:
        return f"<Message {self.delivery_tag} of {self.routing_key!r}, {len(self.body)} bytes>"

    @property
    def properties(self) -> Properties:
        """The basic properties. Raises MalformedMessage when the publisher's bytes cannot be read as such."""
        if self._properties is None:
            try:
                self._properties = decode_properties(self.encoded_properties)
            except ValueError as error:
                raise MalformedMessage(f"message {self.delivery_tag} of {self.routing_key!r}: {error}") from None
        return self._properties

    @property
    def headers(self) -> Mapping[str, Value]:
        """The header table; empty when there is none. Raises MalformedMessage like `properties`."""
        return self.properties.headers or _NO_HEADERS

    def ack(self) -> None:
        """Queue a basic.ack. Raises ChannelClosed or ConnectionLost when its channel is gone: it went back already."""
        self._settler().ack(self.delivery_tag)

    def nack(self, *, requeue: bool = True) -> None:
        """Queue a basic.nack. Raises like `ack`."""
        self._settler().nack(self.delivery_tag, requeue=requeue)

    def reject(self, *, requeue: bool = False) -> None:
        """Queue a basic.reject. Raises like `ack`."""
        self._settler().reject(self.delivery_tag, requeue=requeue)

    def _settler(self) -> Settles:
        if self.channel is None:
            raise RuntimeError("this message came over no channel")
        return self.channel
