"""Every call cancelled half-way: the next call on the channel never takes the old reply (field trial T05).

The broker holds its answers until the caller is gone; then both answers come, in order.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio
from pamqp import commands
from trio.testing import memory_stream_pair

from slicelease.worker.amqp import Channel, ChannelClosed, Connection, Consumer, open_connection_on
from tests.servers import wait_for_trio
from tests.unit.amqp.fake_broker import HANDSHAKE, FakeBroker, serve, wire

DEADLINE_S = 5.0


@asynccontextmanager
async def connected(broker: FakeBroker) -> AsyncIterator[Connection]:
    ours, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve, broker, theirs)
        async with open_connection_on(ours, HANDSHAKE) as connection:
            yield connection
        nursery.cancel_scope.cancel()


async def cancelled_half_way(broker: FakeBroker, call: Callable[[], Awaitable[object]]) -> None:
    """Run `call` until the broker has seen what it sent, and cancel it there."""
    broker.held, before = [], len(broker.seen)
    ended: list[str] = []

    async def run() -> None:
        try:
            await call()
            ended.append("returned")
        except trio.Cancelled:
            ended.append("cancelled")
            raise

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await wait_for_trio(lambda: len(broker.seen) > before, DEADLINE_S, "the broker saw the call")
        nursery.cancel_scope.cancel()
    assert ended == ["cancelled"]


async def channel_is_sound(broker: FakeBroker, channel: Channel) -> None:
    """Each kind of call gets its own answer."""
    assert (await channel.declare_queue("witness")).name == "witness"
    broker.queues["witness"] = [b"fresh"]
    message = await channel.get("witness")
    assert message is not None
    assert message.body == b"fresh"
    message.ack()
    assert await channel.get("witness") is None
    assert await channel.purge_queue("witness") == 71
    assert await channel.delete_queue("witness") == 72
    await channel.publish("", "witness", b"x")


CALLS: dict[str, Callable[[Channel], Awaitable[object]]] = {
    "declare_queue": lambda channel: channel.declare_queue("old"),
    "declare_queue passive": lambda channel: channel.declare_queue("old", passive=True),
    "look_at_queue": lambda channel: channel.look_at_queue("old"),
    "declare_exchange": lambda channel: channel.declare_exchange("old"),
    "delete_exchange": lambda channel: channel.delete_exchange("old"),
    "bind_queue": lambda channel: channel.bind_queue("old", "old"),
    "unbind_queue": lambda channel: channel.unbind_queue("old", "old"),
    "purge_queue": lambda channel: channel.purge_queue("old"),
    "delete_queue": lambda channel: channel.delete_queue("old"),
    "qos": lambda channel: channel.qos(5),
    "get": lambda channel: channel.get("old"),
    "get of an empty queue": lambda channel: channel.get("empty"),
    "get_many": lambda channel: channel.get_many("old", 4),
    "publish": lambda channel: channel.publish("", "old", b"x"),
    "confirm_select": lambda channel: channel.confirm_select(),
    "consume": lambda channel: channel.consume("old"),
}


@pytest.mark.trio
@pytest.mark.parametrize("name", CALLS)
async def test_a_cancelled_call_never_leaves_its_reply_to_the_next(name: str) -> None:
    broker = FakeBroker(queues={"old": [b"1", b"2"]})
    async with connected(broker) as connection:
        channel = await connection.open_channel()
        await cancelled_half_way(broker, lambda: CALLS[name](channel))
        declared = len(broker.methods(commands.Queue.Declare))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(channel_is_sound, broker, channel)
            await wait_for_trio(lambda: len(broker.methods(commands.Queue.Declare)) > declared, DEADLINE_S, "next call")
            broker.release()
        assert channel.closed is None
        kept = {"get": [b"1"], "get_many": [b"1", b"2"]}.get(name, [])
        assert [message.body for message in channel.abandoned] == kept
        await channel.close()
        assert sorted(broker.queues.get("old", [b"1", b"2"])) == [b"1", b"2"]


@pytest.mark.trio
async def test_closing_the_channel_returns_what_was_abandoned_in_order() -> None:
    broker = FakeBroker(queues={"old": [b"1", b"2", b"3"]})
    async with connected(broker) as connection:
        channel = await connection.open_channel()
        await cancelled_half_way(broker, lambda: channel.get_many("old", 2))
        broker.release()
        await wait_for_trio(lambda: len(channel.abandoned) == 2, DEADLINE_S, "both came")
        await channel.close()
        assert broker.queues["old"] == [b"1", b"2", b"3"]
        assert channel.abandoned == ()


@pytest.mark.trio
async def test_abandoned_messages_can_be_given_back_on_a_channel_that_lives_on() -> None:
    broker = FakeBroker(queues={"old": [b"1"]})
    async with connected(broker) as connection:
        channel = await connection.open_channel()
        await cancelled_half_way(broker, lambda: channel.get("old"))
        broker.release()
        await wait_for_trio(lambda: len(channel.abandoned) == 1, DEADLINE_S, "it came")
        assert channel.requeue_abandoned() == 1
        message = await channel.get("old")
        assert message is not None
        assert message.body == b"1"
        assert channel.requeue_abandoned() == 0


@pytest.mark.trio
async def test_a_cancelled_open_channel_closes_what_it_opened() -> None:
    broker = FakeBroker()
    async with connected(broker) as connection:
        await cancelled_half_way(broker, connection.open_channel)
        broker.release()
        channel = await connection.open_channel()
        await channel_is_sound(broker, channel)
        assert len(broker.methods(commands.Channel.Close)) == 1


@pytest.mark.trio
async def test_a_cancelled_close_still_closes() -> None:
    broker = FakeBroker()
    async with connected(broker) as connection:
        channel = await connection.open_channel()
        await cancelled_half_way(broker, channel.close)
        broker.release()
        with pytest.raises(ChannelClosed):
            await channel.qos(1)
        await channel_is_sound(broker, await connection.open_channel())


@pytest.mark.trio
async def test_a_cancelled_consumer_cancel_requeues_what_still_comes() -> None:
    broker = FakeBroker()
    async with connected(broker) as connection:
        channel = await connection.open_channel()
        consumer = await channel.consume("old")
        await cancelled_half_way(broker, consumer.cancel)
        broker.out += wire(1)  # nothing: the order below is delivery, then cancel-ok
        held, broker.held = broker.held, None
        broker.deliver(1, consumer.consumer_tag, "old", b"late")
        broker.out += b"".join(held or ())
        await wait_for_trio(lambda: broker.queues["old"] == [b"late"], DEADLINE_S, "requeued")
        await channel_is_sound(broker, channel)
        with pytest.raises(StopAsyncIteration):
            await consumer.__anext__()


@pytest.mark.trio
async def test_a_call_in_a_scope_that_is_cancelled_already_sends_nothing() -> None:
    broker = FakeBroker()
    async with connected(broker) as connection:
        channel = await connection.open_channel()
        before = len(broker.seen)
        for call in (*(lambda call=call: call(channel) for call in CALLS.values()), channel.close, connection.open_channel):
            with trio.CancelScope() as scope:
                scope.cancel()
                await call()
            assert scope.cancelled_caught
        await channel.qos(1)
        assert len(broker.seen) == before + 1


@pytest.mark.trio
async def test_a_fetch_whose_wait_is_cancelled_may_be_waited_for_again() -> None:
    broker = FakeBroker(queues={"old": [b"1", b"2"]})
    async with connected(broker) as connection:
        channel = await connection.open_channel()
        broker.held = []
        fetch, next_one = channel.get_many_nowait("old", 1), channel.get_many_nowait("old", 3)
        with trio.move_on_after(0.01):
            await fetch.wait()
        assert not fetch.done
        broker.release()
        assert [message.body for message in await next_one.wait()] == [b"2"]
        assert [message.body for message in await fetch.wait()] == [b"1"]
        assert fetch.done
        assert channel.abandoned == ()


@pytest.mark.trio
async def test_acks_that_were_queued_before_a_cancellation_still_go_out() -> None:
    broker = FakeBroker(queues={"old": [b"1"]})

    async def work(connection: Connection) -> None:
        channel = await connection.open_channel()
        message = await channel.get("old")
        assert message is not None
        message.ack()
        await trio.sleep_forever()

    ours, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve, broker, theirs)
        with trio.move_on_after(0.05):
            async with open_connection_on(ours, HANDSHAKE) as connection:
                await work(connection)
        nursery.cancel_scope.cancel()
    assert len(broker.methods(commands.Basic.Ack)) == 1
    assert len(broker.methods(commands.Connection.Close)) == 1


@pytest.mark.trio
async def test_two_tasks_share_a_consumer_and_none_is_lost_to_a_cancelled_wait() -> None:
    broker = FakeBroker()
    taken: list[bytes] = []

    async def take(consumer: Consumer) -> None:
        async for message in consumer:
            taken.append(message.body)  # noqa: PERF401  the two tasks' orders must mix

    async with connected(broker) as connection:
        channel = await connection.open_channel()
        consumer = await channel.consume("q")
        with trio.move_on_after(0.01):
            await consumer.__anext__()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(take, consumer)
            nursery.start_soon(take, consumer)
            for number in range(20):
                broker.deliver(1, consumer.consumer_tag, "q", str(number).encode())
            await wait_for_trio(lambda: len(taken) == 20, DEADLINE_S, "all taken")
            await consumer.cancel()
    assert taken == [str(number).encode() for number in range(20)]
