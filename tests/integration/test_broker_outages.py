"""The RabbitMQ adapter when the broker is away, refuses, freezes or blocks. A private node a file: these tests break it."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterator
from urllib.parse import quote

import aio_pika
import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from slicelease.control_plane.broker import RabbitBroker
from slicelease.control_plane.domain import names
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.policy import QueueType
from slicelease.control_plane.ports import BrokerUnavailableError, RaisedAttention, WorkMessage
from tests.servers import RabbitMQ, free_port, wait_for_asyncio

pytestmark = [pytest.mark.asyncio, pytest.mark.servers]

ACME = QueueKey("acme", "default")
TIMEOUT_S = 2.0


def work(message_id: str) -> WorkMessage:
    return WorkMessage(b"work", message_id, "c")


@pytest.fixture(scope="module")
def node() -> Iterator[RabbitMQ]:
    with RabbitMQ() as server:
        yield server


@pytest.fixture
def url(node: RabbitMQ) -> Iterator[str]:
    if not node.running:
        node.start()
    vhost = node.new_vhost()
    yield node.vhost_url(vhost)
    node.delete_vhost(vhost)


async def ready(broker: RabbitBroker, deadline_s: float = 30) -> None:
    await wait_for_asyncio(lambda: broker.unready_reason() is None, deadline_s, "the broker is ready")


@pytest_asyncio.fixture
async def broker(url: str) -> AsyncIterator[RabbitBroker]:
    async with RabbitBroker(url, timeout_s=TIMEOUT_S, heartbeat_s=1) as broker:
        await ready(broker)
        await broker.declare_work_queue(ACME, QueueType.CLASSIC)
        yield broker


async def until_published(broker: RabbitBroker, message_id: str) -> int:
    """As a client does: tries again under the same id; how often it had to."""
    for attempt in range(200):
        try:
            await broker.publish_work(ACME, work(message_id))
        except BrokerUnavailableError:
            await asyncio.sleep(0.05)
        else:
            return attempt
    raise AssertionError("never published")


async def ids_in(url: str, queue: str) -> list[str | None]:
    async with await aio_pika.connect(url) as connection:
        source = await (await connection.channel()).get_queue(queue, ensure=False)
        found = []
        while message := await source.get(fail=False, no_ack=True):
            found.append(message.message_id)
        return found


async def raise_attention(url: str, *bodies: bytes) -> None:
    async with await aio_pika.connect(url) as connection:
        exchange = await (await connection.channel()).get_exchange(names.ATTENTION_EXCHANGE, ensure=False)
        for body in bodies:
            await exchange.publish(aio_pika.Message(body, delivery_mode=2), names.RAISED_KEY)


async def test_it_starts_without_a_broker_and_every_call_ends() -> None:
    with free_port() as port:
        async with RabbitBroker(f"amqp://guest:secret@127.0.0.1:{port}/", timeout_s=0.3) as broker:
            await wait_for_asyncio(lambda: "cannot be reached" in (broker.unready_reason() or ""), 10, "it says why")
            calls = (
                broker.declare_topology(["standard"]),
                broker.announce("standard", [b"1"]),
                broker.declare_work_queue(ACME, QueueType.CLASSIC),
                broker.publish_work(ACME, work("m")),
                broker.message_counts([ACME]),
                broker.attention_count("standard"),
                broker.delete_work_queue(ACME, if_empty=False),
                broker.delete_work_queue(ACME, if_empty=True),
                broker.take_raised(1),
            )
            async with asyncio.timeout(10):
                fates = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(fate) for fate in fates] == [BrokerUnavailableError] * len(calls)


@pytest.mark.parametrize(
    ("credentials", "vhost", "reason"),
    [("guest:s3cr3t/p", "", "refuses the user or password"), ("guest:guest", "nowhere", "no such virtual host")],
)
async def test_refused_connections_say_why_and_no_secret(
    node: RabbitMQ, caplog: pytest.LogCaptureFixture, credentials: str, vhost: str, reason: str
) -> None:
    """S04."""
    user, password = credentials.split(":")
    caplog.set_level(logging.DEBUG)
    address = f"amqp://{user}:{quote(password, safe='')}@127.0.0.1:{node.amqp_port}/{vhost}"
    with capture_logs() as logged:
        async with RabbitBroker(address, timeout_s=0.3) as broker:
            await wait_for_asyncio(lambda: reason in (broker.unready_reason() or ""), 10, "it says why")
            with pytest.raises(BrokerUnavailableError) as told:
                await broker.publish_work(ACME, work("m"))
    assert any(reason in str(entry.get("reason")) for entry in logged)
    said = " ".join([caplog.text, repr(logged), str(told.value)])
    if password != "guest":
        assert not any(secret in said for secret in (password, quote(password, safe="")))


@pytest.mark.parametrize("address", ["http://u:s3cret@h/", "amqp://", "amqp://u:s3cret@h:x/", "s3cret"])
async def test_a_bad_address_is_refused_without_being_repeated(address: str) -> None:
    """S04."""
    with pytest.raises(ValueError, match="AMQP address") as told:
        RabbitBroker(address)
    assert "s3cret" not in str(told.value)


async def test_lost_connections_lose_no_message(node: RabbitMQ, url: str, broker: RabbitBroker) -> None:
    """Cut three times under load: what was confirmed is there, and the order of first copies is kept by none but the id."""
    vhost = url.rpartition("/")[2]
    wanted = [f"m-{n}" for n in range(1_500)]
    todo = iter(wanted)

    async def client() -> int:
        return sum([await until_published(broker, message_id) for message_id in todo])

    clients = [asyncio.create_task(client()) for _ in range(16)]
    cut = 0
    for _ in range(3):
        await ready(broker)
        cut += await asyncio.to_thread(node.close_connections, vhost)
        await wait_for_asyncio(lambda: broker.unready_reason() is not None, 10, "the cut is seen")
    tries = sum(await asyncio.gather(*clients))
    assert cut >= 3
    assert tries > 0
    assert set(await ids_in(url, "work.acme")) == set(wanted)


async def test_attention_in_hand_comes_back_after_a_cut_and_its_late_ack_is_dropped(
    node: RabbitMQ, url: str, broker: RabbitBroker
) -> None:
    """A03, A04: consumers are there again within seconds, and an old tag meets no new channel."""
    await raise_attention(url, b"1", b"2")
    old: list[RaisedAttention] = []
    while len(old) < 2:
        old += await broker.take_raised(10)
    await asyncio.to_thread(node.close_connections, url.rpartition("/")[2])
    await wait_for_asyncio(lambda: broker.unready_reason() is not None, 10, "the cut is seen")
    await ready(broker, 10)
    new: list[RaisedAttention] = []
    async with asyncio.timeout(10):
        while len(new) < 2:
            new += await broker.take_raised(10)
    await broker.ack_raised(old)
    await broker.return_raised(old)
    assert sorted(raised.body for raised in new) == [b"1", b"2"]
    await broker.ack_raised(new)
    await broker.declare_topology(())  # a round trip on the same connection: a wrong ack would have ended it
    assert broker.unready_reason() is None
    assert await broker.message_counts([ACME]) == {ACME: 0}


async def test_a_restarted_broker_is_found_again_with_everything_in_it(node: RabbitMQ, url: str, broker: RabbitBroker) -> None:
    """A04: restarted, and again while the adapter reconnects."""
    await broker.declare_topology(["standard"])
    await broker.announce("standard", [b"ticket"])
    await broker.publish_work(ACME, work("before"))
    for _ in range(2):
        await asyncio.to_thread(node.stop)
        await wait_for_asyncio(lambda: broker.unready_reason() is not None, 20, "the outage is seen")
        with pytest.raises(BrokerUnavailableError):
            await broker.publish_work(ACME, work("during"))
        node.launch()
        await asyncio.to_thread(node.wait_ready)
    await ready(broker)
    await broker.publish_work(ACME, work("after"))
    assert await broker.attention_count("standard") == 1
    assert await ids_in(url, "work.acme") == ["before", "after"]


async def test_a_frozen_broker_costs_a_timeout(node: RabbitMQ, broker: RabbitBroker) -> None:
    loop = asyncio.get_running_loop()
    node.pause()
    try:
        begin_s = loop.time()
        with pytest.raises(BrokerUnavailableError, match="in time"):
            await broker.publish_work(ACME, work("frozen"))
        assert loop.time() - begin_s < TIMEOUT_S + 1
    finally:
        node.resume()
    await until_published(broker, "thawed")


async def test_missed_heartbeats_end_calls_and_not_the_tasks_that_made_them(node: RabbitMQ, url: str) -> None:
    """The driver ends such a connection itself, and raises CancelledError where nobody cancelled anything."""
    async with RabbitBroker(url, timeout_s=60, heartbeat_s=1) as broker:
        await ready(broker)
        await broker.declare_work_queue(ACME, QueueType.CLASSIC)
        node.pause()
        try:
            calls = (
                broker.publish_work(ACME, work("frozen")),
                broker.declare_work_queue(QueueKey("beta", "default"), QueueType.CLASSIC),
                broker.message_counts([ACME]),
            )
            async with asyncio.timeout(30):
                fates = await asyncio.gather(*calls, return_exceptions=True)
            assert [(type(fate), str(fate)) for fate in fates] == [
                (BrokerUnavailableError, "the connection to RabbitMQ was lost")
            ] * 3
        finally:
            node.resume()
        await ready(broker)
        await until_published(broker, "thawed")


async def test_under_a_memory_alarm_it_says_so_and_acks_go_on(node: RabbitMQ, url: str, broker: RabbitBroker) -> None:
    """A08, S06: known without a publish; publishing waits with a deadline; the consuming connection is not blocked."""
    await broker.declare_topology(["standard"])
    await raise_attention(url, *(b"%d" % n for n in range(50)))
    with contextlib.ExitStack() as alarm:
        await asyncio.to_thread(alarm.enter_context, node.memory_alarm())
        await wait_for_asyncio(lambda: "blocks publishers" in (broker.unready_reason() or ""), 10, "the alarm is known")
        with pytest.raises(BrokerUnavailableError, match="blocks publishers"):
            await broker.publish_work(ACME, work("blocked"))
        with pytest.raises(BrokerUnavailableError, match="blocks publishers"):
            await broker.announce("standard", [b"1"])
        taken: list[RaisedAttention] = []
        while len(taken) < 50:
            taken += await broker.take_raised(50)
        await broker.ack_raised(taken)
        await broker.declare_work_queue(QueueKey("beta", "default"), QueueType.CLASSIC)
        assert await broker.message_counts([ACME]) == {ACME: 0}
        depths = node.queue_depths
        vhost = url.rpartition("/")[2]
        await wait_for_asyncio(lambda: depths(vhost)["attention.work"] == 0, 10, "the acks have arrived")
        await asyncio.to_thread(alarm.close)
    await ready(broker)
    await broker.publish_work(ACME, work("after"))
    assert await ids_in(url, "work.acme") == ["after"]  # what was known to be blocked was not sent


async def test_it_closes_in_time_under_a_memory_alarm(node: RabbitMQ, url: str) -> None:
    """A08: shutdown inside its grace."""
    with contextlib.ExitStack() as alarm:
        async with RabbitBroker(url, timeout_s=TIMEOUT_S) as broker:
            await ready(broker)
            await asyncio.to_thread(alarm.enter_context, node.memory_alarm())
            await wait_for_asyncio(lambda: broker.unready_reason() is not None, 10, "the alarm is known")
            begin_s = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - begin_s < 5
        await asyncio.to_thread(alarm.close)


async def test_a_publish_given_up_disturbs_no_other(broker: RabbitBroker) -> None:
    """G09's side of the broker: callers leave at any point of a publish, to a queue that is not there at that."""
    gone = QueueKey("gone", "default")
    left = [asyncio.ensure_future(broker.publish_work(gone, work(f"m-{n}"))) for n in range(200)]
    stays = [asyncio.ensure_future(broker.publish_work(ACME, work(f"m-{n}"))) for n in range(200)]
    for n, task in enumerate(left):
        if n % 20 == 0:
            await asyncio.sleep(0)  # so that they are caught at different points
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await asyncio.gather(*stays)
    assert await broker.message_counts([ACME]) == {ACME: 200}
