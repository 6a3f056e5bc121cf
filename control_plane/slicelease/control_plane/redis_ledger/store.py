"""Getting to the store: addresses, TLS, the first words on a connection, and whether it is fit to hold a ledger.

May live here: URLs and handshakes. May not know: commands, outcomes, the library.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from redis.asyncio.connection import parse_url

from slicelease.control_plane.ports import LedgerUnavailableError

from .wire import Wire

_KNOWN = {
    "host", "port", "path", "db", "username", "password", "connection_class", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile",
    "ssl_cert_reqs", "ssl_check_hostname",
}  # fmt: skip
DEFAULT_PORT = 6379


class UnsuitableStoreError(LedgerUnavailableError):
    """The store is there and must not hold a ledger; the text says what to change."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the store is. The secrets are in `options` only, which is never shown."""

    shown: str
    options: dict[str, Any] = field(repr=False)

    @classmethod
    def of(cls, url: str) -> Address:
        """From redis://, rediss:// or unix://; raises ValueError, whose text does not hold the URL."""
        if urlsplit(url).scheme not in ("redis", "rediss", "unix"):
            raise ValueError("a Redis URL begins with redis://, rediss:// or unix://")
        options: dict[str, Any] = dict(parse_url(url))
        unknown = sorted(set(options) - _KNOWN)
        if unknown:
            raise ValueError(f"the Redis URL has the unknown option {unknown[0]}")
        shown = f"unix://{options['path']}" if "path" in options else f"{_host(options)}:{_port(options)}"
        return cls(shown, options | {"tls": urlsplit(url).scheme == "rediss"})

    def moved(self, host: str, port: int) -> Address:
        """The same credentials at another node of a cluster; an empty host means this one's."""
        there = host or _host(self.options)
        return replace(self, shown=f"{there}:{port}", options=self.options | {"host": there, "port": port})


def _host(options: dict[str, Any]) -> str:
    return str(options.get("host", "localhost"))


def _port(options: dict[str, Any]) -> int:
    return int(options.get("port", DEFAULT_PORT))


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection that has said its first words."""

    wire: Wire
    run_id: str


async def connect(address: Address) -> Connection:
    """A fresh connection, authenticated, to a store that keeps what it holds.

    Raises OSError, WireLostError, ReplyError, UnsuitableStoreError.
    """
    wire = await _open(address.options)
    try:
        for words in _first_words(address.options):
            await wire.ask(words)
        facts = _facts(await wire.ask(["INFO"]))
        _check_eviction(facts, address)
    except BaseException:
        wire.drop()
        raise
    return Connection(wire, facts["run_id"])


async def _open(options: dict[str, Any]) -> Wire:
    loop = asyncio.get_running_loop()
    if "path" in options:
        _, wire = await loop.create_unix_connection(Wire, options["path"])
        return wire
    tls = _tls(options) if options["tls"] else None
    _, wire = await loop.create_connection(Wire, _host(options), _port(options), ssl=tls)
    return wire


def _tls(options: dict[str, Any]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=options.get("ssl_ca_certs"))
    if options.get("ssl_cert_reqs") == "none":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    elif options.get("ssl_check_hostname") is False:
        context.check_hostname = False
    if "ssl_certfile" in options:
        context.load_cert_chain(options["ssl_certfile"], options.get("ssl_keyfile"))
    return context


def _first_words(options: dict[str, Any]) -> list[list[str]]:
    words = []
    if options.get("password"):
        user = [options["username"]] if options.get("username") else []
        words.append(["AUTH", *user, options["password"]])
    if options.get("db"):
        words.append(["SELECT", str(options["db"])])
    return words


def _facts(info: str) -> dict[str, str]:
    return dict(line.partition(":")[::2] for line in info.splitlines() if ":" in line)


def _check_eviction(facts: dict[str, str], address: Address) -> None:
    policy = facts.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        raise UnsuitableStoreError(
            f"Redis at {address.shown} has maxmemory-policy {policy}: it would throw away leases when full. "
            "Set maxmemory-policy to noeviction, or give the ledger a Redis of its own"
        )
