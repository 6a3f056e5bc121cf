"""AdminService: tenants.

May live here: these calls. May not know: AMQP, Redis.
"""

from __future__ import annotations

from typing import Any

from slicelease.control_plane.domain import names
from slicelease.control_plane.domain.commands import (
    Command,
    CreateTenant,
    DeleteQueue,
    DeleteTenant,
    GetClass,
    GetTenant,
    ListQueues,
    ListTenants,
    UpdateTenant,
)
from slicelease.control_plane.domain.names import DEFAULT_QUEUE, QueueKey
from slicelease.control_plane.domain.outcomes import ClassView, Deleted, Page, QueueView, Refused, TenantView
from slicelease.control_plane.domain.policy import QueueType
from slicelease.v1 import admin_service_pb2 as pb

from . import convert
from .admin_calls import AdminCalls, note_change
from .checks import MAX_PAGE, request_key
from .masks import merged
from .refusals import expect


class TenantCalls(AdminCalls):
    """Implements the calls about tenants."""

    async def CreateTenant(self, request: pb.CreateTenantRequest, context: Any) -> pb.CreateTenantResponse:
        """Creates a tenant; its default queue is at the broker before the tenant is known, so that no grant finds it missing."""
        tenant = names.check_id("tenant_id", request.tenant_id)
        policy = convert.tenant_policy(request.tenant, self._default_class)
        key = None if request.validate_only else request_key(request)
        dry_run = CreateTenant(tenant, policy, validate_only=True)
        if (answered := await self._answered(dry_run, TenantView, key)) is not None:
            return pb.CreateTenantResponse(tenant=convert.tenant(answered))
        shown = await self._dry_run(dry_run, TenantView, repeatable=key is not None)
        if request.validate_only and shown is not None:
            return pb.CreateTenantResponse(tenant=convert.tenant(shown))
        if shown is not None:
            await self._declare(QueueKey(tenant, DEFAULT_QUEUE), await self._type_of(policy.priority_class))
        view = await self._one(CreateTenant(tenant, policy, request=key), TenantView)
        note_change("tenant created", names.tenant_name(tenant), context)
        return pb.CreateTenantResponse(tenant=convert.tenant(view))

    async def _type_of(self, class_id: str) -> QueueType:
        view = await self._one(GetClass(class_id), ClassView)
        return view.policy.queue_type or QueueType.CLASSIC

    async def GetTenant(self, request: pb.GetTenantRequest, context: Any) -> pb.GetTenantResponse:
        """Reads one tenant."""
        view = await self._one(GetTenant(names.parse_tenant("name", request.name)), TenantView)
        return pb.GetTenantResponse(tenant=convert.tenant(view))

    async def ListTenants(self, request: pb.ListTenantsRequest, context: Any) -> pb.ListTenantsResponse:
        """Reads a page of them."""
        items, token = await self._page("tenants", request, None, ListTenants)
        return pb.ListTenantsResponse(tenants=map(convert.tenant, items), next_page_token=token)

    async def UpdateTenant(self, request: pb.UpdateTenantRequest, context: Any) -> pb.UpdateTenantResponse:
        """Changes what the mask says."""
        tenant = names.parse_tenant("tenant.name", request.tenant.name)

        async def attempt() -> tuple[Command, Any]:
            current = await self._one(GetTenant(tenant), TenantView)
            mask = request.update_mask.paths
            wanted = merged(convert.tenant(current), request.tenant, mask, convert.TENANT_WRITABLE, convert.TIMES)
            policy = convert.tenant_policy(wanted, self._default_class)
            etag = request.tenant.etag or current.etag
            return await self._execute(UpdateTenant(tenant, policy, etag, request.validate_only, request_key(request)))

        view = await self._updated(request.tenant.etag, attempt, TenantView)
        if not request.validate_only:
            note_change("tenant updated", names.tenant_name(tenant), context)
        return pb.UpdateTenantResponse(tenant=convert.tenant(view))

    async def DeleteTenant(self, request: pb.DeleteTenantRequest, context: Any) -> pb.DeleteTenantResponse:
        """Deletes a tenant: with force its other queues first, a page at a time, so that a call cut short can be repeated."""
        tenant = names.parse_tenant("name", request.name)
        key = None if request.validate_only else request_key(request)
        if await self._answered(DeleteTenant(tenant, request.etag), Deleted, key) is not None:
            return pb.DeleteTenantResponse()
        may = await self._may_delete(tenant, request, repeatable=key is not None)
        if request.validate_only:
            return pb.DeleteTenantResponse()
        if may:
            await self._empty(tenant, request.force)
        await self._one(DeleteTenant(tenant, request.etag, request=key), Deleted)
        note_change("tenant deleted", names.tenant_name(tenant), context)
        return pb.DeleteTenantResponse()

    async def _may_delete(self, tenant: str, request: pb.DeleteTenantRequest, *, repeatable: bool) -> bool:
        """Raises CallError where the deletion would be refused (with force, other queues are no hindrance)."""
        if not request.force:
            return await self._dry_run(DeleteTenant(tenant, request.etag, validate_only=True), Deleted, repeatable) is not None
        view = await self._dry_run(GetTenant(tenant), TenantView, repeatable)
        if view is None:
            return False
        # An unchanged update, dry: it checks the etag and nothing that force overrides.
        dry_run = UpdateTenant(tenant, view.policy, request.etag, validate_only=True)
        return await self._dry_run(dry_run, TenantView, repeatable) is not None

    async def _empty(self, tenant: str, force: bool) -> None:
        """Deletes the tenant's queues at the broker: the default one, with force the others too."""
        if force:
            await self._delete_queues(tenant)
        await self._delete_at_broker(QueueKey(tenant, DEFAULT_QUEUE), force)

    async def _delete_queues(self, tenant: str) -> None:
        """All queues of the tenant but its default one."""
        after = ""
        while True:
            page = await self._one(ListQueues(tenant, after, MAX_PAGE), Page)
            for view in page.items:
                if isinstance(view, QueueView) and view.key.queue != DEFAULT_QUEUE:
                    await self._delete_queue(view.key)
            if not (after := page.next_after):
                return

    async def _delete_queue(self, key: QueueKey) -> None:
        await self._delete_at_broker(key, force=True)
        command = DeleteQueue(key)
        (outcome,) = await self._ledger.execute([command])
        if not isinstance(outcome, Refused):  # refused: another call has deleted it
            expect(outcome, Deleted, command)
