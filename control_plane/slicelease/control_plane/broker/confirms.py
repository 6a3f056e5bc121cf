"""Publishing with confirms: mandatory, many calls in flight on a few channels.

May live here: channels that publish, and what an answer to a publish means. May not know: whose message it is. All
publishes to one routing key take one channel, so concurrent calls for one queue go out in the order of the calls.
"""

from __future__ import annotations

import asyncio
import zlib

from aiormq import spec
from aiormq.abc import AbstractConnection
from aiormq.channel import Channel
from pamqp import encode
from pamqp.common import FieldTable

from slicelease.control_plane.ports import BrokerUnavailableError

from .errors import BrokerCall, PublishCall
from .link import Link, open_channel

PERSISTENT = 2
MAX_HEADERS_BYTES = 96 * 1024
"""Encoded. Properties and headers travel in one frame, of 128 KiB by default; a longer one costs everybody the connection."""


class Publisher:
    """Publishes through one link, over `lanes` channels."""

    def __init__(self, link: Link, *, timeout_s: float, lanes: int) -> None:
        self._link = link
        self._timeout_s = timeout_s
        self._lanes = [_Lane(link) for _ in range(lanes)]

    async def publish(self, exchange: str, routing_key: str, body: bytes, properties: spec.Basic.Properties) -> None:
        """Returns when the broker has confirmed the message and routed it to a queue.

        Raises QueueGoneError (returned, or no such exchange), QueueFullError (negative confirm), BrokerUnavailableError.
        """
        lane = self._lanes[zlib.crc32(routing_key.encode()) % len(self._lanes)]
        try:
            with PublishCall("confirm a message"):
                async with asyncio.timeout(self._timeout_s):
                    channel = await lane.channel()
                    await channel.publish(exchange, routing_key, body, properties)
        except BrokerUnavailableError as error:
            raise BrokerUnavailableError(self._link.unready_reason() or str(error)) from None

    async def probe(self) -> None:
        """A publish to nowhere: the broker tells that it blocks us only to a connection that publishes."""
        with BrokerCall("confirm a probe"):
            async with asyncio.timeout(self._timeout_s):
                channel = await self._lanes[0].channel()
                await channel.raw.basic_publish(b"", routing_key="slicelease.probe", mandatory=False, wait=False)


class _Lane:
    """A channel that is opened again when it or its connection has ended."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._connection: AbstractConnection | None = None
        self._channel: _ConfirmingChannel | None = None
        self._opening = asyncio.Lock()

    async def channel(self) -> _ConfirmingChannel:
        """The open channel, once the link is up and not blocked: what is not sent cannot be in doubt."""
        usable = self._link.usable_connection()
        if usable is not None and not self._opening.locked() and (channel := self._open_on(usable)):
            return channel
        async with self._opening:
            connection = await self._link.connection()
            await connection.ready()
            channel = self._open_on(connection)
            if channel is None:
                channel = _ConfirmingChannel(await open_channel(connection, confirms=True))
                self._channel, self._connection = channel, connection
            return channel

    def _open_on(self, connection: AbstractConnection) -> _ConfirmingChannel | None:
        channel = self._channel
        if channel is None or channel.raw.is_closed or self._connection is not connection:
            return None
        return channel


class _ConfirmingChannel:
    """Matches answers to publishes.

    The driver matches a returned message by its message_id alone, and publishers choose those. Two messages of one id
    in flight could swap their fates, and a lost one be taken for published; so the second waits for the first's answer.
    A caller that gives up leaves the publish to its answer, so the id stays taken until that has come.
    """

    def __init__(self, raw: Channel) -> None:
        self.raw = raw
        self._unanswered: dict[str, asyncio.Task[object]] = {}

    async def publish(self, exchange: str, routing_key: str, body: bytes, properties: spec.Basic.Properties) -> None:
        message_id = properties.message_id or ""
        while earlier := self._unanswered.get(message_id):
            await asyncio.wait({earlier})
        sent = self.raw.basic_publish(
            body, exchange=exchange, routing_key=routing_key, properties=properties, mandatory=True, wait=False
        )
        answer = asyncio.ensure_future(sent)
        if message_id:
            self._unanswered[message_id] = answer
        answer.add_done_callback(lambda done: self._answered(message_id, done))
        await asyncio.shield(answer)

    def _answered(self, message_id: str, answer: asyncio.Task[object]) -> None:
        self._unanswered.pop(message_id, None)
        if not answer.cancelled():
            answer.exception()  # seen, also when the caller has gone


def check_headers(headers: FieldTable) -> None:
    """Raises ValueError for headers that the broker would answer by closing the channel or the connection.

    CC and BCC would route copies into the queues of others.
    """
    if not headers:
        return
    if "CC" in headers or "BCC" in headers:
        raise ValueError("the headers CC and BCC are not allowed")
    if len(encode.field_table(headers)) > MAX_HEADERS_BYTES:
        raise ValueError(f"the headers take more than {MAX_HEADERS_BYTES} bytes")
