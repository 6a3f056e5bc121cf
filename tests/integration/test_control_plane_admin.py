"""AdminService over loopback: resources, masks, etags, pages, dry runs, deletion, and what the broker has to say."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
import pytest_asyncio
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask

from slicelease.control_plane.domain.commands import UpdateTenant
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.policy import QueueType, TenantPolicy
from slicelease.v1 import admin_service_pb2 as pb
from slicelease.v1 import lease_service_pb2 as lease
from slicelease.v1 import resources_pb2 as res
from slicelease.v1 import work_service_pb2 as work
from tests.integration.control_plane_world import World, control_plane, failing

MAIL = QueueKey("acme", "mail")


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    async with control_plane() as running:
        yield running


async def create_tenant(world: World, tenant_id: str = "acme", **fields: Any) -> res.Tenant:
    tenant: res.Tenant = (await world.admin.CreateTenant(pb.CreateTenantRequest(tenant_id=tenant_id, **fields))).tenant
    return tenant


async def create_queue(world: World, queue_id: str = "mail", **fields: Any) -> res.Queue:
    request = pb.CreateQueueRequest(parent="tenants/acme", queue_id=queue_id, **fields)
    queue: res.Queue = (await world.admin.CreateQueue(request)).queue
    return queue


def gold(**fields: Any) -> pb.CreatePriorityClassRequest:
    given = res.PriorityClass(**({"target_wait": Duration(seconds=1)} | fields))
    return pb.CreatePriorityClassRequest(priority_class_id="gold", priority_class=given)


# ---- tenants ------------------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_tenant_lives_and_dies(world: World) -> None:
    created = await create_tenant(world, tenant=res.Tenant(name="ignored", display_name="Acme", weight=250))
    assert (created.name, created.display_name, created.weight) == ("tenants/acme", "Acme", 250)
    assert created.priority_class == "priorityClasses/standard"
    assert created.HasField("create_time")
    assert world.broker.types[world.default("acme")] is QueueType.CLASSIC
    got = (await world.admin.GetTenant(pb.GetTenantRequest(name="tenants/acme"))).tenant
    assert got == created
    changed = res.Tenant(name="tenants/acme", weight=7)
    updated = (await world.admin.UpdateTenant(pb.UpdateTenantRequest(tenant=changed))).tenant
    assert (updated.weight, updated.display_name) == (7, "Acme")
    assert updated.etag != created.etag
    await world.admin.DeleteTenant(pb.DeleteTenantRequest(name="tenants/acme", etag=updated.etag))
    assert (await failing(world.admin.GetTenant(pb.GetTenantRequest(name="tenants/acme")))).reason == "TENANT_NOT_FOUND"
    assert world.default("acme") not in world.broker.work


@pytest.mark.asyncio
async def test_the_default_queue_has_the_type_of_its_class(world: World) -> None:
    await world.admin.CreatePriorityClass(gold(queue_type=res.QUEUE_TYPE_QUORUM))
    await create_tenant(world, tenant=res.Tenant(priority_class="priorityClasses/gold"))
    assert world.broker.types[world.default("acme")] is QueueType.QUORUM
    queue = (await world.admin.GetQueue(pb.GetQueueRequest(name="tenants/acme/queues/default"))).queue
    assert queue.queue_type == res.QUEUE_TYPE_QUORUM


@pytest.mark.asyncio
async def test_a_dry_run_checks_all_and_changes_nothing(world: World) -> None:
    shown = await create_tenant(world, validate_only=True, tenant=res.Tenant(weight=9))
    assert (shown.name, shown.weight) == ("tenants/acme", 9)
    assert world.broker.work == {}
    unknown = res.Tenant(priority_class="priorityClasses/none")
    request = pb.CreateTenantRequest(tenant_id="acme", tenant=unknown, validate_only=True)
    missing = await failing(world.admin.CreateTenant(request))
    assert (missing.code, missing.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "PRIORITY_CLASS_NOT_FOUND")
    created = await create_tenant(world)
    for call in (
        world.admin.UpdateTenant(pb.UpdateTenantRequest(tenant=res.Tenant(name=created.name, weight=9), validate_only=True)),
        world.admin.DeleteTenant(pb.DeleteTenantRequest(name=created.name, validate_only=True)),
        world.admin.DeleteTenant(pb.DeleteTenantRequest(name=created.name, validate_only=True, force=True)),
    ):
        await call
    assert (await world.admin.GetTenant(pb.GetTenantRequest(name=created.name))).tenant == created
    assert world.default("acme") in world.broker.work


@pytest.mark.asyncio
async def test_with_the_broker_away_nothing_is_created_and_a_retry_succeeds(world: World) -> None:
    world.broker.away = True
    away = await failing(world.admin.CreateTenant(pb.CreateTenantRequest(tenant_id="acme")))
    assert (away.code, away.reason) == (grpc.StatusCode.UNAVAILABLE, "BROKER_UNAVAILABLE")
    assert (await failing(world.admin.GetTenant(pb.GetTenantRequest(name="tenants/acme")))).reason == "TENANT_NOT_FOUND"
    world.broker.away = False
    assert (await create_tenant(world)).name == "tenants/acme"


@pytest.mark.asyncio
async def test_a_queue_of_that_name_with_other_arguments_is_named_and_no_record_is_left(world: World) -> None:
    """A11."""
    await create_tenant(world)
    world.broker.differ = {MAIL: "x-max-length", world.default("b"): "x-queue-type"}
    failure = await failing(world.admin.CreateQueue(pb.CreateQueueRequest(parent="tenants/acme", queue_id="mail")))
    assert (failure.code, failure.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "QUEUE_ARGUMENTS_DIFFER")
    assert failure.metadata == {"name": "tenants/acme/queues/mail", "argument": "x-max-length"}
    assert (await failing(world.admin.GetQueue(pb.GetQueueRequest(name="tenants/acme/queues/mail")))).reason == "QUEUE_NOT_FOUND"
    tenant = await failing(world.admin.CreateTenant(pb.CreateTenantRequest(tenant_id="b")))
    assert tenant.metadata == {"name": "tenants/b/queues/default", "argument": "x-queue-type"}
    assert (await failing(world.admin.GetTenant(pb.GetTenantRequest(name="tenants/b")))).reason == "TENANT_NOT_FOUND"


@pytest.mark.asyncio
async def test_an_update_between_reading_and_writing_is_not_lost(world: World) -> None:
    created = await create_tenant(world)
    execute = world.ledger.inner.execute
    done: list[bool] = []

    async def interfering(commands: Any) -> Any:
        if not done and any(isinstance(each, UpdateTenant) for each in commands):
            done.append(True)
            world.ledger.inner.step([UpdateTenant("acme", TenantPolicy("standard", 100, "theirs"))])
        return await execute(commands)

    world.ledger.inner.execute = interfering  # type: ignore[method-assign]  # another replica, at the worst moment
    ours = res.Tenant(name="tenants/acme", weight=7)
    updated = (await world.admin.UpdateTenant(pb.UpdateTenantRequest(tenant=ours))).tenant
    assert (updated.weight, updated.display_name) == (7, "theirs")
    stale = res.Tenant(name="tenants/acme", weight=8, etag=created.etag)
    failure = await failing(world.admin.UpdateTenant(pb.UpdateTenantRequest(tenant=stale)))
    assert (failure.code, failure.reason) == (grpc.StatusCode.ABORTED, "ETAG_MISMATCH")


@pytest.mark.asyncio
async def test_force_deletes_the_queues_with_all_they_hold(world: World) -> None:
    await create_tenant(world)
    await create_queue(world)
    for queue in ("tenants/acme", "tenants/acme/queues/mail"):
        await world.work.PublishWork(work.PublishWorkRequest(queue=queue, payload=b"x"))
    request = pb.DeleteTenantRequest(name="tenants/acme")
    in_use = await failing(world.admin.DeleteTenant(request))
    assert (in_use.code, in_use.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "RESOURCE_IN_USE")
    wrong = pb.DeleteTenantRequest(name="tenants/acme", force=True, etag="nonsense")
    assert (await failing(world.admin.DeleteTenant(wrong))).reason == "ETAG_MISMATCH"
    assert len(world.broker.work) == 2
    await world.admin.DeleteTenant(pb.DeleteTenantRequest(name="tenants/acme", force=True))
    assert world.broker.work == {}
    assert not list((await world.admin.ListQueues(pb.ListQueuesRequest(parent="tenants/-"))).queues)


@pytest.mark.asyncio
async def test_a_tenant_whose_queue_holds_messages_is_kept(world: World) -> None:
    await create_tenant(world)
    await world.work.PublishWork(work.PublishWorkRequest(queue="tenants/acme", payload=b"x"))
    failure = await failing(world.admin.DeleteTenant(pb.DeleteTenantRequest(name="tenants/acme")))
    assert (failure.reason, failure.metadata["messages"]) == ("QUEUE_NOT_EMPTY", "1")
    assert world.broker.bodies(world.default("acme")) == [b"x"]


@pytest.mark.asyncio
async def test_what_a_slice_has_in_hand_goes_with_force_only(world: World) -> None:
    """The broker counts no message that is unacked, so it would call the queue empty."""
    await create_tenant(world)
    request = lease.AcquireLeaseRequest(session="w", slot=0, classes=["standard"], request_id="w/0/1")
    held = (await world.lease.AcquireLease(request)).granted.lease
    failure = await failing(world.admin.DeleteTenant(pb.DeleteTenantRequest(name="tenants/acme")))
    assert (failure.reason, failure.metadata) == ("QUEUE_NOT_EMPTY", {"name": held.queue})
    assert world.default("acme") in world.broker.work
    await world.admin.DeleteTenant(pb.DeleteTenantRequest(name="tenants/acme", force=True))
    assert world.broker.work == {}


@pytest.mark.asyncio
async def test_a_repeated_deletion_of_a_tenant_leaves_what_was_made_since(world: World) -> None:
    delete = pb.DeleteTenantRequest(name="tenants/acme", force=True, request_id="d1")
    await create_tenant(world)
    await world.admin.DeleteTenant(delete)
    await create_tenant(world)
    await world.work.PublishWork(work.PublishWorkRequest(queue="tenants/acme", payload=b"new"))
    await world.admin.DeleteTenant(delete)
    assert world.broker.bodies(world.default("acme")) == [b"new"]


@pytest.mark.asyncio
async def test_a_repeated_deletion_of_a_queue_leaves_what_was_made_since(world: World) -> None:
    await create_tenant(world)
    created = await create_queue(world)
    delete = pb.DeleteQueueRequest(name=created.name, force=True, request_id="d1")
    await world.admin.DeleteQueue(delete)
    await create_queue(world)
    await world.work.PublishWork(work.PublishWorkRequest(queue=created.name, payload=b"new"))
    await world.admin.DeleteQueue(delete)
    assert world.broker.bodies(MAIL) == [b"new"]


@pytest.mark.asyncio
async def test_a_repeated_creation_makes_nothing_at_the_broker_again(world: World) -> None:
    await create_tenant(world)
    created = await create_queue(world, request_id="c1")
    await world.admin.DeleteQueue(pb.DeleteQueueRequest(name=created.name))
    assert await create_queue(world, request_id="c1") == created
    assert MAIL not in world.broker.work


# ---- queues -------------------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_queue_lives_and_dies(world: World) -> None:
    await create_tenant(world)
    created = await create_queue(world, queue=res.Queue(ordering=res.ORDERING_NONE, slice_limits=res.SliceLimits(max_messages=3)))
    assert (created.name, created.amqp_queue) == ("tenants/acme/queues/mail", "work.acme.mail")
    assert created.state == res.QUEUE_STATE_READY
    assert world.broker.work[MAIL] == []
    await world.work.PublishWork(work.PublishWorkRequest(queue=created.name, payload=b"x"))
    got = (await world.admin.GetQueue(pb.GetQueueRequest(name=created.name))).queue
    assert (got.backlog_messages, got.slice_limits.max_messages) == (1, 3)
    world.broker.away = True
    assert not (await world.admin.GetQueue(pb.GetQueueRequest(name=created.name))).queue.HasField("backlog_messages")
    world.broker.away = False
    full = await failing(world.admin.DeleteQueue(pb.DeleteQueueRequest(name=created.name)))
    assert (full.reason, full.metadata) == ("QUEUE_NOT_EMPTY", {"name": created.name, "messages": "1"})
    await world.admin.DeleteQueue(pb.DeleteQueueRequest(name=created.name, force=True))
    assert MAIL not in world.broker.work
    assert (await failing(world.admin.DeleteQueue(pb.DeleteQueueRequest(name=created.name)))).reason == "QUEUE_NOT_FOUND"


@pytest.mark.asyncio
async def test_an_update_by_nested_path_leaves_the_rest(world: World) -> None:
    await create_tenant(world)
    limits = res.SliceLimits(max_messages=3, max_duration=Duration(seconds=4))
    await create_queue(world, queue=res.Queue(slice_limits=limits))
    wanted = res.Queue(name="tenants/acme/queues/mail", slice_limits=res.SliceLimits(max_messages=9))
    mask = FieldMask(paths=["slice_limits.max_messages", "retry_policy.max_attempts"])
    updated = (await world.admin.UpdateQueue(pb.UpdateQueueRequest(queue=wanted, update_mask=mask))).queue
    assert (updated.slice_limits.max_messages, updated.slice_limits.max_duration.seconds) == (9, 4)
    wrong = pb.UpdateQueueRequest(queue=wanted, update_mask=FieldMask(paths=["slice_limits.nonsense"]))
    assert (await failing(world.admin.UpdateQueue(wrong))).metadata == {"field": "update_mask"}


@pytest.mark.asyncio
async def test_the_type_of_a_queue_stays(world: World) -> None:
    await create_tenant(world)
    await create_queue(world)
    wanted = res.Queue(name="tenants/acme/queues/mail", queue_type=res.QUEUE_TYPE_QUORUM)
    failure = await failing(world.admin.UpdateQueue(pb.UpdateQueueRequest(queue=wanted)))
    assert failure.metadata == {"field": "queue.queue_type"}
    same = res.Queue(name=wanted.name, queue_type=res.QUEUE_TYPE_CLASSIC, ordering=res.ORDERING_NONE)
    updated = (await world.admin.UpdateQueue(pb.UpdateQueueRequest(queue=same))).queue
    assert (updated.queue_type, updated.ordering) == (res.QUEUE_TYPE_CLASSIC, res.ORDERING_NONE)


@pytest.mark.asyncio
async def test_the_etag_is_looked_at_before_the_broker_is_touched(world: World) -> None:
    await create_tenant(world)
    await create_queue(world)
    request = pb.DeleteQueueRequest(name="tenants/acme/queues/mail", etag="nonsense", force=True)
    assert (await failing(world.admin.DeleteQueue(request))).reason == "ETAG_MISMATCH"
    assert MAIL in world.broker.work


@pytest.mark.asyncio
async def test_the_default_queue_goes_with_its_tenant_only(world: World) -> None:
    await create_tenant(world)
    request = pb.DeleteQueueRequest(name="tenants/acme/queues/default", force=True)
    assert (await failing(world.admin.DeleteQueue(request))).reason == "RESOURCE_IN_USE"
    assert world.default("acme") in world.broker.work


@pytest.mark.asyncio
async def test_a_paused_queue_is_not_granted_and_competes_again_when_resumed(world: World) -> None:
    """J06, over the wire."""
    await create_tenant(world)
    name = "tenants/acme/queues/default"
    paused = (await world.admin.PauseQueue(pb.PauseQueueRequest(name=name))).queue
    assert paused.paused

    async def ask(n: int) -> str:
        request = lease.AcquireLeaseRequest(session="w", slot=0, classes=["standard"], request_id=f"w/0/{n}")
        outcome: str = (await world.lease.AcquireLease(request)).WhichOneof("outcome")
        return outcome

    assert await ask(1) == "denied"
    resumed = (await world.admin.ResumeQueue(pb.ResumeQueueRequest(name=name))).queue
    assert not resumed.paused
    assert await ask(2) == "granted"


# ---- classes and leases -------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_class_lives_and_dies_with_its_attention_queue_there_first(world: World) -> None:
    world.broker.away = True
    assert (await failing(world.admin.CreatePriorityClass(gold()))).reason == "BROKER_UNAVAILABLE"
    world.broker.away = False
    created = (await world.admin.CreatePriorityClass(gold(max_leases=3))).priority_class
    assert (created.name, created.max_leases) == ("priorityClasses/gold", 3)
    assert "gold" in world.broker.tickets
    wanted = res.PriorityClass(name=created.name, target_wait=Duration(seconds=2))
    updated = (await world.admin.UpdatePriorityClass(pb.UpdatePriorityClassRequest(priority_class=wanted))).priority_class
    assert (updated.target_wait.seconds, updated.max_leases) == (2, 3)
    await create_tenant(world, tenant=res.Tenant(priority_class="priorityClasses/gold"))
    request = pb.DeletePriorityClassRequest(name=created.name)
    assert (await failing(world.admin.DeletePriorityClass(request))).reason == "RESOURCE_IN_USE"
    await world.admin.DeleteTenant(pb.DeleteTenantRequest(name="tenants/acme"))
    await world.admin.DeletePriorityClass(request)
    missing = await failing(world.admin.GetPriorityClass(pb.GetPriorityClassRequest(name=created.name)))
    assert (missing.code, missing.reason) == (grpc.StatusCode.NOT_FOUND, "PRIORITY_CLASS_NOT_FOUND")


@pytest.mark.asyncio
async def test_the_built_in_classes_are_there(world: World) -> None:
    listed = (await world.admin.ListPriorityClasses(pb.ListPriorityClassesRequest())).priority_classes
    assert {each.name: each.target_wait.seconds for each in listed} == {
        "priorityClasses/bulk": 300,
        "priorityClasses/interactive": 1,
        "priorityClasses/standard": 10,
    }
    assert set(world.broker.tickets) >= {"bulk", "interactive", "standard"}


@pytest.mark.asyncio
async def test_pages_follow_each_other_to_the_end(world: World) -> None:
    for n in range(7):
        await create_tenant(world, f"t{n}")
    seen, token = [], ""
    while True:
        page = await world.admin.ListTenants(pb.ListTenantsRequest(page_size=3, page_token=token))
        seen += [tenant.name for tenant in page.tenants]
        if not (token := page.next_page_token):
            break
    assert seen == [f"tenants/t{n}" for n in range(7)]
    first = await world.admin.ListTenants(pb.ListTenantsRequest(page_size=3))
    other = pb.ListQueuesRequest(parent="tenants/-", page_token=first.next_page_token)
    assert (await failing(world.admin.ListQueues(other))).metadata == {"field": "page_token"}


@pytest.mark.asyncio
async def test_queues_and_leases_are_listed_under_their_parents(world: World) -> None:
    for tenant in ("acme", "b"):
        await create_tenant(world, tenant)
    await create_queue(world)
    for n in range(3):
        request = lease.AcquireLeaseRequest(session="w", slot=n, classes=["standard"], request_id=f"w/{n}/1")
        assert (await world.lease.AcquireLease(request)).HasField("granted")

    async def queues(parent: str) -> int:
        return len((await world.admin.ListQueues(pb.ListQueuesRequest(parent=parent))).queues)

    async def leases(parent: str) -> int:
        return len((await world.admin.ListLeases(pb.ListLeasesRequest(parent=parent))).leases)

    assert [await queues(parent) for parent in ("tenants/-", "tenants/acme", "tenants/b")] == [3, 2, 1]
    parents = ("tenants/-/queues/-", "tenants/acme/queues/-", "tenants/acme/queues/mail")
    assert [await leases(parent) for parent in parents] == [3, 2, 1]
    assert (await failing(world.admin.ListQueues(pb.ListQueuesRequest(parent="tenants/no")))).reason == "TENANT_NOT_FOUND"
    for parent, reason in (
        ("tenants/no/queues/-", "TENANT_NOT_FOUND"),
        ("tenants/b/queues/no", "QUEUE_NOT_FOUND"),
        ("tenants/-/queues/mail", "INVALID_NAME"),
        ("tenants/acme", "INVALID_NAME"),
    ):
        assert (await failing(world.admin.ListLeases(pb.ListLeasesRequest(parent=parent)))).reason == reason


@pytest.mark.asyncio
async def test_a_forced_revocation_ends_the_lease(world: World) -> None:
    await create_tenant(world)
    request = lease.AcquireLeaseRequest(session="w", slot=0, classes=["standard"], request_id="w/0/1")
    held = (await world.lease.AcquireLease(request)).granted.lease
    revoked = (await world.admin.RevokeLease(pb.RevokeLeaseRequest(name=held.name, force=True))).lease
    assert (revoked.name, revoked.revoked, revoked.session) == (held.name, True, "w")
    assert (await failing(world.admin.RevokeLease(pb.RevokeLeaseRequest(name=held.name)))).reason == "LEASE_NOT_FOUND"
