"""The surroundings of the in-memory broker: its core, which publishers and workers would share."""

import contextlib
from collections.abc import AsyncIterator, Mapping

from slicelease.cli.memory_broker.asyncio_adapter import AsyncioBroker
from slicelease.cli.memory_broker.core import Fate, MemoryBroker
from slicelease.cli.memory_broker.queue import Message
from slicelease.control_plane.domain import names
from slicelease.control_plane.ports import Broker
from tests.contract.broker.world import Seen


class MemoryWorld:
    """World in memory."""

    def __init__(self, broker: Broker, core: MemoryBroker) -> None:
        self.broker = broker
        self._core = core

    async def raise_attention(self, body: bytes, headers: Mapping[str, object] | None = None) -> bool:
        message = Message(body, headers=dict(headers or {}))
        return self._core.publish(names.ATTENTION_EXCHANGE, names.RAISED_KEY, message) is Fate.ROUTED

    async def drain(self, queue: str) -> list[Seen]:
        channel, seen = self._core.open_channel(), []
        while delivery := channel.get(queue):
            channel.ack(delivery.tag)
            m = delivery.message
            seen.append(Seen(m.body, m.message_id, m.correlation_id, m.content_type, m.type, dict(m.headers)))
        channel.close()
        return seen

    async def declare_queue(self, name: str, arguments: Mapping[str, str | int]) -> None:
        self._core.declare_queue(name, dict(arguments))

    async def delete_queue(self, name: str) -> None:
        self._core.delete_queue(name)


@contextlib.asynccontextmanager
async def memory_world() -> AsyncIterator[MemoryWorld]:
    core = MemoryBroker()
    broker = AsyncioBroker(core)
    yield MemoryWorld(broker, core)
    broker.close()
