"""The tenants' work queues at the broker: declare, delete.

May live here: their arguments, and what the broker's refusals mean. May not know: the ledger's idea of a queue.
"""

from __future__ import annotations

import asyncio

import structlog
from aio_pika.exceptions import ChannelPreconditionFailed
from aiormq.abc import AbstractConnection
from aiormq.exceptions import ChannelLockedResource, ConnectionNotImplemented
from pamqp.common import FieldTable

from slicelease.control_plane.domain import names
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.policy import QueueType
from slicelease.control_plane.ports import QueueArgumentsDifferError, QueueNotEmptyError

from .channels import ChannelPool
from .errors import BrokerCall, differing_argument
from .link import Link, single_use_connection
from .message_counts import message_count

_log = structlog.get_logger(__name__)

_LIMIT = "x-delivery-limit"
_REMEMBERED = 500_000


def work_queue_arguments(tenant: str, queue_type: QueueType, broker_major: int) -> FieldTable:
    """Arguments of a work queue: its type, its dead-letter target, and no delivery limit, for attempts are counted by us.

    Quorum queues have no limit by default before RabbitMQ 4, where -1 is refused, and 20 from then on.
    """
    quorum = queue_type is QueueType.QUORUM
    arguments: FieldTable = {
        "x-queue-type": "quorum" if quorum else "classic",
        "x-dead-letter-exchange": names.DEAD_EXCHANGE,
        "x-dead-letter-routing-key": tenant,
    }
    return arguments | {_LIMIT: -1} if quorum and broker_major >= 4 else arguments


class WorkQueues:
    """Declares each work queue once a process: a declare costs the broker 7 ms, remembering costs us 100 bytes."""

    def __init__(self, link: Link, channels: ChannelPool, *, timeout_s: float) -> None:
        self._link = link
        self._channels = channels
        self._timeout_s = timeout_s
        self._declared: set[QueueKey] = set()

    def forget(self, key: QueueKey) -> None:
        """The queue was seen to be missing, or other than declared."""
        self._declared.discard(key)

    async def declare(self, key: QueueKey, queue_type: QueueType) -> None:
        """Declares it where this process has not done so; raises QueueArgumentsDifferError, BrokerUnavailableError."""
        if key in self._declared:
            return
        with BrokerCall("declare a queue"):
            async with asyncio.timeout(self._timeout_s):
                major = _major_version(await self._link.connection())
                await self._declare(key, work_queue_arguments(key.tenant, queue_type, major))
        if len(self._declared) >= _REMEMBERED:
            self._declared.clear()
        self._declared.add(key)

    async def _declare(self, key: QueueKey, arguments: FieldTable) -> None:
        queue = names.amqp_queue(key)
        try:
            async with self._channels.lent() as channel:
                await channel.queue_declare(queue, durable=True, arguments=arguments)
        except (ChannelPreconditionFailed, ChannelLockedResource) as error:
            argument = differing_argument(error)
            if argument != _LIMIT or _LIMIT not in arguments:
                raise QueueArgumentsDifferError(queue, argument) from None
            _log.warning("the queue is of an older broker and has a delivery limit now", queue=queue)
            await self._declare(key, {name: value for name, value in arguments.items() if name != _LIMIT})

    async def delete(self, key: QueueKey, *, if_empty: bool) -> None:
        """Deletes it; none of that name is no error. Raises QueueNotEmptyError, BrokerUnavailableError."""
        queue = names.amqp_queue(key)
        with BrokerCall("delete a queue"):
            async with asyncio.timeout(self._timeout_s):
                if if_empty:
                    await self._delete_empty(queue)
                else:
                    await self._delete(queue)
        self.forget(key)

    async def _delete(self, queue: str) -> None:
        async with self._channels.lent() as channel:
            await channel.queue_delete(queue)

    async def _delete_empty(self, queue: str) -> None:
        """In one step on a classic queue; on a quorum queue, which knows no such step, a look and then the deletion.

        The broker answers the flag on a quorum queue by closing the connection: so it is asked on one of its own.
        """
        try:
            async with single_use_connection(self._link.url) as connection:
                channel = await connection.channel(publisher_confirms=False)
                await channel.queue_delete(queue, if_empty=True)
        except ChannelPreconditionFailed:
            raise QueueNotEmptyError(queue, await message_count(self._channels, queue) or 0) from None
        except ConnectionNotImplemented:
            if messages := await message_count(self._channels, queue):
                raise QueueNotEmptyError(queue, messages) from None
            await self._delete(queue)


def _major_version(connection: AbstractConnection) -> int:
    version = str((connection.server_properties or {}).get("version", ""))
    major = version.partition(".")[0]
    return int(major) if major.isdigit() else 0
