"""One tenant from its creation to the end of its slice, over gRPC."""

from __future__ import annotations

import pytest

from slicelease.v1 import admin_service_pb2 as admin
from slicelease.v1 import lease_service_pb2 as lease
from slicelease.v1 import resources_pb2 as resources
from slicelease.v1 import work_service_pb2 as work
from tests.integration.control_plane_world import control_plane


@pytest.mark.asyncio
async def test_a_tenant_is_created_work_published_leased_and_settled() -> None:
    async with control_plane() as world:
        created = await world.admin.CreateTenant(admin.CreateTenantRequest(tenant_id="acme"))
        assert created.tenant.name == "tenants/acme"
        published = await world.work.PublishWork(work.PublishWorkRequest(queue="tenants/acme", payload=b"one"))
        assert published.queue == "tenants/acme/queues/default"
        assert world.broker.bodies(world.default("acme")) == [b"one"]

        acquire = lease.AcquireLeaseRequest(session="w1", slot=0, classes=["standard"], request_id="w1/0/1")
        granted = (await world.lease.AcquireLease(acquire)).granted
        assert granted.lease.queue == "tenants/acme/queues/default"
        assert granted.lease.amqp_queue == "work.acme"
        assert granted.limits.max_messages == 20
        assert granted.retry_policy.max_attempts == 5
        assert granted.ordering == resources.ORDERING_STRICT
        assert 0 < granted.valid_for.seconds <= 5

        held = {"lease": granted.lease.name, "fencing_token": granted.lease.fencing_token}
        progress = await world.lease.ReportProgress(lease.ReportProgressRequest(**held, request_id="w1/0/2"))
        assert progress.directive.action == lease.Directive.ACTION_CONTINUE
        assert progress.valid_for.seconds == 15
        settle = lease.SettleLeaseRequest(**held, end_reason=lease.END_REASON_EMPTY, request_id="w1/0/3")
        assert (await world.lease.SettleLease(settle)).disposition == lease.DISPOSITION_IDLE
