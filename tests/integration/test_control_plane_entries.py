"""What holds at every entry: one rule for names (S01), one answer for a repeated request (G01), one table for faults.

The methods are found by reflection on the descriptors, so that a call added later is tried too.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple

import grpc
import pytest
import pytest_asyncio
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message_factory import GetMessageClass

from slicelease.v1 import admin_service_pb2 as admin
from slicelease.v1 import lease_service_pb2 as lease
from slicelease.v1 import resources_pb2 as res
from slicelease.v1 import work_service_pb2 as work
from tests.integration.control_plane_world import World, control_plane, failing, failure_of

FILES = (lease, work, admin)
FREE_TEXT = {
    "display_name", "etag", "page_token", "content_type", "type", "correlation_id", "message_id", "worker_version",
    "starting_message_id", "finished_message_ids", "returned_message_ids", "next_page_token",
}  # fmt: skip
"""String fields that hold no name; every other string field is taken for one."""
IDENTITY = {"request_id", "announcement_id"}
"""Names of requests and announcements, which have rules of their own."""
OUTPUT_ONLY = {"Queue.name", "Queue.amqp_queue", "Queue.lease", "Tenant.name", "PriorityClass.name"}
"""Ignored on input, except the names in updates, which are tried by hand below."""

WRONG_NAMES = [
    "acme\n", "acme\0", "\nacme", "amq.acme", "", "a" * 64, "a" * 255, "é" * 128, "../acme", "*", "#", "acme ", " acme",
    "acme/queues", "-acme", "_acme", "a.b", "acme%00", "tenants/", "a:b", "a\u202eb", "ａcme",
]  # fmt: skip

LEASE = "tenants/acme/queues/default/leases/17"
VALID: dict[str, Any] = {
    "AcquireLease": lease.AcquireLeaseRequest(session="w", classes=["standard"], request_id="w/0/1"),
    "ReportProgress": lease.ReportProgressRequest(lease=LEASE, fencing_token=17, request_id="w/0/1"),
    "SettleLease": lease.SettleLeaseRequest(
        lease=LEASE, fencing_token=17, request_id="w/0/1", end_reason=lease.END_REASON_EMPTY, want_next=True, classes=["bulk"]
    ),
    "ExchangeLeases": lease.ExchangeLeasesRequest(calls=[lease.LeaseCall()]),
    "WatchDirectives": lease.WatchDirectivesRequest(session="w", protocol_version=1, amqp_heartbeat=Duration(seconds=5)),
    "PublishWork": work.PublishWorkRequest(queue="tenants/acme"),
    "PublishWorkBatch": work.PublishWorkBatchRequest(requests=[work.PublishWorkRequest(queue="tenants/acme")]),
    "TouchQueue": work.TouchQueueRequest(queue="tenants/acme"),
    "CreateTenant": admin.CreateTenantRequest(tenant_id="new"),
    "GetTenant": admin.GetTenantRequest(name="tenants/acme"),
    "ListTenants": admin.ListTenantsRequest(),
    "UpdateTenant": admin.UpdateTenantRequest(tenant=res.Tenant(name="tenants/acme")),
    "DeleteTenant": admin.DeleteTenantRequest(name="tenants/acme"),
    "CreateQueue": admin.CreateQueueRequest(parent="tenants/acme", queue_id="mail"),
    "GetQueue": admin.GetQueueRequest(name="tenants/acme/queues/default"),
    "ListQueues": admin.ListQueuesRequest(parent="tenants/acme"),
    "UpdateQueue": admin.UpdateQueueRequest(queue=res.Queue(name="tenants/acme/queues/default")),
    "DeleteQueue": admin.DeleteQueueRequest(name="tenants/acme/queues/default"),
    "CreatePriorityClass": admin.CreatePriorityClassRequest(
        priority_class_id="gold", priority_class=res.PriorityClass(target_wait=Duration(seconds=1))
    ),
    "GetPriorityClass": admin.GetPriorityClassRequest(name="priorityClasses/bulk"),
    "ListPriorityClasses": admin.ListPriorityClassesRequest(),
    "UpdatePriorityClass": admin.UpdatePriorityClassRequest(
        priority_class=res.PriorityClass(name="priorityClasses/bulk")
    ),
    "DeletePriorityClass": admin.DeletePriorityClassRequest(name="priorityClasses/bulk"),
    "PauseQueue": admin.PauseQueueRequest(name="tenants/acme/queues/default"),
    "ResumeQueue": admin.ResumeQueueRequest(name="tenants/acme/queues/default"),
    "ListLeases": admin.ListLeasesRequest(parent="tenants/acme/queues/default"),
    "RevokeLease": admin.RevokeLeaseRequest(name=LEASE),
}  # fmt: skip
"""A request of each method that is valid in its form."""


class Entry(NamedTuple):
    method: str
    path: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.method}-{'.'.join(self.path)}"


def methods() -> dict[str, MethodDescriptor]:
    services = (service for file in FILES for service in file.DESCRIPTOR.services_by_name.values())
    return {method.name: method for service in services for method in service.methods}


def string_fields(message: Descriptor, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for field in message.fields:
        nested = field.message_type
        if field.type == FieldDescriptor.TYPE_STRING and f"{message.name}.{field.name}" not in OUTPUT_ONLY:
            yield (*path, field.name)
        elif nested is not None and not nested.full_name.startswith("google.") and not nested.GetOptions().map_entry:
            yield from string_fields(nested, (*path, field.name))


def entries() -> list[Entry]:
    found = [Entry(name, path) for name, method in methods().items() for path in string_fields(method.input_type)]
    names = [entry for entry in found if entry.path[-1] not in FREE_TEXT | IDENTITY]
    updates = [Entry(f"Update{kind}", (field, "name")) for kind, field in (
        ("Tenant", "tenant"), ("Queue", "queue"), ("PriorityClass", "priority_class"),
    )]  # fmt: skip
    return names + updates


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    async with control_plane() as running:
        await running.admin.CreateTenant(admin.CreateTenantRequest(tenant_id="acme"))
        yield running


def stub_method(world: World, name: str) -> Any:
    service = methods()[name].containing_service.name
    return getattr({"LeaseService": world.lease, "WorkService": world.work, "AdminService": world.admin}[service], name)


def with_value(entry: Entry, value: str) -> Any:
    """The valid request of the method with this field changed; the message of a repeated field is its first."""
    request = GetMessageClass(methods()[entry.method].input_type)()
    request.CopyFrom(VALID[entry.method])
    target: Any = request
    for step in entry.path[:-1]:
        target = getattr(target, step)
        if hasattr(target, "add"):
            target = target[0] if len(target) else target.add()
    if target.DESCRIPTOR.name.endswith("LeaseRequest") or target.DESCRIPTOR.name == "ReportProgressRequest":
        valid = VALID[{"AcquireLeaseRequest": "AcquireLease", "SettleLeaseRequest": "SettleLease"}.get(
            target.DESCRIPTOR.name, "ReportProgress")]  # fmt: skip
        target.CopyFrom(valid) if target.DESCRIPTOR is valid.DESCRIPTOR else None
    leaf = entry.path[-1]
    if target.DESCRIPTOR.fields_by_name[leaf].is_repeated:
        del getattr(target, leaf)[:]
        getattr(target, leaf).append(value)
    else:
        setattr(target, leaf, value)
    return request


async def outcome(world: World, entry: Entry, request: Any) -> Any:
    """The failure, also where a list answers for its item."""
    call = stub_method(world, entry.method)(request, timeout=5)
    if entry.method == "WatchDirectives":
        return await failing(call.read())
    if entry.method == "ExchangeLeases":
        return failure_of((await call).answers[0].error)
    if entry.method == "PublishWorkBatch":
        return failure_of((await call).results[0].error)
    return await failing(call)


def test_every_method_has_a_valid_request() -> None:
    assert set(methods()) == set(VALID)


@pytest.mark.asyncio
async def test_one_rule_for_names_holds_at_every_entry(world: World) -> None:
    """S01: never a hang, never another tenant's queue; INVALID_ARGUMENT everywhere, and nothing was asked of the broker."""
    tried = 0
    for entry in entries():
        leaf = entry.path[-1]
        for bad in WRONG_NAMES:
            if bad == "" and leaf == "priority_class":
                continue  # absent: inherited
            if leaf == "session" and re.fullmatch(r"[A-Za-z0-9_-]{1,64}", bad):
                continue  # sessions have a rule of their own, and name no resource
            forms = [bad]
            if leaf in ("name", "parent", "queue", "lease", "priority_class"):
                forms = [bad, f"tenants/{bad}", f"tenants/{bad}/queues/x", f"tenants/x/queues/{bad}", f"priorityClasses/{bad}"]
                forms += [f"tenants/{bad}/queues/x/leases/1", f"tenants/x/queues/x/leases/{bad}"]
            for value in forms:
                failure = await outcome(world, entry, with_value(entry, value))
                assert failure.code is grpc.StatusCode.INVALID_ARGUMENT, (str(entry), value, failure)
                assert failure.reason in ("INVALID_NAME", "INVALID_FIELD"), (str(entry), value, failure)
                tried += 1
    assert tried > 2_000
    assert set(world.broker.work) == {world.default("acme")}


@pytest.mark.asyncio
async def test_the_longest_and_oddest_valid_ids_work(world: World) -> None:
    for tenant in ("a" * 63, "A", "a", "0", "a-_", "CON"):
        await world.admin.CreateTenant(admin.CreateTenantRequest(tenant_id=tenant))
        await world.work.PublishWork(work.PublishWorkRequest(queue=f"tenants/{tenant}", payload=tenant.encode()))
    assert world.broker.bodies(world.default("A")) == [b"A"]
    assert world.broker.bodies(world.default("a")) == [b"a"]


# ---- repeated requests (G01) --------------------------------------------------------------------------------------------


def repeatable() -> list[str]:
    """Methods whose request has a request_id of the free form."""
    return [name for name, method in methods().items() if "request_id" in method.input_type.fields_by_name
            and method.containing_service.name == "AdminService"]  # fmt: skip


PREPARED = {
    "DeleteQueue": admin.DeleteQueueRequest(name="tenants/acme/queues/extra"),
    "DeletePriorityClass": admin.DeletePriorityClassRequest(name="priorityClasses/spare"),
    "DeleteTenant": admin.DeleteTenantRequest(name="tenants/other"),
}
CHANGED: dict[str, dict[str, Any]] = {
    name: ({"force": True} if "force" in method.input_type.fields_by_name else {}) for name, method in methods().items()
}
CHANGED |= {
    "CreateTenant": {"tenant": res.Tenant(weight=3)},
    "CreateQueue": {"queue": res.Queue(ordering=res.ORDERING_NONE)},
    "CreatePriorityClass": {"priority_class": res.PriorityClass(target_wait=Duration(seconds=2))},
    "UpdateTenant": {"tenant": res.Tenant(name="tenants/acme", weight=3)},
    "UpdateQueue": {"queue": res.Queue(name="tenants/acme/queues/default", ordering=res.ORDERING_NONE)},
    "UpdatePriorityClass": {"priority_class": res.PriorityClass(name="priorityClasses/bulk", max_leases=3)},
    "PauseQueue": {"name": "tenants/acme/queues/extra"},
    "ResumeQueue": {"name": "tenants/acme/queues/extra"},
    "DeletePriorityClass": {"etag": "other"},
}


@pytest.mark.asyncio
@pytest.mark.parametrize("method", repeatable())
async def test_a_repeated_request_has_one_effect_and_one_answer(world: World, method: str) -> None:
    await world.admin.CreateTenant(admin.CreateTenantRequest(tenant_id="other"))
    await world.admin.CreateQueue(admin.CreateQueueRequest(parent="tenants/acme", queue_id="extra"))
    spare = res.PriorityClass(target_wait=Duration(seconds=1))
    await world.admin.CreatePriorityClass(admin.CreatePriorityClassRequest(priority_class_id="spare", priority_class=spare))
    asked = lease.AcquireLeaseRequest(session="w", classes=["standard"], request_id="w/0/1")
    held = (await world.lease.AcquireLease(asked)).granted.lease.name

    request: Any = GetMessageClass(methods()[method].input_type)()
    request.CopyFrom(PREPARED.get(method, VALID[method]))
    request.request_id = "once"
    if method == "RevokeLease":
        request.name = held
    call = stub_method(world, method)
    first = await call(request)
    assert await call(request) == first

    other = type(request)()
    other.CopyFrom(request)
    for field, value in CHANGED[method].items():
        other.ClearField(field)
        other.MergeFrom(type(request)(**{field: value}))
    failure = await failing(call(other))
    assert (failure.code, failure.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "REQUEST_ID_REUSED")
    assert failure.metadata == {"request_id": "once"}


@pytest.mark.asyncio
async def test_lease_calls_are_repeatable_by_slot(world: World) -> None:
    asked = lease.AcquireLeaseRequest(session="w", classes=["standard"], request_id="w/0/5")
    first = (await world.lease.AcquireLease(asked)).granted
    again = (await world.lease.AcquireLease(asked)).granted
    assert again.lease.name == first.lease.name
    assert again.valid_for.ToMilliseconds() <= first.valid_for.ToMilliseconds()
    other = lease.AcquireLeaseRequest(session="w", classes=["bulk"], request_id="w/0/5")
    assert (await failing(world.lease.AcquireLease(other))).reason == "REQUEST_ID_REUSED"
    held: dict[str, Any] = {"lease": first.lease.name, "fencing_token": first.lease.fencing_token}
    settle = lease.SettleLeaseRequest(**held, end_reason=lease.END_REASON_TIME, request_id="w/0/6")
    assert await world.lease.SettleLease(settle) == await world.lease.SettleLease(settle)
    old = await failing(world.lease.AcquireLease(asked))
    assert (old.code, old.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "REQUEST_SUPERSEDED")
    progress = lease.ReportProgressRequest(**held, request_id="w/0/7")
    over = await failing(world.lease.ReportProgress(progress))
    assert (over.code, over.reason, over.metadata) == (
        grpc.StatusCode.FAILED_PRECONDITION, "LEASE_OVER", {"name": first.lease.name},
    )  # fmt: skip


# ---- faults of ours and of others ---------------------------------------------------------------------------------------


async def fault_at(world: World, method: str) -> Any:
    call = stub_method(world, method)(VALID[method], timeout=5)
    if method == "PublishWorkBatch":
        return failure_of((await call).results[0].error)
    return await failing(call)


WITHOUT_LEDGER = {"ExchangeLeases", "WatchDirectives"}


@pytest.mark.asyncio
@pytest.mark.parametrize("method", sorted(set(methods()) - WITHOUT_LEDGER))
async def test_every_call_says_that_the_ledger_is_away_and_hides_faults_of_ours(world: World, method: str) -> None:
    world.ledger.away = True
    away = await fault_at(world, method)
    assert (away.code, away.reason) == (grpc.StatusCode.UNAVAILABLE, "LEDGER_UNAVAILABLE")
    assert "RetryInfo" in away.kinds
    world.ledger.away, world.ledger.broken = False, True
    broken = await fault_at(world, method)
    assert (broken.code, broken.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL")
    assert len(broken.metadata["incident"]) == 32
    assert broken.metadata["incident"] in broken.message
    for failure in (away, broken):
        assert b"hunter2" not in failure.raw
        assert b"ZeroDivision" not in failure.raw


@pytest.mark.asyncio
async def test_an_exchange_fails_as_a_whole_when_the_ledger_is_away(world: World) -> None:
    world.ledger.away = True
    request = lease.ExchangeLeasesRequest(calls=[lease.LeaseCall(acquire=VALID["AcquireLease"])])
    assert (await failing(world.lease.ExchangeLeases(request))).reason == "LEDGER_UNAVAILABLE"
    for size in (0, 257):
        wrong = lease.ExchangeLeasesRequest(calls=[lease.LeaseCall(acquire=VALID["AcquireLease"])] * size)
        assert (await failing(world.lease.ExchangeLeases(wrong))).metadata == {"field": "calls"}


@pytest.mark.asyncio
async def test_a_request_beyond_the_limit_is_refused_by_the_server(world: World) -> None:
    """S07."""
    huge = lease.ReportProgressRequest(lease="x" * (65 * 1024 * 1024))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await world.lease.ReportProgress(huge)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    long = lease.ReportProgressRequest(lease="x" * (10 * 1024 * 1024), request_id="w/0/1")
    failure = await failing(world.lease.ReportProgress(long))
    assert failure.reason == "INVALID_NAME"
    assert len(failure.raw) < 2_000
