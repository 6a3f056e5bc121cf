"""AdminService: queues, their pause, and the leases on them.

May live here: these calls. May not know: AMQP, Redis.
"""

from __future__ import annotations

from typing import Any

from slicelease.control_plane.domain import names
from slicelease.control_plane.domain.commands import (
    Command,
    CreateQueue,
    DeleteQueue,
    EndReason,
    GetLease,
    GetQueue,
    GetTenant,
    ListLeases,
    ListQueues,
    Pause,
    Resume,
    Revoke,
    UpdateQueue,
)
from slicelease.control_plane.domain.names import LeaseKey, QueueKey
from slicelease.control_plane.domain.outcomes import Deleted, LeaseView, QueueView
from slicelease.control_plane.domain.policy import QueueType
from slicelease.control_plane.ports import BrokerUnavailableError, LedgerUnavailableError, StopHint
from slicelease.v1 import admin_service_pb2 as pb

from . import convert
from .admin_calls import AdminCalls, note_change
from .checks import request_key
from .masks import merged
from .status import invalid_field

ANY = "-"
"""In a parent: all of that collection (AIP-159)."""


class QueueCalls(AdminCalls):
    """Implements the calls about queues."""

    async def CreateQueue(self, request: pb.CreateQueueRequest, context: Any) -> pb.CreateQueueResponse:
        """Creates a queue; it is at the broker before it is known, so that no grant finds it missing."""
        tenant = names.parse_tenant("parent", request.parent)
        key = QueueKey(tenant, names.check_id("queue_id", request.queue_id))
        policy = convert.queue_policy(request.queue)
        request_id = None if request.validate_only else request_key(request)
        dry_run = CreateQueue(key, policy, validate_only=True)
        if (answered := await self._answered(dry_run, QueueView, request_id)) is not None:
            return pb.CreateQueueResponse(queue=convert.queue(answered))
        shown = await self._dry_run(dry_run, QueueView, repeatable=request_id is not None)
        if request.validate_only and shown is not None:
            return pb.CreateQueueResponse(queue=convert.queue(shown))
        if shown is not None:
            await self._declare(key, shown.policy.queue_type or QueueType.CLASSIC)
        view = await self._one(CreateQueue(key, policy, request=request_id), QueueView)
        note_change("queue created", names.queue_name(key), context)
        return pb.CreateQueueResponse(queue=convert.queue(view))

    async def GetQueue(self, request: pb.GetQueueRequest, context: Any) -> pb.GetQueueResponse:
        """Reads one queue, with its backlog where the broker tells it."""
        key = names.parse_queue("name", request.name)
        view = await self._one(GetQueue(key), QueueView)
        return pb.GetQueueResponse(queue=convert.queue(view, await self._backlog(key)))

    async def _backlog(self, key: QueueKey) -> int | None:
        try:
            return (await self._broker.message_counts([key])).get(key)
        except BrokerUnavailableError:
            return None

    async def ListQueues(self, request: pb.ListQueuesRequest, context: Any) -> pb.ListQueuesResponse:
        """Reads a page of a tenant's queues, or of all."""
        tenant = "" if request.parent == f"tenants/{ANY}" else names.parse_tenant("parent", request.parent)
        parent = GetTenant(tenant) if tenant else None
        of = f"queues:{tenant}"
        items, token = await self._page(of, request, parent, lambda after, limit: ListQueues(tenant, after, limit))
        return pb.ListQueuesResponse(queues=map(convert.queue, items), next_page_token=token)

    async def UpdateQueue(self, request: pb.UpdateQueueRequest, context: Any) -> pb.UpdateQueueResponse:
        """Changes what the mask says; the type stays what it was when the queue was created."""
        key = names.parse_queue("queue.name", request.queue.name)

        async def attempt() -> tuple[Command, Any]:
            current = await self._one(GetQueue(key), QueueView)
            mask = request.update_mask.paths
            wanted = merged(convert.queue(current), request.queue, mask, convert.QUEUE_WRITABLE, convert.QUEUE_OUTPUT)
            policy = convert.queue_policy(wanted)
            if policy.queue_type not in (QueueType.INHERIT, current.policy.queue_type):
                raise invalid_field("queue.queue_type", "cannot be changed once the queue exists")
            etag = request.queue.etag or current.etag
            return await self._execute(UpdateQueue(key, policy, etag, request.validate_only, request_key(request)))

        view = await self._updated(request.queue.etag, attempt, QueueView)
        if not request.validate_only:
            note_change("queue updated", names.queue_name(key), context)
        return pb.UpdateQueueResponse(queue=convert.queue(view))

    async def DeleteQueue(self, request: pb.DeleteQueueRequest, context: Any) -> pb.DeleteQueueResponse:
        """Deletes a queue: at the broker, which alone knows whether it is empty, then in the ledger."""
        key = names.parse_queue("name", request.name)
        request_id = None if request.validate_only else request_key(request)
        dry_run = DeleteQueue(key, request.etag, validate_only=True)
        if await self._answered(dry_run, Deleted, request_id) is not None:
            return pb.DeleteQueueResponse()
        may = await self._dry_run(dry_run, Deleted, repeatable=request_id is not None)
        if request.validate_only:
            return pb.DeleteQueueResponse()
        if may is not None:
            await self._delete_at_broker(key, request.force)
        await self._one(DeleteQueue(key, request.etag, request=request_id), Deleted)
        note_change("queue deleted", names.queue_name(key), context)
        return pb.DeleteQueueResponse()

    # ---- pause ------------------------------------------------------------------------------------------------------

    async def PauseQueue(self, request: pb.PauseQueueRequest, context: Any) -> pb.PauseQueueResponse:
        """Pauses a queue and tells the holder of its lease."""
        key = names.parse_queue("name", request.name)
        view = await self._one(Pause(key, request_key(request)), QueueView)
        note_change("queue paused", names.queue_name(key), context)
        if view.token:
            await self._tell_holder(LeaseKey(*key, view.token), EndReason.PAUSED)
        return pb.PauseQueueResponse(queue=convert.queue(view))

    async def ResumeQueue(self, request: pb.ResumeQueueRequest, context: Any) -> pb.ResumeQueueResponse:
        """Lets a queue compete again."""
        key = names.parse_queue("name", request.name)
        view = await self._one(Resume(key, request_key(request)), QueueView)
        note_change("queue resumed", names.queue_name(key), context)
        return pb.ResumeQueueResponse(queue=convert.queue(view))

    async def _tell_holder(self, lease: LeaseKey, reason: EndReason) -> None:
        """A hint: what was decided is recorded, and the holder's next progress report says it too."""
        try:
            (view,) = await self._ledger.execute([GetLease(lease)])
        except LedgerUnavailableError:
            return
        if isinstance(view, LeaseView):
            await self._bus.publish(StopHint(view.session, lease, reason))

    # ---- leases -----------------------------------------------------------------------------------------------------

    async def ListLeases(self, request: pb.ListLeasesRequest, context: Any) -> pb.ListLeasesResponse:
        """Reads a page of the live leases under the parent."""
        tenant, queue = _lease_parent(request.parent)
        parent = _parent_command(tenant, queue)
        of = f"leases:{tenant}/{queue}"
        items, token = await self._page(of, request, parent, lambda after, limit: ListLeases(tenant, queue, after, limit))
        return pb.ListLeasesResponse(leases=map(convert.lease, items), next_page_token=token)

    async def RevokeLease(self, request: pb.RevokeLeaseRequest, context: Any) -> pb.RevokeLeaseResponse:
        """Revokes a lease and tells its holder, who may have lost it already when it is forced."""
        lease = names.parse_lease("name", request.name)
        view = await self._one(Revoke(lease, request.force, request_key(request)), LeaseView)
        note_change("lease revoked by force" if request.force else "lease revoked", names.lease_name(lease), context)
        await self._bus.publish(StopHint(view.session, lease, EndReason.REVOKED))
        return pb.RevokeLeaseResponse(lease=convert.lease(view))


def _lease_parent(parent: str) -> tuple[str, str]:
    """Tenant and queue of `tenants/{t}/queues/{q}`, each empty for `-`; a queue of any tenant is no parent."""
    steps = parent.split("/")
    wild = len(steps) == 4 and (steps[0], steps[2], steps[3]) == ("tenants", "queues", ANY)
    if not wild:
        return names.parse_queue("parent", parent)
    return ("" if steps[1] == ANY else names.check_id("parent", steps[1])), ""


def _parent_command(tenant: str, queue: str) -> Command | None:
    if queue:
        return GetQueue(QueueKey(tenant, queue))
    return GetTenant(tenant) if tenant else None
