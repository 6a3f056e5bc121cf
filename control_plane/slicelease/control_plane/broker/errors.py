"""What the driver's errors mean, in the port's words.

May live here: the one translation of aio-pika's and aiormq's errors. A driver's text never goes further: it may hold a
URL, a name of the broker's inside, or the words of another version. The log has the broker's reply to a refused call.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from types import TracebackType
from typing import Self

import structlog
from aio_pika.exceptions import (
    AMQPChannelError,
    AMQPError,
    AuthenticationError,
    ChannelInvalidStateError,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    DeliveryError,
    InvalidFrameError,
    ProbableAuthenticationError,
    PublishError,
)
from aiormq.exceptions import ChannelLockedResource, ConnectionNotAllowed
from pamqp.exceptions import PAMQPException

from slicelease.control_plane.ports import BrokerUnavailableError, QueueFullError, QueueGoneError

DRIVER_ERRORS = (AMQPError, ChannelInvalidStateError, OSError, RuntimeError, PAMQPException, EOFError)
"""All that a call of the driver raises for the broker's or the network's sake; TimeoutError is an OSError."""

_log = structlog.get_logger(__name__)

LOST = "the connection to RabbitMQ was lost"

_INEQUIVALENT = re.compile(r"inequivalent arg '([^']+)'")


class BrokerCall:
    """Context of one call: translates what the driver raises. `what` completes "RabbitMQ refused to ...".

    The driver raises CancelledError into its callers when a connection ends by its own hand (a missed heartbeat): nobody
    cancelled us then, so it is a lost connection, and must not end the task that asked. And it can swallow a cancellation of
    ours, which comes at the moment of a failure (`asyncio.wait_for` of Python 3.11 does): that is raised in its place.
    """

    __slots__ = ("_cancels", "_task", "_what")

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        self._cancels = self._task.cancelling() if self._task else 0
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        cancelled = self._task is not None and self._task.cancelling() > self._cancels
        if isinstance(error, asyncio.CancelledError):
            if cancelled:
                return
            raise BrokerUnavailableError(LOST) from None
        if isinstance(error, DRIVER_ERRORS):
            raise (asyncio.CancelledError() if cancelled else self.translated(error)) from None

    def translated(self, error: BaseException) -> Exception:
        """The port's error for one of the driver's."""
        if isinstance(error, TimeoutError):
            return BrokerUnavailableError(f"RabbitMQ did not {self._what} in time")
        if isinstance(error, AMQPChannelError):
            _log.warning("RabbitMQ refused a call", call=self._what, reply=str(error))
            return BrokerUnavailableError(f"RabbitMQ refused to {self._what}")
        return BrokerUnavailableError(LOST)


class PublishCall(BrokerCall):
    """Context of a publish: a refusal has a meaning of its own."""

    __slots__ = ()

    def translated(self, error: BaseException) -> Exception:
        """Returned, or no such exchange; a negative confirm; else as any call."""
        if isinstance(error, (PublishError, ChannelNotFoundEntity)):
            return QueueGoneError("RabbitMQ has no such queue")
        if isinstance(error, DeliveryError):
            return QueueFullError("RabbitMQ refused the message")
        return super().translated(error)


def differing_argument(error: ChannelPreconditionFailed | ChannelLockedResource) -> str:
    """The argument in which an existing queue or exchange differs from its declaration, as the broker names it."""
    if isinstance(error, ChannelLockedResource):
        return "exclusive"
    found = _INEQUIVALENT.search(str(error))
    return found.group(1) if found else "arguments"


def why_not_connected(error: BaseException) -> str:
    """What to tell people when a connection could not be opened; holds no secret and no driver's text."""
    if isinstance(error, (ProbableAuthenticationError, AuthenticationError)):
        return "RabbitMQ refuses the user or password"
    if isinstance(error, (ConnectionNotAllowed, InvalidFrameError)):
        return "RabbitMQ refuses the connection: no such virtual host, or the user may not enter it"
    if isinstance(error, ssl.SSLError) or isinstance(error.__cause__, ssl.SSLError):
        return "TLS with RabbitMQ failed"
    if isinstance(error, TimeoutError):
        return "RabbitMQ does not answer"
    return "RabbitMQ cannot be reached"
