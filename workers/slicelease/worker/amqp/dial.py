"""From an address to an open connection: TCP, TLS, handshake, and the end in good order.

May know sockets, TLS and time limits; knows nothing of AMQP.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import trio
from trio.abc import Stream

from slicelease.worker.amqp.errors import CannotConnect
from slicelease.worker.amqp.handshake import Handshake
from slicelease.worker.amqp.transport import Connection, cause_of
from slicelease.worker.amqp.url import ConnectionParameters


@contextmanager
def _time_limit(seconds: float, what: str) -> Iterator[None]:
    try:
        with trio.fail_after(seconds):
            yield
    except trio.TooSlowError:
        raise CannotConnect(f"{what} took longer than {seconds:g} s") from None


@asynccontextmanager
async def open_connection_on(
    stream: Stream, handshake: Handshake, *, connect_timeout_s: float = 10.0
) -> AsyncIterator[Connection]:
    """Speak AMQP over a stream that is already there. See `open_connection`."""
    connection = Connection(stream, handshake)
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.serve)
        try:
            with _time_limit(connect_timeout_s, "the AMQP handshake"):
                await connection.wait_opened()
            yield connection
        except BaseException as error:  # noqa: BLE001  raised below: through the nursery it would arrive as a group
            failure = error
        await connection.aclose()
    if failure is not None:
        raise failure


@asynccontextmanager
async def open_connection(
    where: str | ConnectionParameters,
    *,
    heartbeat_s: int = 5,
    connect_timeout_s: float = 10.0,
    name: str = "slicelease",
    ssl_context: ssl.SSLContext | None = None,
) -> AsyncIterator[Connection]:
    """A connection to the broker at `where` (an AMQP URL, or parameters) for the time of the block.

    `heartbeat_s`: whole seconds, 0 for none; the broker may want a shorter one. `name` is shown by the broker. TLS
    (amqps) uses `ssl_context`, or the system's trust store. Raises UrlError, CannotConnect, LoginRefused,
    ProtocolViolation, and what the block raises. When the connection is lost the block is not cancelled: its calls raise
    ConnectionLost, and `wait_closed` returns.
    """
    parameters = ConnectionParameters.from_url(where) if isinstance(where, str) else where
    handshake = Handshake(
        user=parameters.user,
        password=parameters.password,
        vhost=parameters.vhost,
        name=name,
        heartbeat_s=heartbeat_s,
    )
    dialled_at = trio.current_time()
    stream = await _dial(parameters, connect_timeout_s, ssl_context)
    left_s = max(0.0, dialled_at + connect_timeout_s - trio.current_time())
    async with open_connection_on(stream, handshake, connect_timeout_s=left_s) as connection:
        yield connection


async def _dial(where: ConnectionParameters, timeout_s: float, ssl_context: ssl.SSLContext | None) -> Stream:
    with _time_limit(timeout_s, f"connecting to {where.address}"):
        try:
            tcp = await trio.open_tcp_stream(where.host, where.port)
        except (OSError, UnicodeError) as error:  # no route, no name, or a name that is none
            raise CannotConnect(f"cannot connect to {where.address}: {error}") from None
        if not where.tls:
            return tcp
        return await _start_tls(tcp, where, ssl_context or ssl.create_default_context())


async def _start_tls(tcp: trio.SocketStream, where: ConnectionParameters, context: ssl.SSLContext) -> Stream:
    stream = trio.SSLStream(tcp, context, server_hostname=where.host)
    try:
        await stream.do_handshake()
    except trio.BrokenResourceError as error:
        await trio.aclose_forcefully(tcp)
        raise CannotConnect(f"no TLS with {where.address}: {cause_of(error)}") from None
    except BaseException:
        await trio.aclose_forcefully(tcp)
        raise
    return stream
