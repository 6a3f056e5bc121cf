"""What RabbitMQ itself does with the topology that the adapter declares: dead letters, adopted queues, no stray copies."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from decimal import Decimal

import aio_pika
import pytest
import pytest_asyncio
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
from pamqp.common import FieldTable
from structlog.testing import capture_logs

from slicelease.control_plane.broker import RabbitBroker
from slicelease.control_plane.domain import names
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.policy import QueueType
from slicelease.control_plane.ports import RaisedAttention, WorkMessage
from tests.servers import RabbitMQ, wait_for_asyncio

pytestmark = [pytest.mark.asyncio, pytest.mark.servers]

ACME, BETA = QueueKey("acme", "default"), QueueKey("beta", "default")
BOTH_TYPES = pytest.mark.parametrize("queue_type", [QueueType.CLASSIC, QueueType.QUORUM])
DELIVERY_LIMIT = {"x-queue-type": "quorum", "x-delivery-limit": 2}


def work(message_id: str) -> WorkMessage:
    return WorkMessage(b"work", message_id, "c")


@pytest_asyncio.fixture
async def channel(amqp_url: str) -> AsyncIterator[AbstractChannel]:
    """Somebody else's."""
    async with await aio_pika.connect(amqp_url) as connection:
        yield await connection.channel(on_return_raises=True)


@pytest_asyncio.fixture
async def broker(amqp_url: str) -> AsyncIterator[RabbitBroker]:
    async with RabbitBroker(amqp_url) as broker:
        await wait_for_asyncio(lambda: broker.unready_reason() is None, 20, "the broker is ready")
        yield broker


async def next_of(channel: AbstractChannel, queue: str) -> AbstractIncomingMessage:
    source = await channel.get_queue(queue, ensure=False)

    async def get() -> AbstractIncomingMessage | None:
        return await source.get(fail=False)

    return await wait_for_asyncio(get, 10, f"a message in {queue}")


async def raise_and_take(broker: RabbitBroker, channel: AbstractChannel, message: aio_pika.Message) -> list[RaisedAttention]:
    exchange = await channel.get_exchange(names.ATTENTION_EXCHANGE, ensure=False)
    await exchange.publish(message, names.RAISED_KEY)
    async with asyncio.timeout(10):
        return await broker.take_raised(10)


@BOTH_TYPES
async def test_a_rejected_message_is_no_dead_letter_lost(
    broker: RabbitBroker, channel: AbstractChannel, queue_type: QueueType
) -> None:
    """It goes to the tenant's dead letters where there are any, else to the unsorted ones."""
    await broker.declare_work_queue(ACME, queue_type)
    dead = await channel.declare_queue("dead.acme", durable=True)
    for message_id, bound in (("m-1", False), ("m-2", True)):
        if bound:
            await dead.bind(names.DEAD_EXCHANGE, "acme")
        await broker.publish_work(ACME, work(message_id))
        await (await next_of(channel, "work.acme")).reject(requeue=False)
        letter = await next_of(channel, "dead.acme" if bound else names.DEAD_UNSORTED_QUEUE)
        assert letter.message_id == message_id
        await letter.ack()


async def test_a_quorum_work_queue_has_no_delivery_limit(broker: RabbitBroker, channel: AbstractChannel) -> None:
    await broker.declare_work_queue(ACME, QueueType.QUORUM)
    await broker.publish_work(ACME, work("m-1"))
    for _ in range(25):
        await (await next_of(channel, "work.acme")).nack(requeue=True)
    assert (await next_of(channel, "work.acme")).redelivered


@pytest.mark.parametrize(
    ("arguments", "named"), [(DELIVERY_LIMIT, "x-"), ({"x-max-length": 1_000_000}, "x-max-length"), ({}, None)]
)
async def test_attention_queues_of_others_are_used_as_they_are(
    amqp_url: str, channel: AbstractChannel, arguments: FieldTable, named: str | None
) -> None:
    """A06, A14: a pre-existing quorum queue with a limit, say."""
    for queue in ("attention.standard", "attention.work"):
        await channel.declare_queue(queue, durable=True, arguments=arguments)
    with capture_logs() as logged:
        async with RabbitBroker(amqp_url) as broker:
            await broker.declare_topology(["standard"])
            assert await broker.announce("standard", [b"ticket"]) == 1
            (raised,) = await raise_and_take(broker, channel, aio_pika.Message(b"attention"))
            await broker.ack_raised([raised])
    assert (await next_of(channel, "attention.standard")).body == b"ticket"
    warned = {(entry["name"], str(entry["argument"])[: len(named or "")]) for entry in logged if "argument" in entry}
    assert warned == ({("attention.standard", named), ("attention.work", named)} if named else set())


@pytest.mark.parametrize(
    ("arguments", "durable", "differing"),
    [
        ({}, True, "x-dead-letter-exchange"),
        ({"x-queue-type": "quorum"}, True, "x-queue-type"),
        ({}, False, "durable"),
    ],
)
async def test_the_differing_argument_is_named_whatever_it_is(
    broker: RabbitBroker, channel: AbstractChannel, arguments: FieldTable, durable: bool, differing: str
) -> None:
    """A11. Which of several is named is the broker's choice."""
    await channel.declare_queue("work.acme", durable=durable, arguments=arguments)
    with pytest.raises(Exception, match=rf"work\.acme exists .* another (x-dead-letter-exchange|{differing})"):
        await broker.declare_work_queue(ACME, QueueType.CLASSIC)


async def test_somebodys_exclusive_queue_is_named_and_not_counted(amqp_url: str, broker: RabbitBroker) -> None:
    async with await aio_pika.connect(amqp_url) as connection:
        await (await connection.channel()).declare_queue("work.acme", exclusive=True)
        with pytest.raises(Exception, match=r"work\.acme exists at the broker with another exclusive"):
            await broker.declare_work_queue(ACME, QueueType.CLASSIC)
        await broker.declare_work_queue(BETA, QueueType.CLASSIC)
        assert await broker.message_counts([ACME, BETA]) == {ACME: 0, BETA: 0}


@pytest.mark.parametrize("header", ["CC", "BCC"])
async def test_no_copy_is_routed_into_the_queue_of_another_tenant(
    broker: RabbitBroker, channel: AbstractChannel, header: str
) -> None:
    """S03: by published work, and by attention that is moved to the dead letters."""
    for key in (ACME, BETA):
        await broker.declare_work_queue(key, QueueType.CLASSIC)
    with pytest.raises(ValueError, match="CC and BCC"):
        await broker.publish_work(ACME, WorkMessage(b"work", "m-1", "c", headers={header: "work.beta"}))
    raised = await raise_and_take(broker, channel, aio_pika.Message(b"junk", headers={"CC": ["work.beta"], "kept": 1}))
    await broker.refuse_raised(raised, "MALFORMED")
    letter = await next_of(channel, names.DEAD_UNSORTED_QUEUE)
    assert letter.headers == {"kept": 1, "x-slicelease-reason": "MALFORMED"}
    assert await broker.message_counts([ACME, BETA]) == {ACME: 0, BETA: 0}


async def test_too_many_headers_are_refused_before_they_cost_the_connection(broker: RabbitBroker) -> None:
    await broker.declare_work_queue(ACME, QueueType.CLASSIC)
    with pytest.raises(ValueError, match="more than 98304 bytes"):
        await broker.publish_work(ACME, WorkMessage(b"work", "m-1", "c", headers={"x": "y" * 98_304}))
    await broker.publish_work(ACME, WorkMessage(b"work", "m-1", "c", headers={"x": "y" * 98_000}))
    assert await broker.message_counts([ACME]) == {ACME: 1}


async def test_a_refused_attention_keeps_what_describes_it(broker: RabbitBroker, channel: AbstractChannel) -> None:
    """And neither expires among the dead letters nor is refused there for its user."""
    headers: FieldTable = {"text": "é", "n": 1, "none": None, "at": datetime(2024, 5, 6, tzinfo=UTC), "price": Decimal("1.5")}
    message = aio_pika.Message(
        b"junk",
        headers=headers | {"nested": {"list": [1, "two"]}},
        content_type="text/plain",
        message_id="m-1",
        correlation_id="c-1",
        type="kind",
        app_id="shop",
        user_id="guest",
        expiration=100_000,
        delivery_mode=1,
    )
    await broker.refuse_raised(await raise_and_take(broker, channel, message), "MALFORMED")
    letter = await next_of(channel, names.DEAD_UNSORTED_QUEUE)
    assert letter.headers == headers | {"nested": {"list": [1, "two"]}, "x-slicelease-reason": "MALFORMED"}
    assert (letter.content_type, letter.message_id, letter.correlation_id) == ("text/plain", "m-1", "c-1")
    assert (letter.type, letter.app_id, letter.user_id, letter.expiration) == ("kind", "shop", None, None)
    assert letter.delivery_mode == 2


async def test_headers_that_cannot_be_carried_on_do_not_keep_a_refusal_back(
    broker: RabbitBroker, channel: AbstractChannel
) -> None:
    raised = await raise_and_take(broker, channel, aio_pika.Message(b"junk", headers={"x": "y" * 100_000}))
    await broker.refuse_raised(raised, "MALFORMED")
    assert (await next_of(channel, names.DEAD_UNSORTED_QUEUE)).headers == {"x-slicelease-reason": "MALFORMED"}


async def test_the_dead_letters_of_a_tenant_called_attention_are_his_own(broker: RabbitBroker, channel: AbstractChannel) -> None:
    for name in ("attention", "work", "unsorted"):
        await (await channel.declare_queue(f"dead.{name}.test", durable=True)).bind(names.DEAD_EXCHANGE, name)
    await broker.refuse_raised(await raise_and_take(broker, channel, aio_pika.Message(b"junk")), "MALFORMED")
    assert (await next_of(channel, names.DEAD_UNSORTED_QUEUE)).body == b"junk"
    for name in ("attention", "work", "unsorted"):
        assert (await channel.declare_queue(f"dead.{name}.test", passive=True)).declaration_result.message_count == 0


async def test_a_second_answer_costs_no_channel(broker: RabbitBroker, channel: AbstractChannel) -> None:
    raised = await raise_and_take(broker, channel, aio_pika.Message(b"1"))
    with capture_logs() as logged:
        await broker.ack_raised(raised)
        await broker.ack_raised(raised)
        await broker.return_raised(raised)
        (again,) = await raise_and_take(broker, channel, aio_pika.Message(b"2"))
        await broker.ack_raised([again])
    assert (again.body, logged) == (b"2", [])


async def test_the_exchange_and_everything_else_come_back(broker: RabbitBroker, channel: AbstractChannel) -> None:
    """A07: whatever of the topology was deleted."""
    await broker.declare_topology(["standard"])
    for exchange in (names.ATTENTION_EXCHANGE, names.DEAD_EXCHANGE, names.DEAD_UNSORTED_EXCHANGE):
        await (await channel.get_exchange(exchange, ensure=False)).delete()
    assert await broker.announce("standard", [b"1", b"2"]) == 0
    await broker.declare_topology(["standard"])
    assert await broker.announce("standard", [b"1", b"2"]) == 2
    assert len(await raise_and_take(broker, channel, aio_pika.Message(b"1"))) == 1


async def test_an_unbound_attention_queue_counts_as_missing_until_it_is_bound(
    broker: RabbitBroker, channel: AbstractChannel
) -> None:
    """A07: its binding deleted."""
    await broker.declare_topology(["standard"])
    queue = await channel.get_queue("attention.standard")
    await queue.unbind(names.ATTENTION_EXCHANGE, "standard")
    assert await broker.announce("standard", [b"1"]) == 0
    await broker.declare_topology(["standard"])
    assert await broker.announce("standard", [b"1"]) == 1


async def test_attention_queues_are_classic_by_their_own_argument(rabbitmq: RabbitMQ, vhost: str, broker: RabbitBroker) -> None:
    """A vhost may have quorum for its default, and a quorum queue of RabbitMQ 4 has a delivery limit."""
    await broker.declare_topology(["standard"])
    types = rabbitmq.eval_json(
        f'[[N, element(2, lists:keyfind(<<"x-queue-type">>, 1, [{{K, V}} || {{K, _, V}} <- A]))] ||'
        f' [{{name, {{resource, _, queue, N}}}}, {{arguments, A}}] <- rabbit_amqqueue:info_all(<<"{vhost}">>, [name, arguments])]'
    )
    assert {name: kind for name, kind in types if name.startswith("attention.")} == {
        "attention.standard": "classic",
        "attention.work": "classic",
    }
