"""The worker's view of the in-memory broker, and the two views of one broker from two threads."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from slicelease.cli.memory_broker.asyncio_adapter import AsyncioBroker
from slicelease.cli.memory_broker.core import MemoryBroker
from slicelease.cli.memory_broker.queue import Message
from slicelease.cli.memory_broker.routing import ExchangeKind
from slicelease.cli.memory_broker.trio_adapter import TrioBroker
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.policy import QueueType
from slicelease.control_plane.ports import WorkMessage
from slicelease.worker.ports import BrokerLostError, DeadLetterError, QueueUnreadableError, WorkerBroker


def declared() -> MemoryBroker:
    """A broker with our exchanges, two queues of work and one of attention."""
    core = MemoryBroker()
    core.declare_exchange("dead.unsorted", ExchangeKind.FANOUT)
    core.declare_exchange("dead.exchange", ExchangeKind.DIRECT, alternate="dead.unsorted")
    for queue in ("work.acme", "attention.bulk", "dead.unsorted"):
        core.declare_queue(queue)
    core.bind("dead.unsorted", "dead.unsorted")
    return core


@asynccontextmanager
async def running(core: MemoryBroker) -> AsyncIterator[TrioBroker]:
    broker = TrioBroker(core)
    async with trio.open_nursery() as nursery:
        await nursery.start(broker.run)
        yield broker
        nursery.cancel_scope.cancel()


def bodies(core: MemoryBroker, queue: str) -> list[bytes]:
    return [message.body for message in core.peek(queue)]


def test_it_is_a_worker_broker() -> None:
    broker: WorkerBroker = TrioBroker(MemoryBroker())
    assert broker.unready_reason()


@pytest.mark.trio
async def test_fetch_takes_in_order_and_fewer_when_empty() -> None:
    core = declared()
    for body in (b"1", b"2", b"3"):
        core.publish("", "work.acme", Message(body, message_id=body.decode()))
    async with running(core) as broker:
        channel = await broker.open_work_channel()
        first = await channel.fetch("work.acme", 2)
        rest = await channel.fetch("work.acme", 2)
        assert [delivery.body for delivery in (*first, *rest)] == [b"1", b"2", b"3"]
        channel.ack(first[0])
        await channel.barrier("work.acme")
        await channel.close()
        assert bodies(core, "work.acme") == [b"2", b"3"]
        again = await (await broker.open_work_channel()).fetch("work.acme", 9)
        assert [(delivery.message_id, delivery.redelivered) for delivery in again] == [("2", True), ("3", True)]


@pytest.mark.trio
async def test_a_missing_queue_ends_the_channel_and_gives_back_the_rest() -> None:
    core = declared()
    core.publish("", "work.acme", Message(b"1"))
    async with running(core) as broker:
        for call in ("fetch", "barrier"):
            channel = await broker.open_work_channel()
            await channel.fetch("work.acme", 1)
            with pytest.raises(QueueUnreadableError):
                await (channel.fetch("work.gone", 1) if call == "fetch" else channel.barrier("work.gone"))
            assert bodies(core, "work.acme") == [b"1"]
            with pytest.raises(BrokerLostError):
                await channel.fetch("work.acme", 1)


@pytest.mark.trio
async def test_a_derived_message_id_is_the_same_at_each_delivery() -> None:
    core = declared()
    core.publish("", "work.acme", Message(b"1", headers={"b": "2", "a": "1"}))
    core.publish("", "work.acme", Message(b"1", headers={"a": "other"}))
    async with running(core) as broker:
        ids = []
        for _ in range(2):
            channel = await broker.open_work_channel()
            ids.append([delivery.message_id for delivery in await channel.fetch("work.acme", 2)])
            await channel.close()
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 2


@pytest.mark.trio
async def test_a_dead_letter_keeps_what_the_publisher_said() -> None:
    core = declared()
    core.publish("", "work.acme", Message(b"1", "id", "corr", "text/plain", "kind", {"own": "x"}))
    async with running(core) as broker:
        (delivery,) = await (await broker.open_work_channel()).fetch("work.acme", 1)
        await broker.dead_letter("acme", delivery, {"x-slicelease-reason": "no"})
        assert core.unacked_count("work.acme") == 1, "the original stays in hand"
    (dead,) = core.peek("dead.acme")
    assert dead == Message(b"1", "id", "corr", "text/plain", "kind", {"own": "x", "x-slicelease-reason": "no"})


@pytest.mark.trio
async def test_a_dead_letter_that_reaches_nothing_is_an_error() -> None:
    core = MemoryBroker()
    core.declare_queue("work.acme")
    core.publish("", "work.acme", Message(b"1"))
    async with running(core) as broker:
        (delivery,) = await (await broker.open_work_channel()).fetch("work.acme", 1)
        with pytest.raises(DeadLetterError):
            await broker.dead_letter("acme", delivery, {})


@pytest.mark.trio
async def test_tickets_come_up_to_the_prefetch_and_go_back_at_the_end(autojump_clock: trio.testing.MockClock) -> None:
    core = declared()
    for body in (b"1", b"2", b"3"):
        core.publish("", "attention.bulk", Message(body))
    async with running(core) as broker, broker.consume_tickets("bulk", 2) as tickets:
        first, second = await anext(aiter(tickets)), await anext(aiter(tickets))
        with trio.move_on_after(5) as waited:
            await anext(aiter(tickets))
        assert waited.cancelled_caught
        second.ack()
        third = await anext(aiter(tickets))
        assert (first.body, third.body) == (b"1", b"3")
        third.nack()
        assert (await anext(aiter(tickets))).body == b"3"
    assert bodies(core, "attention.bulk") == [b"1", b"3"]
    with pytest.raises(BrokerLostError):
        first.ack()


@pytest.mark.trio
async def test_stop_ends_the_iteration_and_keeps_tickets_in_hand(autojump_clock: trio.testing.MockClock) -> None:
    core = declared()
    core.publish("", "attention.bulk", Message(b"1"))
    seen: list[bytes] = []
    async with running(core) as broker, broker.consume_tickets("bulk", 1) as tickets, trio.open_nursery() as nursery:

        async def take_all() -> None:
            async for ticket in tickets:
                seen.append(ticket.body)
                held.append(ticket)

        held: list[object] = []
        nursery.start_soon(take_all)
        await trio.testing.wait_all_tasks_blocked()
        core.publish("", "attention.bulk", Message(b"2"))
        await tickets.stop()
        assert core.unacked_count("attention.bulk") == 1
    assert seen == [b"1"]


@pytest.mark.trio
async def test_a_ticket_stream_ends_with_its_queue_and_with_its_link() -> None:
    core = declared()
    async with running(core) as broker:
        async with broker.consume_tickets("bulk", 1) as tickets:
            core.delete_queue("attention.bulk")
            with pytest.raises(QueueUnreadableError):
                await anext(aiter(tickets))
        with pytest.raises(QueueUnreadableError):
            await broker.consume_tickets("bulk", 1).__aenter__()
    with pytest.raises(BrokerLostError):
        await broker.open_work_channel()


@pytest.mark.trio
async def test_a_refused_ticket_is_moved_with_the_reason() -> None:
    core = declared()
    core.publish("", "attention.bulk", Message(b"{", headers={"own": "x"}))
    async with running(core) as broker, broker.consume_tickets("bulk", 1) as tickets:
        await (await anext(aiter(tickets))).refuse("not JSON")
    (dead,) = core.peek("dead.unsorted")
    assert (dead.body, dead.headers) == (b"{", {"own": "x", "x-slicelease-reason": "not JSON"})
    assert core.ready_count("attention.bulk") == 0


@pytest.mark.asyncio
async def test_work_and_tickets_pass_between_two_threads() -> None:
    """The control plane under asyncio announces; the worker under Trio in a thread works and raises attention."""
    core = MemoryBroker()
    control_plane = AsyncioBroker(core)
    await control_plane.declare_topology(["bulk"])
    key = QueueKey("acme", "default")
    await control_plane.declare_work_queue(key, QueueType.CLASSIC)

    async def work() -> None:
        async with running(core) as broker, broker.consume_tickets("bulk", 1) as tickets:
            for _ in range(100):
                ticket = await anext(aiter(tickets))
                channel = await broker.open_work_channel()
                for delivery in await channel.fetch("work.acme", 5):
                    channel.ack(delivery)
                core.publish("attention.exchange", "work", Message(ticket.body))
                ticket.ack()
                await channel.close()

    thread = threading.Thread(target=trio.run, args=(work,))
    thread.start()
    try:
        async with asyncio.timeout(20):
            for number in range(100):
                await control_plane.publish_work(key, WorkMessage(b"%d" % number, f"{number}", ""))
                assert await control_plane.announce("bulk", [b"%d" % number]) == 1
                raised = await control_plane.take_raised(10)
                assert [one.body for one in raised] == [b"%d" % number]
                await control_plane.ack_raised(raised)
    finally:
        thread.join(20)
    assert not thread.is_alive()
    assert await control_plane.message_counts([key]) == {key: 0}
    assert core.unacked_count("work.acme") == 0
