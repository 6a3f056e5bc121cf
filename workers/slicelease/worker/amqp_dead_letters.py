"""Dead letters over AMQP: confirmed copies, and the queues that they go to.

May know the AMQP client. May not know slices, or why a message is given up. The original is acked by the caller, after.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import trio

from . import amqp
from .amqp_link import AmqpLink
from .ports import DeadLetterError

DEAD_EXCHANGE = "dead.exchange"
DEAD_UNSORTED = "dead.unsorted"
REASON_HEADER = "x-slicelease-reason"
PUBLISH_WITHIN_S = 10.0
"""How long a dead letter may wait for the link, for an alarm to end, and for its confirm."""

_CLASSIC: Mapping[str, amqp.Value] = {"x-queue-type": "classic"}
# They would route copies into other tenants' queues.
_ROUTING_HEADERS = frozenset({"CC", "BCC"})


class DeadLetters:
    """Publishes on a link of its own. Queues and exchanges are declared once a connection."""

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
                await self._declare_for(channel, tenant)
            await channel.publish(DEAD_EXCHANGE, tenant, message.body, letter(message, message_id, headers))

    async def refuse(self, message: amqp.Message, reason: str) -> None:
        """A copy into `dead.unsorted`, which any routing key of the dead exchange might miss. Raises DeadLetterError."""
        with _bounded():
            channel = await self._ready_channel()
            await channel.publish(DEAD_UNSORTED, message.routing_key, message.body, letter(message, "", {REASON_HEADER: reason}))

    async def _ready_channel(self) -> amqp.Channel:
        """One channel for all; the fixed part of the topology is declared on each new one."""
        await self._link.wait_connected()
        async with self._opening:
            if self._channel is None or self._channel.closed is not None:
                self._declared.clear()
                channel = await self._link.connection().open_channel()
                await channel.declare_exchange(DEAD_UNSORTED, "fanout")
                await channel.declare_exchange(DEAD_EXCHANGE, "direct", arguments={"alternate-exchange": DEAD_UNSORTED})
                await channel.declare_queue(DEAD_UNSORTED, arguments=_CLASSIC)
                await channel.bind_queue(DEAD_UNSORTED, DEAD_UNSORTED)
                self._channel = channel
            return self._channel

    async def _declare_for(self, channel: amqp.Channel, tenant: str) -> None:
        queue = f"dead.{tenant}"
        await channel.declare_queue(queue, arguments=_CLASSIC)
        await channel.bind_queue(queue, DEAD_EXCHANGE, tenant)
        self._declared.add(tenant)


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
    it comes through our user (user_id). Properties that cannot be read are left out as a whole.
    """
    try:
        original = message.properties
    except amqp.MalformedMessage:
        original = amqp.Properties()
    kept = {name: value for name, value in (original.headers or {}).items() if name not in _ROUTING_HEADERS}
    return original._replace(
        headers={**kept, **headers},
        delivery_mode=amqp.PERSISTENT,
        message_id=message_id or original.message_id,
        expiration=None,
        user_id=None,
    )
