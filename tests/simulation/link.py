"""A worker's link to the in-memory broker, which can be lost: by the worker first, or by the broker first.

May know the worker's port and the in-memory broker. Two ends see a loss at different times: the worker's calls fail at once, and
what it held goes back when the broker notices, which is up to three heartbeats later. An ack waits in the socket until the
channel's next words follow it, and is lost with the link.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Protocol

import trio

from slicelease.cli.memory_broker.channel import Channel, Delivery
from slicelease.cli.memory_broker.core import MemoryBroker
from slicelease.cli.memory_broker.trio_adapter import MemoryDelivery, MemoryWorkChannel, TrioBroker
from slicelease.cli.memory_broker.trio_tickets import MemoryTicket, MemoryTicketStream
from slicelease.worker.ports import BrokerLostError, DeadLetterError
from slicelease.worker.ports import Delivery as WorkDelivery


class AckWatch(Protocol):
    """Hears of acks."""

    def acking(self, delivery: WorkDelivery) -> None:
        """The worker is done with it."""
        ...

    def acked(self, delivery: WorkDelivery) -> None:
        """The broker has let go of it."""
        ...


class Connection:
    """What one connection has opened at the broker, in order; `alive` as the worker sees it."""

    def __init__(self) -> None:
        self.alive = True
        self.channels: dict[Channel, None] = {}
        self.streams: dict[SimTicketStream, None] = {}

    def check(self) -> None:
        if not self.alive:
            raise BrokerLostError("the link was cut")

    def close_at_broker(self) -> None:
        """The broker notices: what was in hand goes back."""
        for channel in self.channels:
            channel.close()
        self.channels.clear()


class SimWorkChannel(MemoryWorkChannel):
    """Tells `acks` when the worker acks and when the broker has processed it."""

    def __init__(self, core: MemoryBroker, channel: Channel, connection: Connection, dice: Random, acks: AckWatch) -> None:
        super().__init__(core, channel)
        self._connection = connection
        self._dice = dice
        self._acks = acks
        self._unsent: WorkDelivery | None = None

    async def fetch(self, amqp_queue: str, most: int) -> Sequence[MemoryDelivery]:
        await self._speak()
        return await super().fetch(amqp_queue, most)

    def ack(self, delivery: WorkDelivery) -> None:
        self._connection.check()
        self._flush()
        self._unsent = delivery
        self._acks.acking(delivery)

    async def barrier(self, amqp_queue: str) -> None:
        await self._speak()
        await super().barrier(amqp_queue)

    async def close(self) -> None:
        await self._speak()
        await super().close()
        self._connection.channels.pop(self._channel, None)

    async def _speak(self) -> None:
        """What is queued goes out, and now and then the broker takes its time."""
        self._connection.check()
        self._flush()
        if self._dice.random() < 0.1:
            await trio.sleep(self._dice.random() * 0.02)
            self._connection.check()

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, None
        if unsent is not None:
            super().ack(unsent)
            self._acks.acked(unsent)


class SimTicket(MemoryTicket):
    def __init__(self, core: MemoryBroker, channel: Channel, delivery: Delivery, connection: Connection) -> None:
        super().__init__(core, channel, delivery)
        self._connection = connection

    def ack(self) -> None:
        self._connection.check()
        super().ack()

    def nack(self) -> None:
        self._connection.check()
        super().nack()


class SimTicketStream(MemoryTicketStream):
    def __init__(self, core: MemoryBroker, channel: Channel, queue: str, prefetch: int, connection: Connection) -> None:
        self._connection = connection
        super().__init__(core, channel, queue, prefetch)
        connection.streams[self] = None

    async def __anext__(self) -> MemoryTicket:
        await trio.lowlevel.checkpoint()
        while True:
            if self._stopped:
                raise StopAsyncIteration
            self._connection.check()
            if (delivery := self._consumer.take()) is not None:
                return SimTicket(self._core, self._channel, delivery, self._connection)
            self._check_alive()
            await self._waiting.park()

    async def stop(self) -> None:
        self._connection.check()
        await super().stop()

    def wake(self) -> None:
        """Something has changed."""
        self._waiting.unpark_all()

    def _notify(self) -> None:
        # All are in one thread here, so nothing need be sent through Trio's socket.
        self._waiting.unpark_all()


class SimLink(TrioBroker):
    """One worker's link. `broker_is_up` says whether a new connection can be made; it starts down or up like a process's."""

    def __init__(self, core: MemoryBroker, dice: Random, broker_is_up: Callable[[], bool], acks: AckWatch) -> None:
        super().__init__(core)
        self._dice = dice
        self._broker_is_up = broker_is_up
        self._acks = acks
        self._lost = trio.Event()
        self.connection = Connection()
        self.connection.alive = False

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        try:
            while True:
                await self._connect()
                await self._lost.wait()
        finally:
            self.lose()
            self.connection.close_at_broker()

    async def _connect(self) -> None:
        await trio.sleep(self._dice.random() * 0.2)
        while not self._broker_is_up():  # noqa: ASYNC110  as clients do
            await trio.sleep(0.5 + self._dice.random())
        self.connection, self._lost = Connection(), trio.Event()
        self._connected.set()

    def lose(self) -> Connection:
        """The worker sees its link gone; the connection, for the broker to notice."""
        self.connection.alive = False
        self._connected = trio.Event()
        self._lost.set()
        for stream in self.connection.streams:
            stream.wake()
        return self.connection

    async def open_work_channel(self) -> MemoryWorkChannel:
        await trio.lowlevel.checkpoint()
        return SimWorkChannel(self._core, self._open_channel(), self.connection, self._dice, self._acks)

    async def dead_letter(self, tenant: str, delivery: WorkDelivery, headers: Mapping[str, str]) -> None:
        self.connection.check()
        if self._dice.random() < 0.02:
            raise DeadLetterError("no confirm in time")
        await super().dead_letter(tenant, delivery, headers)

    def _begin(self, channel: Channel, queue: str, prefetch: int) -> MemoryTicketStream:
        return SimTicketStream(self._core, channel, queue, prefetch, self.connection)

    def _open_channel(self) -> Channel:
        self.connection.check()
        channel = self._core.open_channel()
        self.connection.channels[channel] = None
        return channel
