"""A link to the broker: one AMQP connection after another, for one purpose.

May know the AMQP client and how to wait. May not know what the link is used for.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import structlog
import trio

from . import amqp
from .ports import BrokerLostError

_log = structlog.get_logger(__name__)


class AmqpLink:
    """`dial` opens a connection; `about` says where to and what for, without secrets."""

    def __init__(
        self,
        dial: Callable[[], AbstractAsyncContextManager[amqp.Connection]],
        random_number: Callable[[], float],
        about: str,
        on_connected: Callable[[], None],
    ) -> None:
        self._dial = dial
        self._random = random_number
        self._about = about
        self._on_connected = on_connected
        self._connection: amqp.Connection | None = None
        self._connected = trio.Event()
        self._why_not = "not connected yet"

    async def run(self) -> None:
        """Stays connected until cancelled. Raises amqp.LoginRefused for a login refused at the start."""
        await amqp.keep_connected(self._dial, self._use, random_number=self._random, on_state=self._tell)

    def connection(self) -> amqp.Connection:
        """The connection. Raises BrokerLostError while there is none."""
        if self._connection is None or self._connection.closed is not None:
            raise BrokerLostError(self._why_not)
        return self._connection

    def unready_reason(self) -> str | None:
        """Why there is no connection now, or None."""
        return None if self._connection is not None else f"broker at {self._about}: {self._why_not}"

    async def wait_connected(self) -> None:
        """Returns while there is a connection."""
        while self._connection is None or self._connection.closed is not None:
            # A connection that has ended leaves `_use` in a moment, and the event is a new one then.
            await self._connected.wait()
            await trio.lowlevel.checkpoint()

    async def _use(self, connection: amqp.Connection) -> None:
        self._connection = connection
        self._connected.set()
        try:
            await trio.sleep_forever()
        finally:
            self._connection, self._connected = None, trio.Event()

    def _tell(self, state: amqp.Connected | amqp.Disconnected) -> None:
        if isinstance(state, amqp.Connected):
            _log.info("connected to the broker", broker=self._about)
            self._on_connected()
            return
        self._why_not = str(state.reason)
        _log.warning("no connection to the broker", broker=self._about, why=self._why_not, retry_in_s=round(state.retry_in_s, 2))
