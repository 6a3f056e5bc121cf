"""ports.Broker: work queues and the publishing of work."""

import asyncio

import pytest

from slicelease.control_plane.domain.names import QueueKey, amqp_queue
from slicelease.control_plane.domain.policy import QueueType
from slicelease.control_plane.ports import (
    QueueArgumentsDifferError,
    QueueFullError,
    QueueGoneError,
    QueueNotEmptyError,
    WorkMessage,
)
from tests.contract.broker.world import Seen, World

pytestmark = pytest.mark.asyncio

ACME = QueueKey("acme", "default")
REPORTS = QueueKey("acme", "reports")
BOTH_TYPES = pytest.mark.parametrize("queue_type", [QueueType.CLASSIC, QueueType.QUORUM])


def work(message_id: str, payload: bytes = b"work") -> WorkMessage:
    return WorkMessage(payload, message_id, "corr")


@BOTH_TYPES
async def test_a_message_arrives_as_it_was_published(world: World, queue_type: QueueType) -> None:
    await world.broker.declare_work_queue(REPORTS, queue_type)
    message = WorkMessage(b"\x00\xff", "m-1", "c-1", "application/octet-stream", "invoice.created", {"n": "1"})
    await world.broker.publish_work(REPORTS, message)
    assert await world.drain("work.acme.reports") == [
        Seen(b"\x00\xff", "m-1", "c-1", "application/octet-stream", "invoice.created", {"n": "1"})
    ]


async def test_an_empty_message_arrives(world: World) -> None:
    await world.broker.declare_work_queue(ACME, QueueType.CLASSIC)
    await world.broker.publish_work(ACME, WorkMessage(b"", "m-1", ""))
    assert await world.drain("work.acme") == [Seen(b"", "m-1")]


async def test_concurrent_calls_for_one_queue_keep_their_order(world: World) -> None:
    await world.broker.declare_work_queue(ACME, QueueType.CLASSIC)
    await asyncio.gather(*(world.broker.publish_work(ACME, work(f"m-{n}")) for n in range(300)))
    assert [seen.message_id for seen in await world.drain("work.acme")] == [f"m-{n}" for n in range(300)]


async def test_queues_of_a_tenant_are_apart(world: World) -> None:
    for key in (ACME, REPORTS):
        await world.broker.declare_work_queue(key, QueueType.CLASSIC)
    await world.broker.publish_work(REPORTS, work("m-1"))
    assert await world.drain("work.acme") == []
    assert len(await world.drain("work.acme.reports")) == 1


async def test_a_publish_to_a_missing_queue_says_so_and_the_queue_can_be_made_again(world: World) -> None:
    await world.broker.declare_work_queue(ACME, QueueType.CLASSIC)
    await world.delete_queue("work.acme")
    with pytest.raises(QueueGoneError):
        await world.broker.publish_work(ACME, work("m-1"))
    await world.broker.declare_work_queue(ACME, QueueType.CLASSIC)
    await world.broker.publish_work(ACME, work("m-1"))
    assert len(await world.drain("work.acme")) == 1


async def test_fates_are_not_mixed_up_between_messages_of_one_id(world: World) -> None:
    """Message ids are the publishers' own: two tenants may well use the same one at the same time."""
    here, gone = QueueKey("here", "default"), QueueKey("gone", "default")
    await world.broker.declare_work_queue(here, QueueType.CLASSIC)
    keys = [here, gone, gone, here] * 25
    fates = await asyncio.gather(*(world.broker.publish_work(key, work("1")) for key in keys), return_exceptions=True)
    assert [isinstance(fate, QueueGoneError) for fate in fates] == [key is gone for key in keys]
    assert len(await world.drain("work.here")) == 50


async def test_a_full_queue_refuses_and_keeps_what_it_has(world: World) -> None:
    """A09: 10 published to a queue for 3."""
    await world.declare_queue("work.acme", {"x-max-length": 3, "x-overflow": "reject-publish"})
    fates = []
    for n in range(10):
        try:
            await world.broker.publish_work(ACME, work(f"m-{n}"))
            fates.append("ok")
        except QueueFullError:
            fates.append("full")
    assert fates == ["ok"] * 3 + ["full"] * 7
    assert [seen.message_id for seen in await world.drain("work.acme")] == ["m-0", "m-1", "m-2"]


@BOTH_TYPES
async def test_declaring_again_is_harmless(world: World, queue_type: QueueType) -> None:
    await world.broker.declare_work_queue(ACME, queue_type)
    await world.broker.publish_work(ACME, work("m-1"))
    await world.broker.declare_work_queue(ACME, queue_type)
    assert len(await world.drain("work.acme")) == 1


@pytest.mark.parametrize(
    ("arguments", "differing"),
    [({"x-dead-letter-exchange": "elsewhere", "x-dead-letter-routing-key": "acme"}, "x-dead-letter-exchange")],
)
async def test_a_queue_with_other_arguments_is_named_and_disturbs_nobody(
    world: World, arguments: dict[str, str | int], differing: str
) -> None:
    """A11."""
    await world.declare_queue("work.acme", arguments)
    for _ in range(2):  # a failed declare is not remembered as done
        with pytest.raises(QueueArgumentsDifferError) as told:
            await world.broker.declare_work_queue(ACME, QueueType.CLASSIC)
        assert (told.value.queue, told.value.argument) == ("work.acme", differing)
    await world.broker.declare_work_queue(REPORTS, QueueType.CLASSIC)
    await world.broker.publish_work(REPORTS, work("m-1"))


@BOTH_TYPES
async def test_counts(world: World, queue_type: QueueType) -> None:
    keys = [QueueKey(f"t{n}", "default") for n in range(5)]
    for key in keys[:3]:
        await world.broker.declare_work_queue(key, queue_type)
    for n in range(4):
        await world.broker.publish_work(keys[1], work(f"m-{n}"))
    assert await world.broker.message_counts(keys) == {keys[0]: 0, keys[1]: 4, keys[2]: 0, keys[3]: None, keys[4]: None}
    assert await world.broker.message_counts([]) == {}


async def test_counts_of_many_queues_with_gaps(world: World) -> None:
    keys = [QueueKey(f"t{n}", "default") for n in range(120)]
    there = [key for n, key in enumerate(keys) if n % 7 not in (0, 3, 4)]
    await asyncio.gather(*(world.broker.declare_work_queue(key, QueueType.CLASSIC) for key in there))
    counts = await world.broker.message_counts(keys)
    assert list(counts) == keys
    assert [key for key, count in counts.items() if count == 0] == there


@BOTH_TYPES
async def test_deleting(world: World, queue_type: QueueType) -> None:
    await world.broker.declare_work_queue(ACME, queue_type)
    await world.broker.publish_work(ACME, work("m-1"))
    with pytest.raises(QueueNotEmptyError) as told:
        await world.broker.delete_work_queue(ACME, if_empty=True)
    assert (told.value.queue, told.value.messages) == ("work.acme", 1)
    await world.broker.delete_work_queue(ACME, if_empty=False)
    assert await world.broker.message_counts([ACME]) == {ACME: None}
    await world.broker.declare_work_queue(ACME, queue_type)  # it does not believe that it is there still
    await world.broker.publish_work(ACME, work("m-2"))
    assert [seen.message_id for seen in await world.drain(amqp_queue(ACME))] == ["m-2"]
    await world.broker.delete_work_queue(ACME, if_empty=True)
    assert await world.broker.message_counts([ACME]) == {ACME: None}


@pytest.mark.parametrize("if_empty", [True, False])
async def test_deleting_what_is_not_there_is_no_error(world: World, if_empty: bool) -> None:
    await world.broker.delete_work_queue(ACME, if_empty=if_empty)
