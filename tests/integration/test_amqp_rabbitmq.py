"""The AMQP client against a real RabbitMQ: what is sent is what comes, and every way in which a call can fail."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from slicelease.worker.amqp import (
    PERSISTENT,
    AccessRefused,
    CannotConnect,
    Channel,
    ChannelAccessRefused,
    ChannelClosed,
    Connection,
    ConnectionClosed,
    ConnectionParameters,
    ConsumerCancelled,
    ExchangeMissing,
    LoginRefused,
    LongString,
    Message,
    PreconditionFailed,
    Properties,
    PublishRefused,
    QueueMissing,
    ResourceLocked,
    Unroutable,
    Value,
    open_connection,
)
from tests.servers import RabbitMQ, wait_for_trio

pytestmark = pytest.mark.servers
DEADLINE_S = 10.0
KINDS = ("classic", "quorum")
PAGE = (Path(__file__).resolve().parents[2] / "docs/amqp.md").read_text()
EXAMPLE = PAGE.partition("```python\n")[2].partition("```")[0]


@asynccontextmanager
async def channel_on(url: str) -> AsyncIterator[Channel]:
    async with open_connection(url, name="test") as connection:
        yield await connection.open_channel()


async def fetch(channel: Channel, queue: str) -> Message:
    """The next message of a queue that is known to have one."""

    async def look() -> Message | None:
        return await channel.get(queue)

    return await wait_for_trio(look, DEADLINE_S, f"a message in {queue}")


@pytest.mark.trio
@pytest.mark.parametrize("size", [0, 1, 4087, 131_063, 131_064, 131_065, 262_128, 262_129, 1024 * 1024])
async def test_bodies_of_any_size_survive(amqp_url: str, size: int) -> None:
    body = os.urandom(size)
    async with channel_on(amqp_url) as channel:
        await channel.declare_queue("q")
        await channel.publish("", "q", body)
        message = await channel.get("q")
        assert message is not None
        assert message.body == body
        consumer = await channel.consume("q")
        message.nack()
        again = await consumer.__anext__()
        assert (again.body, again.redelivered, again.consumer_tag) == (body, True, consumer.consumer_tag)
        again.ack()
        await channel.close()


def as_sent(message: Message) -> Properties:
    """Without the header that a quorum queue adds to each delivery."""
    headers = {name: value for name, value in message.headers.items() if name != "x-delivery-count"}
    return message.properties._replace(headers=headers)


EVERY_TYPE: dict[str, Value] = {
    "true": True,
    "false": False,
    "int8": -5,
    "int32": 2_147_483_647,
    "int64": -9_223_372_036_854_775_808,
    "int64 max": 9_223_372_036_854_775_807,
    "double": 0.1,
    "huge": 1e300,
    "decimal": Decimal("3.14"),
    "negative decimal": Decimal("-0.00001"),
    "text": "Grüße, 世界",
    "empty": "",
    "long": "x" * 70_000,
    "bytes": b"\x00\xff",
    "not utf-8": LongString(b"\xff\xfe"),
    "nothing": None,
    "time": datetime(2038, 1, 19, 3, 14, 8, tzinfo=UTC),
    "far": datetime(9999, 12, 31, tzinfo=UTC),
    "list": [1, "a", [True, None], {"k": b"v"}],
    "table": {"deep": {"deeper": {"deepest": [1.5]}}, "": "empty name"},
    "Ключ": "name",
}


@pytest.mark.trio
@pytest.mark.parametrize("kind", KINDS)
async def test_every_header_type_and_property_survives_and_can_be_sent_on(amqp_url: str, kind: str) -> None:
    sent = Properties(
        content_type="application/json",
        content_encoding="identity",
        headers=EVERY_TYPE,
        delivery_mode=PERSISTENT,
        priority=3,
        correlation_id="c-1",
        reply_to="somewhere",
        expiration="600000",
        message_id="m-1",
        timestamp=datetime(2024, 2, 29, 12, tzinfo=UTC),
        type="invoice.made",
        user_id="guest",
        app_id="test",
    )
    async with channel_on(amqp_url) as channel:
        for queue in ("q", "second"):
            await channel.declare_queue(queue, arguments={"x-queue-type": kind})
        await channel.publish("", "q", b"x", sent)
        first = await fetch(channel, "q")
        assert as_sent(first) == sent
        assert {name: type(first.headers[name]) for name in EVERY_TYPE} == {
            name: type(value) for name, value in EVERY_TYPE.items()
        }
        await channel.publish("", "second", first.body, first.encoded_properties)
        second = await fetch(channel, "second")
        assert as_sent(second) == sent
        await channel.publish("", "second", first.body, first.properties)
        assert as_sent(await fetch(channel, "second")) == sent


@pytest.mark.trio
async def test_gets_in_one_write_keep_the_order_and_say_what_is_left(amqp_url: str) -> None:
    async with channel_on(amqp_url) as channel:
        await channel.declare_queue("q")
        for number in range(5):
            await channel.publish("", "q", str(number).encode())
        messages = await channel.get_many("q", 8)
        assert [message.body for message in messages] == [b"0", b"1", b"2", b"3", b"4"]
        assert [message.message_count for message in messages] == [4, 3, 2, 1, 0]
        assert [message.delivery_tag for message in messages] == [1, 2, 3, 4, 5]
        channel.ack(messages[2].delivery_tag, multiple=True)
        messages[3].reject(requeue=True)
        messages[4].nack()
        back = [await fetch(channel, "q") for _ in range(2)]  # a message_count would still leave them out
        assert [(message.body, message.redelivered) for message in back] == [(b"3", True), (b"4", True)]
        assert await channel.get("q") is None


@pytest.mark.trio
@pytest.mark.parametrize("kind", KINDS)
async def test_closing_a_channel_gives_back_in_order_what_it_held(amqp_url: str, kind: str) -> None:
    async with open_connection(amqp_url) as connection:
        channel, other = await connection.open_channel(), await connection.open_channel()
        await channel.declare_queue("q", arguments={"x-queue-type": kind})
        for number in range(6):
            await channel.publish("", "q", str(number).encode())
        held: list[Message] = []
        while len(held) < 4:  # a quorum queue may answer "empty" while it is still writing
            held += await channel.get_many("q", 4 - len(held))
        held[0].ack()
        await channel.close()
        back = [(await fetch(other, "q")).body for _ in range(5)]
        assert back == [b"1", b"2", b"3", b"4", b"5"]


@pytest.mark.trio
async def test_a_cancelled_get_loses_no_message(amqp_url: str) -> None:
    """Field trial T05, on a real broker: cancelled at many moments, on one channel."""
    async with open_connection(amqp_url) as connection:
        channel = await connection.open_channel()
        await channel.declare_queue("q")
        for number in range(40):
            await channel.publish("", "q", str(number).encode())
        taken: list[int] = []
        for turn in range(40):
            with trio.move_on_after(turn * 0.00005):
                taken += [int(message.body) for message in await channel.get_many("q", 2)]
            name = (await channel.declare_queue(f"q-{turn}", exclusive=True)).name
            assert name == f"q-{turn}"
        kept = [int(message.body) for message in channel.abandoned]
        taken += [int(message.body) for message in await channel.get_many("q", 40)]
        assert sorted(taken + kept) == list(range(40))
        assert kept == sorted(kept)


@pytest.mark.trio
@pytest.mark.parametrize("kind", KINDS)
async def test_many_tasks_publish_on_one_channel_and_each_gets_its_own_answer(amqp_url: str, kind: str) -> None:
    results: dict[int, str] = {}

    async def publish(channel: Channel, number: int) -> None:
        try:
            await channel.publish("", "q" if number % 3 else "nowhere", str(number).encode())
            results[number] = "confirmed"
        except Unroutable as error:
            results[number] = f"returned {error.code}"

    async with open_connection(amqp_url) as connection:
        channel = await connection.open_channel()
        await channel.declare_queue("q", arguments={"x-queue-type": kind})
        async with trio.open_nursery() as nursery:
            for number in range(300):
                nursery.start_soon(publish, channel, number)
        assert results == {number: "confirmed" if number % 3 else "returned 312" for number in range(300)}
        assert channel.state.confirms.returns_unmatched_total == 0
        assert (await channel.declare_queue("q", passive=True)).message_count == 200
        assert connection.statistics().sends < 40


@pytest.mark.trio
async def test_a_full_queue_refuses(amqp_url: str) -> None:
    """Field trial A09, the part of the client."""
    refused = 0
    async with channel_on(amqp_url) as channel:
        await channel.declare_queue("q", arguments={"x-max-length": 3, "x-overflow": "reject-publish"})
        for _ in range(10):
            try:
                await channel.publish("", "q", b"x")
            except PublishRefused:
                refused += 1
        assert refused == 7


@pytest.mark.trio
async def test_each_way_to_be_refused_has_its_error_and_spares_other_channels(amqp_url: str) -> None:
    async with open_connection(amqp_url) as connection, open_connection(amqp_url) as stranger:
        witness = await connection.open_channel()
        await witness.declare_queue("q")
        await witness.declare_queue("mine", exclusive=True)
        await witness.publish("", "q", b"x")
        foreign = await stranger.open_channel()
        with pytest.raises(ResourceLocked):
            await foreign.declare_queue("mine", exclusive=True)
        cases: list[tuple[type[ChannelClosed], Callable[[Channel], Awaitable[object]]]] = [
            (QueueMissing, lambda channel: channel.get("nope")),
            (QueueMissing, lambda channel: channel.declare_queue("nope", passive=True)),
            (QueueMissing, lambda channel: channel.consume("nope")),
            (QueueMissing, lambda channel: channel.purge_queue("nope")),
            (QueueMissing, lambda channel: channel.bind_queue("nope", "amq.direct", "k")),
            (ExchangeMissing, lambda channel: channel.bind_queue("q", "nope", "k")),
            (ExchangeMissing, lambda channel: channel.publish("nope", "k", b"")),
            (ExchangeMissing, lambda channel: channel.declare_exchange("nope", passive=True)),
            (PreconditionFailed, lambda channel: channel.declare_queue("q", durable=False)),
            (PreconditionFailed, lambda channel: channel.declare_queue("q", arguments={"x-max-length": 5})),
            (PreconditionFailed, lambda channel: channel.delete_queue("q", if_empty=True)),
            (ChannelAccessRefused, lambda channel: channel.declare_queue("amq.mine")),
        ]
        for kind, call in cases:
            channel = await connection.open_channel()
            with pytest.raises(kind) as caught:
                await call(channel)
            assert isinstance(channel.closed, kind)
            assert isinstance(caught.value, ChannelClosed)
            with pytest.raises(kind):
                channel.ack(1)
        assert (await witness.declare_queue("q", passive=True)).message_count == 1


@pytest.mark.trio
async def test_an_ack_of_an_unknown_tag_closes_the_channel_with_406(amqp_url: str) -> None:
    async with channel_on(amqp_url) as channel:
        channel.ack(77)
        with pytest.raises(PreconditionFailed, match="unknown delivery tag"):
            await channel.qos(1)


@pytest.mark.trio
async def test_topology_comes_and_goes(amqp_url: str) -> None:
    async with channel_on(amqp_url) as channel:
        await channel.declare_exchange("ex", "topic", arguments={"alternate-exchange": "amq.fanout"})
        named = await channel.declare_queue("", exclusive=True)
        assert named.name.startswith("amq.gen")
        await channel.bind_queue(named.name, "ex", "a.*")
        await channel.publish("ex", "a.b", b"x")
        with pytest.raises(Unroutable):
            await channel.publish("ex", "b.a", b"x")
        await channel.unbind_queue(named.name, "ex", "a.*")
        with pytest.raises(Unroutable):
            await channel.publish("ex", "a.b", b"x")
        assert await channel.purge_queue(named.name) == 1
        assert await channel.delete_queue(named.name, if_empty=True, if_unused=True) == 0
        await channel.delete_exchange("ex", if_unused=True)


@pytest.mark.trio
async def test_consumers_get_what_the_prefetch_allows_and_end_when_cancelled(amqp_url: str) -> None:
    async with open_connection(amqp_url) as connection:
        channel, other = await connection.open_channel(), await connection.open_channel()
        await channel.declare_queue("q")
        for number in range(10):
            await channel.publish("", "q", str(number).encode())
        await channel.qos(3)
        consumer = await channel.consume("q")
        first = [await consumer.__anext__() for _ in range(3)]
        with trio.move_on_after(0.05) as scope:
            await consumer.__anext__()
        assert scope.cancelled_caught
        first[0].ack()
        assert (await consumer.__anext__()).body == b"3"
        assert (await channel.declare_queue("q", passive=True)).consumer_count == 1
        with pytest.raises(ChannelAccessRefused):
            await other.consume("q", exclusive=True)
        await consumer.cancel()
        assert [message async for message in consumer] == []
        assert (await channel.declare_queue("q", passive=True)).consumer_count == 0


@pytest.mark.trio
async def test_a_deleted_queue_ends_its_consumer_and_nothing_else(amqp_url: str) -> None:
    """Field trial A10, the part of the client."""
    async with open_connection(amqp_url) as connection:
        channel, other = await connection.open_channel(), await connection.open_channel()
        await channel.declare_queue("q")
        await channel.declare_queue("kept")
        consumer, kept = await channel.consume("q"), await channel.consume("kept")
        await other.delete_queue("q")
        with pytest.raises(ConsumerCancelled):
            await consumer.__anext__()
        await other.publish("", "kept", b"x")
        assert (await kept.__anext__()).body == b"x"
        assert channel.closed is None


@pytest.mark.trio
async def test_the_broker_closes_all_connections(rabbitmq: RabbitMQ, vhost: str, amqp_url: str) -> None:
    async with open_connection(amqp_url) as connection:
        channel = await connection.open_channel()
        await channel.declare_queue("q")
        consumer = await channel.consume("q")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, partial(rabbitmq.close_connections, vhost))
            with pytest.raises(ConnectionClosed, match="CONNECTION_FORCED"):
                await consumer.__anext__()
        closed = await connection.wait_closed()
        assert isinstance(closed, ConnectionClosed)
        assert (closed.code, closed.by_broker) == (320, True)
        with pytest.raises(ConnectionClosed):
            await connection.open_channel()


@pytest.mark.trio
@pytest.mark.parametrize(
    ("user", "password", "vhost"), [("guest", "Wr0ng-word", "/"), ("nobody", "Wr0ng-word", "/"), ("guest", "guest", "nowhere")]
)
async def test_refused_access_says_so_and_shows_no_secret(rabbitmq: RabbitMQ, user: str, password: str, vhost: str) -> None:
    """Field trial S04, the part of the client."""
    where = ConnectionParameters("127.0.0.1", rabbitmq.amqp_port, user, password, vhost)
    with pytest.raises(LoginRefused) as caught:
        async with open_connection(where):
            pytest.fail("opened")
    assert isinstance(caught.value, AccessRefused)
    assert "Wr0ng-word" not in str(caught.value) + repr(caught.value)


@pytest.mark.trio
async def test_nobody_there_is_told_with_the_address_only() -> None:
    with pytest.raises(CannotConnect, match=r"127\.0\.0\.1:1\b") as caught:
        async with open_connection("amqp://u:Wr0ng-word@127.0.0.1:1"):
            pytest.fail("opened")
    assert "Wr0ng-word" not in str(caught.value)


@pytest.mark.trio
async def test_channels_come_and_go_by_the_hundred(amqp_url: str) -> None:
    async def visit(connection: Connection) -> None:
        for _ in range(10):
            channel = connection.open_channel_nowait()
            assert await channel.get("q") is None
            await channel.close()

    async with open_connection(amqp_url) as connection:
        await (await connection.open_channel()).declare_queue("q")
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(visit, connection)
        assert connection.closed is None


@pytest.mark.trio
async def test_the_example_of_the_docs_runs(amqp_url: str) -> None:
    names: dict[str, Any] = {}
    exec(compile(EXAMPLE, "docs/amqp.md", "exec"), names)
    assert await names["main"](amqp_url) == [b"%d" % number for number in range(20)]
