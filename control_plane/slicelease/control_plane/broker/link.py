"""One connection to RabbitMQ that is opened again whenever it ends.

May live here: connecting, back-off, whether it is up or blocked. May not know: channels, queues, messages. aio-pika's
robust connection is not used: it restores channels and consumers behind the caller's back, so an ack could meet a
channel that never delivered its message, and it comes back at a fixed interval without jitter.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import cast

import aio_pika
import structlog
from aiormq.abc import AbstractConnection
from aiormq.channel import Channel
from yarl import URL

from slicelease.control_plane.ports import BrokerUnavailableError

from .backoff import Backoff
from .errors import DRIVER_ERRORS, LOST, BrokerCall, why_not_connected

_log = structlog.get_logger(__name__)

BLOCKED = "RabbitMQ blocks publishers (memory or disk alarm)"
_CONNECT_TIMEOUT_S = 10.0
_CLOSE_TIMEOUT_S = 3.0
_BACKOFF_BASE_S = 0.25
_BACKOFF_CAP_S = 8.0


def amqp_url(text: str, *, heartbeat_s: int, name: str) -> URL:
    """The address with our heartbeat and the name that operators see; raises ValueError without repeating the text."""
    try:
        url = URL(text)
        usable = url.scheme in ("amqp", "amqps") and bool(url.host)
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("the AMQP address must be amqp://user:password@host:port/vhost or amqps://...") from None
    return url.update_query(heartbeat=str(heartbeat_s), name=name)


class Link:
    """Keeps one connection while `run` runs."""

    def __init__(self, url: URL, random: Callable[[], float]) -> None:
        self.url = url
        self._backoff = Backoff(_BACKOFF_BASE_S, _BACKOFF_CAP_S, random)
        self._current: AbstractConnection | None = None
        self._came_up = asyncio.Event()
        self._down_reason = "not yet connected to RabbitMQ"

    async def run(self) -> None:
        """Connects, waits for the end of the connection, and so on until cancelled."""
        while True:
            try:
                connection = await aio_pika.connect(self.url, timeout=_CONNECT_TIMEOUT_S)
                await self._serve(connection)
            except DRIVER_ERRORS as error:
                if _cancelled():  # and the driver has swallowed it
                    raise asyncio.CancelledError from None
                self._fell(why_not_connected(error))
            except asyncio.CancelledError:
                if _cancelled():
                    raise
                self._fell(LOST)
            await asyncio.sleep(self._backoff.next_s())

    async def connection(self) -> AbstractConnection:
        """The live connection, waiting for one: the caller bounds the time."""
        while self._current is None:
            await self._came_up.wait()
        return self._current

    def usable_connection(self) -> AbstractConnection | None:
        """The live connection, unless it is blocked."""
        return None if self._current is None or is_blocked(self._current) else self._current

    def unready_reason(self) -> str | None:
        """Why it cannot be used now, or None."""
        if self._current is None:
            return self._down_reason
        return BLOCKED if is_blocked(self._current) else None

    async def _serve(self, connection: aio_pika.abc.AbstractConnection) -> None:
        opened_s = asyncio.get_running_loop().time()
        try:
            self._rose(underlay(connection))
            await asyncio.wait({underlay(connection).closing})
            self._fell(LOST)
        finally:
            self._current = None
            self._came_up.clear()
            if asyncio.get_running_loop().time() - opened_s > _BACKOFF_CAP_S:
                self._backoff.reset()
            await _close(connection)

    def _rose(self, connection: AbstractConnection) -> None:
        self._current = connection
        self._came_up.set()
        _log.info("connected to RabbitMQ", connection=self.url.query.get("name"))

    def _fell(self, reason: str) -> None:
        if self._current is not None or reason != self._down_reason:
            _log.warning("no connection to RabbitMQ", connection=self.url.query.get("name"), reason=reason)
        self._current = None
        self._came_up.clear()
        self._down_reason = reason


@contextlib.asynccontextmanager
async def single_use_connection(url: URL) -> AsyncIterator[AbstractConnection]:
    """A connection for one talk that may cost it; the caller bounds the time."""
    connection = await aio_pika.connect(url, timeout=_CONNECT_TIMEOUT_S)
    try:
        yield underlay(connection)
    finally:
        await _close(connection)


async def open_channel(connection: AbstractConnection, *, confirms: bool) -> Channel:
    """A channel whose buffer of replies has no bound: a bounded one that nobody empties stops the whole connection."""
    channel = await connection.channel(publisher_confirms=confirms, on_return_raises=True, frame_buffer_size=0)
    return cast(Channel, channel)  # the abstract class leaves out the frame queues


def underlay(connection: aio_pika.abc.AbstractConnection) -> AbstractConnection:
    """aio-pika's protocol layer of a connection that has just been opened."""
    if connection.transport is None:
        raise ConnectionError("closed already")
    return connection.transport.connection


async def _close(connection: aio_pika.abc.AbstractConnection) -> None:
    with contextlib.suppress(BrokerUnavailableError), BrokerCall("close a connection"):
        async with asyncio.timeout(_CLOSE_TIMEOUT_S):
            await connection.close()


def _cancelled() -> bool:
    """Whether a CancelledError is ours; the driver has its own, see BrokerCall."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def is_blocked(connection: AbstractConnection) -> bool:
    """Whether the broker has told this connection that it does not read it.

    The driver says so only through `ready`, which waits; one step of it tells without waiting.
    """
    ready = connection.ready()
    try:
        ready.send(None)
    except StopIteration:
        return False
    finally:
        ready.close()
    return True
