"""The Trio transport over memory streams: coalescing, heartbeats, blocked publishing, losing the connection."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from pamqp import commands
from pamqp.heartbeat import Heartbeat
from trio.testing import memory_stream_pair

from slicelease.worker.amqp import (
    CannotConnect,
    ChannelClosed,
    Connection,
    ConnectionClosed,
    ConnectionLost,
    ConsumerCancelled,
    HeartbeatMissed,
    Properties,
    ProtocolViolation,
    TooManyChannels,
    open_connection_on,
)
from slicelease.worker.amqp.handshake import Handshake
from tests.servers import wait_for_trio
from tests.unit.amqp.fake_broker import HANDSHAKE, FakeBroker, serve, wire

DEADLINE_S = 5.0


@asynccontextmanager
async def connected(broker: FakeBroker, handshake: Handshake = HANDSHAKE) -> AsyncIterator[Connection]:
    ours, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve, broker, theirs)
        async with open_connection_on(ours, handshake) as connection:
            yield connection
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_whatever_is_queued_goes_out_in_one_send() -> None:
    broker = FakeBroker(queues={"q": [b"x"] * 40})
    async with connected(broker) as connection:
        channel = await connection.open_channel()
        before = connection.statistics()
        for message in await channel.get_many("q", 20):
            message.ack()
        await channel.get_many("q", 20)
        after = connection.statistics()
        assert after.sends - before.sends == 2
        assert after.frames_sent - before.frames_sent == 60
        assert after.frames_received - before.frames_received == 120
        assert after.bytes_queued == 0


@pytest.mark.trio
async def test_a_channel_may_be_used_before_its_open_ok() -> None:
    broker = FakeBroker(queues={"q": [b"x"]})
    async with connected(broker) as connection:
        before = connection.statistics().sends
        channel = connection.open_channel_nowait()
        [message] = await channel.get_many("q", 2)
        assert message.body == b"x"
        assert connection.statistics().sends == before + 1


@pytest.mark.trio
async def test_publishing_waits_while_blocked_and_sends_nothing() -> None:
    broker = FakeBroker()
    async with connected(broker) as connection:
        channel = await connection.open_channel()
        await channel.confirm_select()
        broker.say(0, commands.Connection.Blocked("low on memory"))
        await wait_for_trio(lambda: connection.blocked, DEADLINE_S, "blocked")
        assert connection.blocked == "low on memory"
        with trio.move_on_after(0.02) as scope:
            await channel.publish("", "q", b"x")
        assert scope.cancelled_caught
        await channel.qos(1)  # other calls go on
        assert broker.methods(commands.Basic.Publish) == []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(channel.publish, "", "q", b"y")
            broker.say(0, commands.Connection.Unblocked())
            await connection.wait_unblocked()
        assert connection.blocked is None
        assert len(broker.methods(commands.Basic.Publish)) == 1


@pytest.mark.trio
async def test_losing_the_connection_ends_whoever_waits() -> None:
    broker, ended = FakeBroker(), []
    async with connected(broker) as connection:
        channel = await connection.open_channel()
        consumer = await channel.consume("q")
        broker.held = []

        async def expect_loss(wait: object) -> None:
            try:
                await wait  # type: ignore[misc]
            except ConnectionLost as error:
                ended.append(error)

        async with trio.open_nursery() as nursery:
            for wait in (channel.get("q"), channel.publish("", "q", b""), consumer.__anext__(), channel.qos(1)):
                nursery.start_soon(expect_loss, wait)
            await wait_for_trio(lambda: len(broker.held or ()) >= 3, DEADLINE_S, "all calls seen")
            broker.out += wire(0, commands.Connection.Close(320, "CONNECTION_FORCED", 0, 0))
        assert len(ended) == 4
        assert len({id(error) for error in ended}) == 4  # each its own, so that tracebacks do not pile up
        assert isinstance(await connection.wait_closed(), ConnectionClosed)
        for call in (lambda: channel.ack(1), connection.open_channel_nowait, lambda: channel.nack(1)):
            with pytest.raises(ConnectionLost):
                call()


@pytest.mark.trio
async def test_a_delivery_tag_of_a_dead_channel_is_never_sent() -> None:
    broker = FakeBroker(queues={"q": [b"x"]})
    async with connected(broker) as connection:
        channel = await connection.open_channel()
        message = await channel.get("q")
        assert message is not None
        broker.say(1, commands.Channel.Close(406, "PRECONDITION_FAILED - consumer ack timed out", 0, 0))
        await wait_for_trio(lambda: channel.closed, DEADLINE_S, "channel closed")
        other = await connection.open_channel()
        for settle in (message.ack, message.nack, message.reject):
            with pytest.raises(ChannelClosed, match="consumer ack timed out"):
                settle()
        await other.qos(1)
        assert broker.methods(commands.Basic.Ack) == []


@pytest.mark.trio
async def test_a_consumer_ends_with_the_reason() -> None:
    broker = FakeBroker(queues={"q": [b"1", b"2"]})
    async with connected(broker) as connection:
        channel = await connection.open_channel()
        consumer = await channel.consume("q")
        await channel.qos(1)  # so that both deliveries are here
        broker.say(1, commands.Basic.Cancel(consumer.consumer_tag, nowait=True))
        assert [(await consumer.__anext__()).body for _ in range(2)] == [b"1", b"2"]
        with pytest.raises(ConsumerCancelled):
            await consumer.__anext__()
        assert isinstance(consumer.ended, ConsumerCancelled)
        with pytest.raises(trio.WouldBlock):
            consumer.receive_nowait()
        await consumer.cancel()  # it ended already


@pytest.mark.trio
async def test_an_ended_channel_takes_its_deliveries_back() -> None:
    broker = FakeBroker(queues={"q": [b"1"]})
    async with connected(broker) as connection:
        channel = await connection.open_channel()
        consumer = await channel.consume("q")
        await channel.qos(1)
        await channel.close()
        with pytest.raises(ChannelClosed):
            await consumer.__anext__()


@pytest.mark.trio
async def test_cancel_lets_what_was_delivered_be_taken() -> None:
    broker = FakeBroker(queues={"q": [b"1", b"2"]})
    async with connected(broker) as connection:
        channel = await connection.open_channel()
        consumer = await channel.consume("q")
        await channel.qos(1)
        await consumer.cancel()
        assert [message.body async for message in consumer] == [b"1", b"2"]


@pytest.mark.trio
async def test_the_body_of_the_block_raises_as_it_is_and_not_as_a_group() -> None:
    with pytest.raises(ZeroDivisionError):
        async with connected_alone():
            raise ZeroDivisionError


@asynccontextmanager
async def connected_alone() -> AsyncIterator[Connection]:
    """Without a nursery of the test around it, which would make a group of its own."""
    ours, theirs = memory_stream_pair()
    broker, done = FakeBroker(), trio.Event()

    async def run() -> None:
        await serve(broker, theirs)
        done.set()

    trio.lowlevel.spawn_system_task(run)
    async with open_connection_on(ours, HANDSHAKE) as connection:
        yield connection
    await done.wait()


@pytest.mark.trio
async def test_a_server_that_says_nothing_is_given_up_in_time() -> None:
    ours, _theirs = memory_stream_pair()
    with pytest.raises(CannotConnect, match="handshake"):
        async with open_connection_on(ours, HANDSHAKE, connect_timeout_s=0.02):
            pytest.fail("opened")


@pytest.mark.trio
async def test_a_violation_is_told_to_the_server_before_the_stream_closes() -> None:
    broker = FakeBroker()
    async with connected(broker) as connection:
        broker.out += b"\x09\x00\x00\x00\x00\x00\x00"
        assert isinstance(await connection.wait_closed(), ProtocolViolation)
        await wait_for_trio(lambda: broker.methods(commands.Connection.Close), DEADLINE_S, "close seen")


@pytest.mark.trio
async def test_more_channels_than_agreed_are_refused() -> None:
    async with connected(FakeBroker(), Handshake(user="u", password="p", heartbeat_s=0, channel_max=2)) as connection:
        first = await connection.open_channel()
        await connection.open_channel()
        with pytest.raises(TooManyChannels):
            await connection.open_channel()
        await first.close()
        await connection.open_channel()


@pytest.mark.trio
async def test_a_mandatory_publish_without_confirm_has_nobody_to_tell() -> None:
    async with connected(FakeBroker()) as connection:
        channel = await connection.open_channel()
        with pytest.raises(ValueError, match="mandatory"):
            await channel.publish("", "q", b"", confirm=False)
        await channel.publish("", "q", b"", Properties(type="t"), mandatory=False, confirm=False)


@pytest.mark.trio
async def test_a_silent_broker_is_lost_after_two_intervals(autojump_clock: trio.testing.MockClock) -> None:
    """On the mock clock: the broker says nothing after the handshake."""
    ours, theirs = memory_stream_pair()
    sent = bytearray()

    async def listen() -> None:
        while data := await theirs.receive_some():
            sent.extend(data)

    async with trio.open_nursery() as nursery:
        greet = FakeBroker(heartbeat_s=5)
        greet.receive(b"AMQP\x00\x00\x09\x01")
        tune, ok = commands.Connection.Tune(0, 0, 60), commands.Connection.OpenOk()
        await theirs.send_all(greet.take_output() + wire(0, tune, ok))
        nursery.start_soon(listen)
        async with open_connection_on(ours, Handshake(user="u", password="p", heartbeat_s=4)) as connection:
            opened = trio.current_time()
            assert isinstance(await connection.wait_closed(), HeartbeatMissed)
            assert trio.current_time() - opened == pytest.approx(8)
    beat = Heartbeat.value
    assert bytes(sent).count(beat) in (3, 4)
    assert bytes(sent).endswith(beat)


@pytest.mark.trio
async def test_heartbeats_keep_an_idle_connection(autojump_clock: trio.testing.MockClock) -> None:
    ours, theirs = memory_stream_pair()
    broker = FakeBroker(heartbeat_s=4)

    async def speak() -> None:
        while data := await theirs.receive_some():
            broker.receive(bytes(data))
            await theirs.send_all(broker.take_output() + Heartbeat.value)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(speak)
        async with open_connection_on(ours, Handshake(user="u", password="p", heartbeat_s=4)) as connection:
            await trio.sleep(600)
            assert connection.closed is None
            assert 290 <= len([1 for _, part in broker.seen if isinstance(part, Heartbeat)]) <= 310
            channel = await connection.open_channel()
            await channel.qos(1)


@pytest.mark.trio
async def test_close_nowait_closes_and_may_be_repeated() -> None:
    broker = FakeBroker(queues={"q": [b"x"]})
    async with connected(broker) as connection:
        channel = await connection.open_channel()
        await channel.get("q")
        channel.close_nowait()
        channel.close_nowait()
        assert isinstance(channel.closed, ChannelClosed)
        await wait_for_trio(lambda: broker.queues["q"] == [b"x"], DEADLINE_S, "given back")
        assert len(broker.methods(commands.Channel.Close)) == 1


@pytest.mark.trio
async def test_gets_of_no_message_and_of_fewer() -> None:
    async with connected(FakeBroker()) as connection:
        channel = await connection.open_channel()
        assert await channel.get_many("q", 0) == []
        with pytest.raises(ValueError, match="-1"):
            await channel.get_many("q", -1)


@pytest.mark.trio
async def test_two_tasks_cannot_wait_for_one_fetch() -> None:
    broker = FakeBroker()
    async with connected(broker) as connection:
        channel = await connection.open_channel()
        broker.held = []
        fetch = channel.get_many_nowait("q", 1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fetch.wait)
            await wait_for_trio(lambda: broker.held, DEADLINE_S, "asked")
            with pytest.raises(trio.BusyResourceError):
                await fetch.wait()
            broker.release()
        assert fetch.messages == []


@pytest.mark.trio
async def test_the_reason_that_lies_unread_is_told_when_a_write_fails_first() -> None:
    """The broker closes with a reason and hangs up while we write."""
    ours, theirs = memory_stream_pair()
    broker = FakeBroker()
    async with trio.open_nursery() as nursery:

        async def speak() -> None:
            while broker.out or not broker.methods(commands.Queue.Declare):
                broker.receive(bytes(await theirs.receive_some()))
                await theirs.send_all(broker.take_output())
            await theirs.send_all(wire(0, commands.Connection.Close(541, "INTERNAL_ERROR", 0, 0)))
            await theirs.aclose()

        nursery.start_soon(speak)
        async with open_connection_on(ours, HANDSHAKE) as connection:
            channel = await connection.open_channel()
            await channel.declare_queue("q")
            for _ in range(3):
                channel.ack(1)
            closed = await connection.wait_closed()
            assert isinstance(closed, ConnectionClosed)
            assert closed.code == 541
