"""Dead letters over AMQP: confirmed copies, and the queues that they go to.

May know the AMQP client. May not know slices, or why a message is given up. The original is acked by the caller, after.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

import structlog
import trio

from . import amqp
from .amqp_link import AmqpLink
from .ports import DeadLetterError

_log = structlog.get_logger(__name__)

DEAD_EXCHANGE = "dead.exchange"
DEAD_UNSORTED = "dead.unsorted"
REASON_HEADER = "x-slicelease-reason"
PUBLISH_WITHIN_S = 10.0
"""How long a dead letter may wait for the link, for an alarm to end, and for its confirm."""

_CLASSIC: Mapping[str, amqp.Value] = {"x-queue-type": "classic"}
# CC and BCC would route copies into other tenants' queues; the others are a quorum queue's own counts.
_LEFT_OUT = frozenset({"CC", "BCC", "x-delivery-count", "x-acquired-count"})


class DeadLetters:
    """Publishes on a link of its own. Queues and exchanges are declared once a connection, on channels of their own."""

    def __init__(self, link: AmqpLink) -> None:
        self._link = link
        self._channel: amqp.Channel | None = None
        self._declared: set[str] = set()
        self._opening = trio.Lock()

    async def put(self, tenant: str, message: amqp.Message, message_id: str, headers: Mapping[str, str]) -> None:
        """A copy into `dead.<tenant>`. Raises DeadLetterError."""
        with _bounded():
            channel = await self._ready_channel()
            if tenant not in self._declared:
                await self._declare_tenant(f"dead.{tenant}", tenant)
                self._declared.add(tenant)
            await channel.publish(DEAD_EXCHANGE, tenant, message.body, letter(message, message_id, headers))

    async def refuse(self, message: amqp.Message, reason: str) -> None:
        """A copy into `dead.unsorted`, past the dead exchange, whose routing keys are tenants'. Raises DeadLetterError."""
        with _bounded():
            channel = await self._ready_channel()
            await channel.publish(DEAD_UNSORTED, message.routing_key, message.body, letter(message, "", {REASON_HEADER: reason}))

    async def _ready_channel(self) -> amqp.Channel:
        """One channel for all; the fixed part of the topology is declared before it is first used on a connection."""
        await self._link.wait_connected()
        async with self._opening:
            if self._channel is None or self._channel.closed is not None:
                self._declared.clear()
                await self._declare_fixed()
                self._channel = await self._link.connection().open_channel()
            return self._channel

    async def _declare_fixed(self) -> None:
        async with self._attempt() as channel:
            await channel.declare_exchange(DEAD_UNSORTED, "fanout")
        async with self._attempt() as channel:
            await channel.declare_exchange(DEAD_EXCHANGE, "direct", arguments={"alternate-exchange": DEAD_UNSORTED})
        async with self._attempt() as channel:
            await channel.declare_queue(DEAD_UNSORTED, arguments=_CLASSIC)
        async with self._attempt() as channel:
            await channel.bind_queue(DEAD_UNSORTED, DEAD_UNSORTED)

    async def _declare_tenant(self, queue: str, tenant: str) -> None:
        async with self._attempt() as channel:
            await channel.declare_queue(queue, arguments=_CLASSIC)
        async with self._attempt() as channel:
            await channel.bind_queue(queue, DEAD_EXCHANGE, tenant)

    @asynccontextmanager
    async def _attempt(self) -> AsyncIterator[amqp.Channel]:
        """A channel for one declaration. What exists with other arguments is used as it is."""
        channel = await self._link.connection().open_channel()
        try:
            yield channel
            await channel.close()
        except amqp.PreconditionFailed as error:
            _log.warning("exists at the broker with other arguments; used as it is", why=error.text)


@contextmanager
def _bounded() -> Iterator[None]:
    try:
        with trio.fail_after(PUBLISH_WITHIN_S):
            yield
    except trio.TooSlowError:
        raise DeadLetterError(f"no confirm within {PUBLISH_WITHIN_S:g} s") from None
    except (amqp.AmqpError, ValueError) as error:
        raise DeadLetterError(str(error)) from error


def letter(message: amqp.Message, message_id: str, headers: Mapping[str, str]) -> amqp.Properties:
    """The publisher's description of the message with `headers` added; persistent.

    Left out: what would route copies elsewhere (CC, BCC), end the letter (expiration), or make the broker refuse it because
    it comes through our user (user_id), and what a quorum queue added. Properties that cannot be read are left out as a whole.
    """
    try:
        original = message.properties
    except amqp.MalformedMessage:
        original = amqp.Properties()
    kept = {name: value for name, value in (original.headers or {}).items() if name not in _LEFT_OUT}
    return original._replace(
        headers={**kept, **headers},
        delivery_mode=amqp.PERSISTENT,
        message_id=message_id or original.message_id,
        expiration=None,
        user_id=None,
    )
