"""The ledger behind its port: one call of the Lua library a step, over one connection that is shared by all callers.

May live here: connecting again, loading the library, which errors mean what. May not know: what commands do.
A step is sent once. It is sent again only where the store said that it did not run it: the library was missing, or another
node of the cluster holds the cell.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import structlog

from slicelease.control_plane.domain.commands import Command, Ping
from slicelease.control_plane.domain.ledger import REPORT_LIMIT
from slicelease.control_plane.domain.ledger.leases import LAPSED_KEPT, STEP_LIMIT
from slicelease.control_plane.domain.ledger.running import TOP_UP_LIMIT
from slicelease.control_plane.domain.names import DEFAULT_QUEUE, check_id
from slicelease.control_plane.domain.outcomes import Failed, Outcome
from slicelease.control_plane.domain.policy import LedgerConfig
from slicelease.control_plane.ports import LedgerUnavailableError, LedgerVersionError

from . import store
from .codec import CodecError, Value, command_arguments, config_arguments, outcome_of
from .keys import ATTEMPTS_TTL_MS, prefix
from .library import Library, library
from .wire import ReplyError, WireLostError

_log = structlog.get_logger(__name__)

TIMEOUT_S = 2.0
"""How long a step, or a connection with its first words, may take."""

_RETRY_S = 0.2
"""How long a failed connection attempt answers for those that follow it; half of it is chance."""

_TRIES = 3
"""A step, after the library was loaded, after the way to its node was learnt."""


class RedisLedger:
    """Implements ports.Ledger. One event loop; connects when first asked, and again whenever the connection is lost."""

    def __init__(
        self, url: str, cell: str, config: LedgerConfig, *, timeout_s: float = TIMEOUT_S, functions: Library | None = None
    ) -> None:
        """`cell` names the installation's keys (an id). Raises ValueError for a URL or cell that cannot be."""
        self._home = self._address = store.Address.of(url)
        self._prefix = prefix(check_id("cell", cell))
        self._timeout_s = timeout_s
        self._library = functions or library()
        self._header = [0, *step_header(config)]
        self._connection: store.Connection | None = None
        self._connecting = asyncio.Lock()
        self._failed: tuple[float, LedgerUnavailableError] | None = None

    @classmethod
    async def connect(cls, url: str, cell: str, config: LedgerConfig, *, timeout_s: float = TIMEOUT_S) -> RedisLedger:
        """A ledger that has answered once: the store is there, fit, and holds no newer schema.

        Raises LedgerUnavailableError (UnsuitableStoreError where waiting will not help), LedgerVersionError, ValueError.
        """
        ledger = cls(url, cell, config, timeout_s=timeout_s)
        await ledger._first_step()
        return ledger

    @classmethod
    async def open(cls, url: str, cell: str, config: LedgerConfig, *, timeout_s: float = TIMEOUT_S) -> RedisLedger:
        """As `connect`, for who can wait: a store that is away, and may come, is only logged."""
        ledger = cls(url, cell, config, timeout_s=timeout_s)
        try:
            await ledger._first_step()
        except store.UnsuitableStoreError:
            raise
        except LedgerUnavailableError as away:
            _log.warning("ledger_store_away", reason=str(away))
        return ledger

    async def _first_step(self) -> None:
        try:
            await self.execute([Ping()])
        except BaseException:
            await self.close()
            raise

    async def execute(self, commands: Sequence[Command]) -> list[Outcome]:
        """One atomic step; see ports.Ledger."""
        arguments: list[Value] = [*self._header, len(commands)]
        for command in commands:
            command_arguments(arguments, command)
        return self._outcomes(await self._step(arguments))

    async def close(self) -> None:
        """Ends the connection; the next step opens another."""
        if self._connection is not None:
            self._connection.wire.drop()
            self._connection = None

    # ---- one step ----

    async def _step(self, arguments: list[Value]) -> Any:
        for _ in range(_TRIES):
            connection = await self._connected()
            head: list[Value] = ["FCALL", self._library.step, 1, self._prefix, connection.run_id]
            try:
                async with asyncio.timeout(self._timeout_s):
                    return await connection.wire.ask(head + arguments)
            except ReplyError as error:
                await self._after_error(connection, error)
            except TimeoutError:
                raise self._dropped(connection, f"no answer within {self._timeout_s} s") from None
            except WireLostError:
                raise self._dropped(connection, "the connection was lost") from None
        raise LedgerUnavailableError(f"Redis at {self._address.shown}: the library does not stay loaded")

    async def _after_error(self, connection: store.Connection, error: ReplyError) -> None:
        """Returns when the step did not run and can be sent again; raises LedgerUnavailableError otherwise."""
        if error.code == "MOVED":
            self._dropped(connection, "moved")
            host, _, port = error.text.split(" ")[2].rpartition(":")
            self._address = self._address.moved(host, int(port))
        elif "Function not found" in error.text:
            await self._load(connection)
        else:
            _log.warning("ledger_store_error", address=self._address.shown, code=error.code)
            raise self._dropped(connection, f"it answered {error.code}") from None

    async def _load(self, connection: store.Connection) -> None:
        """Loads the library beside those of other versions; one that is there already is the same text."""
        try:
            async with asyncio.timeout(self._timeout_s):
                await connection.wire.ask(["FUNCTION", "LOAD", self._library.text])
        except ReplyError as error:
            if "already exists" not in error.text:
                _log.error("ledger_library_refused", address=self._address.shown, text=error.text)
                raise self._dropped(connection, f"it refused the library: {error.code}") from None
        except (TimeoutError, WireLostError):
            raise self._dropped(connection, "the library was not loaded in time") from None
        _log.info("ledger_library_loaded", address=self._address.shown, library=self._library.name)

    def _outcomes(self, reply: Any) -> list[Outcome]:
        word, *answers = reply
        if word == "SCHEMA":
            raise LedgerVersionError(
                f"the ledger at {self._address.shown} has schema {answers[0]}, this software works with schema {answers[1]}"
            )
        try:
            outcomes = [outcome_of(answer) for answer in answers]
        except CodecError as wrong:
            raise LedgerUnavailableError(f"Redis at {self._address.shown} answered no outcome") from wrong
        for outcome in outcomes:
            if isinstance(outcome, Failed):
                _log.error("ledger_command_failed", address=self._address.shown, cause=outcome.cause)
        return outcomes

    # ---- the connection ----

    async def _connected(self) -> store.Connection:
        if self._connection is not None and not self._connection.wire.lost:
            return self._connection
        async with self._connecting:
            if self._connection is None or self._connection.wire.lost:
                self._connection = await self._connect()
        return self._connection

    async def _connect(self) -> store.Connection:
        now_s = asyncio.get_running_loop().time()
        if self._failed is not None and now_s < self._failed[0]:
            raise self._failed[1]
        try:
            async with asyncio.timeout(self._timeout_s):
                connection = await store.connect(self._address)
        except store.UnsuitableStoreError as error:
            raise self._remembered(error) from None
        except ReplyError as error:
            raise self._remembered(self._away(f"it answered {error.code}")) from None
        except (OSError, TimeoutError, WireLostError) as error:
            self._address = self._home
            raise self._remembered(self._away(_kind_of(error))) from None
        self._failed = None
        return connection

    def _remembered(self, error: LedgerUnavailableError) -> LedgerUnavailableError:
        pause_s = _RETRY_S * random.uniform(0.5, 1)  # noqa: S311 - spreads attempts, guards nothing
        self._failed = (asyncio.get_running_loop().time() + pause_s, error)
        return error

    def _dropped(self, connection: store.Connection, why: str) -> LedgerUnavailableError:
        connection.wire.drop()
        if self._connection is connection:
            self._connection = None
        return self._away(why)

    def _away(self, why: str) -> LedgerUnavailableError:
        return LedgerUnavailableError(f"Redis at {self._address.shown}: {why}")


def step_header(config: LedgerConfig) -> list[Value]:
    """What every step is told beside the run and the time: 90_step.lua's configuration."""
    return [
        *config_arguments(config), STEP_LIMIT, TOP_UP_LIMIT, LAPSED_KEPT, REPORT_LIMIT, ATTEMPTS_TTL_MS, DEFAULT_QUEUE,
    ]  # fmt: skip


def _kind_of(error: Exception) -> str:
    """The kind of failure, in words that cannot hold a secret."""
    if isinstance(error, TimeoutError):
        return "no connection in time"
    return f"no connection ({type(error).__name__})"
