"""WorkService over loopback: publishing once, in order, with its faults."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
import pytest_asyncio

from slicelease.control_plane.domain.commands import (
    Acquire,
    ClaimPublish,
    DeleteQueue,
    EndReason,
    GetQueue,
    ReleasePublish,
    Settle,
    SlotRequest,
    Totals,
    Touch,
)
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.outcomes import Granted, QueueState
from slicelease.control_plane.domain.policy import QueueType
from slicelease.v1 import admin_service_pb2 as admin
from slicelease.v1 import resources_pb2 as resources
from slicelease.v1 import work_service_pb2 as pb
from tests.integration.control_plane_world import World, control_plane, failing, failure_of
from tests.servers.waiting import wait_for_asyncio

ACME = QueueKey("acme", "default")


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    async with control_plane() as running:
        await running.admin.CreateTenant(admin.CreateTenantRequest(tenant_id="acme"))
        yield running


def publish(payload: bytes = b"x", queue: str = "tenants/acme", **fields: Any) -> pb.PublishWorkRequest:
    return pb.PublishWorkRequest(queue=queue, payload=payload, **fields)


def state(world: World, key: QueueKey = ACME) -> QueueState:
    return world.ledger.inner.state.queues[key].state


@pytest.mark.asyncio
async def test_the_message_arrives_with_all_that_was_given(world: World) -> None:
    request = publish(b"\x00\xff", content_type="a/b", type="t", correlation_id="c", message_id="m", headers={"h": "v"})
    answer = await world.work.PublishWork(request)
    assert (answer.message_id, answer.correlation_id, answer.queue) == ("m", "c", "tenants/acme/queues/default")
    (message,) = world.broker.work[ACME]
    assert (message.payload, message.message_id, message.correlation_id) == (b"\x00\xff", "m", "c")
    assert (message.content_type, message.type, dict(message.headers)) == ("a/b", "t", {"h": "v"})


@pytest.mark.asyncio
async def test_a_ticket_is_announced_for_it(world: World) -> None:
    await world.work.PublishWork(publish())
    await wait_for_asyncio(lambda: world.broker.tickets["standard"], 5, "the ticket")


@pytest.mark.asyncio
async def test_fifty_parallel_publishes_of_one_request_are_one_message(world: World) -> None:
    """J15."""
    world.broker.hold = asyncio.Event()
    calls = [world.work.PublishWork(publish(request_id="r-1")) for _ in range(50)]
    await wait_for_asyncio(lambda: world.broker.publishes == 1, 5, "the publish")
    other = await failing(world.work.PublishWork(publish(b"other", request_id="r-1")))
    world.broker.hold.set()
    answers = await asyncio.gather(*calls)
    assert len({answer.SerializeToString() for answer in answers}) == 1
    assert len(world.broker.work[ACME]) == 1
    assert (other.code, other.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "REQUEST_ID_REUSED")


@pytest.mark.asyncio
async def test_a_repeated_request_is_answered_and_not_published_again(world: World) -> None:
    """G01."""
    first = await world.work.PublishWork(publish(request_id="r-1"))
    assert await world.work.PublishWork(publish(request_id="r-1")) == first
    assert len(world.broker.work[ACME]) == 1
    reused = await failing(world.work.PublishWork(publish(b"other", request_id="r-1")))
    assert (reused.reason, reused.metadata) == ("REQUEST_ID_REUSED", {"request_id": "r-1"})


@pytest.mark.asyncio
async def test_what_was_surely_not_published_can_be_tried_again_at_once_under_its_ids(world: World) -> None:
    world.broker.full.add(ACME)
    full = await failing(world.work.PublishWork(publish(request_id="r-1")))
    assert (full.code, full.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "QUEUE_FULL")
    assert {"QuotaFailure", "RetryInfo"} <= full.kinds
    assert full.metadata == {"name": "tenants/acme/queues/default"}
    world.broker.full.clear()
    (claim,) = world.ledger.asked(ClaimPublish)
    await wait_for_asyncio(lambda: world.ledger.asked(ReleasePublish), 5, "the release")
    answer = await world.work.PublishWork(publish(request_id="r-1"), timeout=2)
    assert answer.message_id == claim.message_id


@pytest.mark.asyncio
async def test_a_publish_of_unknown_fate_is_taken_over_under_the_same_ids(world: World) -> None:
    world.broker.publishing_away = True
    away = await failing(world.work.PublishWork(publish(request_id="r-1")))
    assert (away.code, away.reason) == (grpc.StatusCode.UNAVAILABLE, "BROKER_UNAVAILABLE")
    world.broker.publishing_away = False
    soon = await failing(world.work.PublishWork(publish(request_id="r-1"), timeout=0.6))
    assert (soon.code, soon.reason) == (grpc.StatusCode.ABORTED, "REQUEST_IN_PROGRESS")
    assert "RetryInfo" in soon.kinds
    answer = await world.work.PublishWork(publish(request_id="r-1"), timeout=10)
    assert answer.message_id == world.ledger.asked(ClaimPublish)[0].message_id
    assert len(world.broker.work[ACME]) == 1


@pytest.mark.asyncio
async def test_a_confirmed_message_whose_touch_failed_is_unavailable(world: World) -> None:
    await world.work.PublishWork(publish())
    world.broker.hold = asyncio.Event()
    call = world.work.PublishWork(publish(b"second"))
    await wait_for_asyncio(lambda: world.broker.publishes == 2, 5, "the publish")
    world.ledger.away = True
    world.broker.hold.set()
    failure = await failing(call)
    world.ledger.away = False
    assert failure.reason == "LEDGER_UNAVAILABLE"
    assert world.broker.bodies(ACME) == [b"x", b"second"]


@pytest.mark.asyncio
async def test_a_publish_goes_on_though_its_caller_left(world: World) -> None:
    world.broker.hold = asyncio.Event()
    call = world.work.PublishWork(publish())
    await wait_for_asyncio(lambda: world.broker.publishes == 1, 5, "the publish")
    call.cancel()
    touches = len(world.ledger.asked(Touch))
    world.broker.hold.set()
    await wait_for_asyncio(lambda: len(world.ledger.asked(Touch)) > touches, 5, "the touch")
    assert state(world) is QueueState.READY


@pytest.mark.asyncio
async def test_a_queue_that_is_gone_at_the_broker_is_declared_again(world: World) -> None:
    await world.work.PublishWork(publish(b"1"))
    del world.broker.work[ACME]
    await world.work.PublishWork(publish(b"2"))
    assert world.broker.bodies(ACME) == [b"2"]


@pytest.mark.asyncio
async def test_a_queue_that_another_replica_deleted_is_not_found(world: World) -> None:
    await world.work.PublishWork(publish())
    other = QueueKey("acme", "mail")
    await world.admin.CreateQueue(admin.CreateQueueRequest(parent="tenants/acme", queue_id="mail"))
    await world.work.PublishWork(publish(queue="tenants/acme/queues/mail"))
    world.ledger.inner.step([DeleteQueue(other)])
    del world.broker.work[other]
    failure = await failing(world.work.PublishWork(publish(queue="tenants/acme/queues/mail")))
    assert failure.reason == "QUEUE_NOT_FOUND"
    assert other not in world.broker.work


@pytest.mark.asyncio
async def test_a_known_queue_costs_no_look_up(world: World) -> None:
    for _ in range(3):
        await world.work.PublishWork(publish())
    assert len([command for command in world.ledger.asked(GetQueue) if command.key == ACME]) == 1


@pytest.mark.asyncio
async def test_unknown_tenants_are_created_where_they_are_welcome() -> None:
    async with control_plane(unknown_tenants="create", default_class="bulk") as world:
        quorum = resources.PriorityClass(name="priorityClasses/bulk", queue_type=resources.QUEUE_TYPE_QUORUM)
        await world.admin.UpdatePriorityClass(admin.UpdatePriorityClassRequest(priority_class=quorum))
        await world.work.PublishWork(publish(queue="tenants/new/queues/mail"))
        assert world.broker.bodies(QueueKey("new", "mail")) == [b"x"]
        assert world.broker.types[QueueKey("new", "mail")] is QueueType.QUORUM
        tenant = (await world.admin.GetTenant(admin.GetTenantRequest(name="tenants/new"))).tenant
        assert tenant.priority_class == "priorityClasses/bulk"
        touched = await world.work.TouchQueue(pb.TouchQueueRequest(queue="tenants/newer"))
        assert (touched.queue, touched.coalesced) == ("tenants/newer/queues/default", False)


@pytest.mark.asyncio
async def test_a_touch_says_whether_it_changed_anything(world: World) -> None:
    (granted,) = world.ledger.inner.step([Acquire(SlotRequest("w", 0, 1, ""), ("standard",))])
    assert isinstance(granted, Granted)
    world.ledger.inner.step([Settle(SlotRequest("w", 0, 2, ""), granted.lease, EndReason.EMPTY, Totals())])
    assert state(world) is QueueState.IDLE
    request = pb.TouchQueueRequest(queue="tenants/acme")
    assert [(await world.work.TouchQueue(request)).coalesced for _ in range(2)] == [False, True]


# ---- batches ------------------------------------------------------------------------------------------------------------


async def batch(world: World, *requests: pb.PublishWorkRequest) -> list[Any]:
    return list((await world.work.PublishWorkBatch(pb.PublishWorkBatchRequest(requests=requests))).results)


@pytest.mark.asyncio
async def test_a_batch_keeps_the_order_of_each_queue_in_two_ledger_steps(world: World) -> None:
    await world.admin.CreateQueue(admin.CreateQueueRequest(parent="tenants/acme", queue_id="mail"))
    begin = len(world.ledger.steps)
    queues = ("tenants/acme", "tenants/acme/queues/mail")
    results = await batch(world, *(publish(b"%d" % n, queues[n % 2], request_id=f"r{n}") for n in range(1_000)))
    assert all(result.HasField("published") for result in results)
    assert world.broker.bodies(ACME) == [b"%d" % n for n in range(0, 1_000, 2)]
    assert world.broker.bodies(QueueKey("acme", "mail")) == [b"%d" % n for n in range(1, 1_000, 2)]
    steps = [step for step in world.ledger.steps[begin:] if isinstance(step[0], ClaimPublish | Touch)]
    assert len(steps) == 2


@pytest.mark.asyncio
async def test_touches_of_a_batch_without_request_ids_are_one_a_queue(world: World) -> None:
    await world.work.PublishWork(publish())
    begin = len(world.ledger.asked(Touch))
    await batch(world, *(publish(b"%d" % n) for n in range(100)))
    assert len(world.ledger.asked(Touch)) - begin == 1


@pytest.mark.asyncio
async def test_each_message_of_a_batch_fails_alone(world: World) -> None:
    await world.admin.CreateQueue(admin.CreateQueueRequest(parent="tenants/acme", queue_id="full"))
    await world.admin.CreateQueue(admin.CreateQueueRequest(parent="tenants/acme", queue_id="odd"))
    world.broker.full.add(QueueKey("acme", "full"))
    world.broker.differ[QueueKey("acme", "odd")] = "x-queue-type"
    results = await batch(
        world,
        publish(b"1"),
        publish(queue="acme"),
        publish(queue="tenants/nobody"),
        publish(queue="tenants/acme/queues/none"),
        publish(headers={"cc": "work.other"}),
        publish(queue="tenants/acme/queues/full"),
        publish(queue="tenants/acme/queues/odd"),
        publish(b"2", request_id="same"),
        publish(b"2", request_id="same"),
        publish(b"3", request_id="same"),
    )
    reasons = [failure_of(result.error).reason if result.HasField("error") else "" for result in results]
    assert reasons == [
        "",
        "INVALID_NAME",
        "TENANT_NOT_FOUND",
        "QUEUE_NOT_FOUND",
        "HEADER_REFUSED",
        "QUEUE_FULL",
        "QUEUE_ARGUMENTS_DIFFER",
        "",
        "",
        "REQUEST_ID_REUSED",
    ]
    assert results[7] == results[8]
    assert world.broker.bodies(ACME) == [b"1", b"2"]


@pytest.mark.asyncio
async def test_a_batch_has_one_to_a_thousand_messages(world: World) -> None:
    for number in (0, 1_001):
        request = pb.PublishWorkBatchRequest(requests=[publish() for _ in range(number)])
        failure = await failing(world.work.PublishWorkBatch(request))
        assert (failure.reason, failure.metadata) == ("INVALID_FIELD", {"field": "requests"})


@pytest.mark.asyncio
async def test_the_largest_messages_pass_one_by_one_and_in_a_batch(world: World) -> None:
    largest = b"x" * 1024 * 1024
    await world.work.PublishWork(publish(largest))
    assert all(result.HasField("published") for result in await batch(world, *(publish(largest) for _ in range(60))))
