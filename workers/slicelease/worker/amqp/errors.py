"""What can go wrong with AMQP, split by who is to blame.

Here live exceptions and the one table from a broker's reply code to a class. No I/O, no broker knowledge beyond the
codes of AMQP 0-9-1. No text here may carry a password: the errors of a URL never quote the URL.
"""

from __future__ import annotations

import copy
from typing import Self

REPLY_SUCCESS = 200
"""The reply code of an ordinary close."""

FRAME_ERROR = 501
SYNTAX_ERROR = 502
COMMAND_INVALID = 503
CHANNEL_ERROR = 504
UNEXPECTED_FRAME = 505

_CLASS_EXCHANGE, _CLASS_QUEUE, _METHOD_PUBLISH, _METHOD_BIND = 40, 50, (60, 40), (50, 20)


class AmqpError(Exception):
    """Anything that this client reports."""

    def fresh(self) -> Self:
        """A copy without traceback, to be raised in one of the several tasks that the same fault ends."""
        twin = copy.copy(self)
        twin.__traceback__, twin.__cause__, twin.__context__ = None, self.__cause__, None
        return twin


class UrlError(AmqpError, ValueError):
    """The AMQP URL cannot be used: the caller's settings are to blame. Never quotes the URL."""


class ConnectionLost(AmqpError):  # noqa: N818  the name says what happened, as in Trio
    """The connection is gone; nobody knows what became of calls without an answer. Dial again."""


class CannotConnect(ConnectionLost):
    """There never was a connection: name, network, TLS or time. Dial again."""


class HeartbeatMissed(ConnectionLost):
    """The broker was silent for two heartbeat intervals."""


class ConnectionClosed(ConnectionLost):
    """The connection was closed in good order, by the broker (with its code) or by us (code 200)."""

    def __init__(self, code: int, text: str, *, by_broker: bool) -> None:
        who = "the broker" if by_broker else "this client"
        super().__init__(f"connection closed by {who}: {code} {text}")
        self.code, self.text, self.by_broker = code, text, by_broker

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_connection_closed, (self.code, self.text, self.by_broker)


def _rebuild_connection_closed(code: int, text: str, by_broker: bool) -> ConnectionClosed:
    return ConnectionClosed(code, text, by_broker=by_broker)


class ProtocolViolation(ConnectionLost):
    """The peer sent what AMQP 0-9-1 does not allow; `code` is the reply code that we closed the connection with."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"protocol violation by the peer, {code}: {text}")
        self.code, self.text = code, text

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.code, self.text)


class AccessRefused(AmqpError):  # noqa: N818  a state of affairs
    """The broker knows us and says no: credentials, virtual host or a permission (403, 530)."""


class LoginRefused(AccessRefused):
    """User name, password or virtual host were refused while connecting. Dialling again does not help by itself."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"access refused by the broker: {code} {text}")
        self.code, self.text = code, text

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.code, self.text)


class ChannelClosed(AmqpError):  # noqa: N818  a state of affairs
    """The channel is closed: `code` and `text` say why, `method` is (class id, method id) of the call to blame.

    Code 200 means that this client closed it. Delivery tags of the channel are void; its unacked messages went back.
    """

    def __init__(self, code: int, text: str, method: tuple[int, int] = (0, 0)) -> None:
        super().__init__(f"channel closed: {code} {text}")
        self.code, self.text, self.method = code, text, method

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.code, self.text, self.method)


class ChannelAccessRefused(ChannelClosed, AccessRefused):
    """403: no permission for what was asked, or the queue is held exclusively."""


class NotFound(ChannelClosed):
    """404: what was named does not exist."""


class QueueMissing(NotFound):
    """404: the queue does not exist."""


class ExchangeMissing(NotFound):
    """404: the exchange does not exist."""


class ResourceLocked(ChannelClosed):
    """405: another connection holds the queue exclusively."""


class PreconditionFailed(ChannelClosed):
    """406: exists with other arguments, not empty, unknown delivery tag, or the consumer timeout ran out."""


class TooManyChannels(AmqpError):  # noqa: N818  a state of affairs
    """Every channel number of the connection is in use."""


class ConsumerCancelled(AmqpError):  # noqa: N818  a state of affairs
    """The broker ended the consumer: its queue was deleted, or its node went away."""


class Unroutable(AmqpError):  # noqa: N818  a state of affairs
    """A mandatory message reached no queue and was returned."""

    def __init__(self, exchange: str, routing_key: str, code: int, text: str) -> None:
        super().__init__(f"no queue for exchange {exchange!r}, routing key {routing_key!r}: {code} {text}")
        self.exchange, self.routing_key, self.code, self.text = exchange, routing_key, code, text

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.exchange, self.routing_key, self.code, self.text)


class PublishRefused(AmqpError):  # noqa: N818  a state of affairs
    """The broker answered the publish with basic.nack: it did not take the message (a full queue, for one)."""


class MalformedMessage(AmqpError):  # noqa: N818  a state of affairs
    """The properties of one message cannot be decoded. The connection is sound; dead-letter the message."""


_BY_CODE: dict[int, type[ChannelClosed]] = {403: ChannelAccessRefused, 405: ResourceLocked, 406: PreconditionFailed}


def channel_closed(code: int, text: str, method: tuple[int, int]) -> ChannelClosed:
    """The error for a channel.close with this reply code, text and (class id, method id)."""
    if code != 404:
        return _BY_CODE.get(code, ChannelClosed)(code, text, method)
    exchange = method[0] == _CLASS_EXCHANGE or method == _METHOD_PUBLISH
    if method == _METHOD_BIND:  # a bind names both
        exchange = "no exchange" in text
    return (ExchangeMissing if exchange else QueueMissing)(code, text, method)


def connection_closed(code: int, text: str, *, while_opening: bool) -> AmqpError:
    """The error for a connection.close of the broker: refused access while opening, a lost connection after."""
    if while_opening and code in (403, 530):
        return LoginRefused(code, text)
    return ConnectionClosed(code, text, by_broker=True)
