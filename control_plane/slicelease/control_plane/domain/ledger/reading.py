"""What can be read of the ledger: views, pages, counts.

May live here: reading. May not know: any change.
"""

from __future__ import annotations

from collections.abc import Iterable

from slicelease.control_plane.domain.commands import (
    GetClass,
    GetLease,
    GetQueue,
    GetTenant,
    ListClasses,
    ListLeases,
    ListQueues,
    ListTenants,
)
from slicelease.control_plane.domain.names import LeaseKey, QueueKey
from slicelease.control_plane.domain.outcomes import (
    ClassStats,
    ClassView,
    LeaseView,
    Page,
    QueueView,
    RefusalReason,
    Refused,
    Stats,
    TenantView,
)

from .leases import view_lease
from .state import ClassRecord, Step


def view_tenant(step: Step, tenant: str) -> TenantView:
    """The tenant as stored."""
    record = step.state.tenants[tenant]
    return TenantView(tenant, record.policy, str(record.etag), record.created_ms, record.updated_ms)


def view_queue(step: Step, key: QueueKey) -> QueueView:
    """The queue as stored."""
    queue = step.state.queues[key]
    return QueueView(
        key,
        queue.policy,
        step.class_of(key),
        queue.state,
        queue.paused,
        queue.since_ms,
        queue.due_ms,
        queue.token,
        str(queue.etag),
        queue.created_ms,
        queue.updated_ms,
    )


def view_class(step: Step, class_id: str) -> ClassView:
    """The class as stored."""
    record = step.state.classes[class_id]
    return ClassView(class_id, record.policy, str(record.etag), record.created_ms, record.updated_ms)


def get_tenant(step: Step, command: GetTenant) -> TenantView | Refused:
    """One tenant."""
    if command.tenant not in step.state.tenants:
        return Refused(RefusalReason.TENANT_NOT_FOUND, command.tenant)
    return view_tenant(step, command.tenant)


def get_queue(step: Step, command: GetQueue) -> QueueView | Refused:
    """One queue."""
    if command.key.tenant not in step.state.tenants:
        return Refused(RefusalReason.TENANT_NOT_FOUND, command.key.tenant)
    if command.key not in step.state.queues:
        return Refused(RefusalReason.QUEUE_NOT_FOUND, command.key.member)
    return view_queue(step, command.key)


def get_class(step: Step, command: GetClass) -> ClassView | Refused:
    """One class."""
    if command.class_id not in step.state.classes:
        return Refused(RefusalReason.PRIORITY_CLASS_NOT_FOUND, command.class_id)
    return view_class(step, command.class_id)


def get_lease(step: Step, command: GetLease) -> LeaseView | Refused:
    """One live lease."""
    lease = step.live(command.lease)
    if lease is None:
        key = command.lease
        return Refused(RefusalReason.LEASE_NOT_FOUND, f"{key.tenant}/{key.queue}/{key.token}")
    return view_lease(lease)


def list_tenants(step: Step, command: ListTenants) -> Page:
    """A page of tenants."""
    names, next_after = _cut(step.state.tenants, command.after, command.limit)
    return Page(tuple(view_tenant(step, name) for name in names), next_after)


def list_classes(step: Step, command: ListClasses) -> Page:
    """A page of classes."""
    names, next_after = _cut(step.state.classes, command.after, command.limit)
    return Page(tuple(view_class(step, name) for name in names), next_after)


def list_queues(step: Step, command: ListQueues) -> Page:
    """A page of queues."""
    members = (key.member for key in step.state.queues if command.tenant in ("", key.tenant))
    names, next_after = _cut(members, command.after, command.limit)
    return Page(tuple(view_queue(step, QueueKey.from_member(name)) for name in names), next_after)


def list_leases(step: Step, command: ListLeases) -> Page:
    """A page of the leases of a page of leased queues; those past their time are left out."""
    members = (key.of_queue.member for key in step.state.leases if _matches(command, key))
    names, next_after = _cut(members, command.after, command.limit)
    leases = (_lease_of(step, QueueKey.from_member(name)) for name in names)
    return Page(tuple(view for view in leases if view is not None), next_after)


def _matches(command: ListLeases, key: LeaseKey) -> bool:
    return command.tenant == "" or (command.tenant == key.tenant and command.queue in ("", key.queue))


def _lease_of(step: Step, key: QueueKey) -> LeaseView | None:
    lease = step.live(LeaseKey(key.tenant, key.queue, step.state.queues[key].token))
    return view_lease(lease) if lease is not None else None


def _cut(names: Iterable[str], after: str, limit: int) -> tuple[list[str], str]:
    """The names behind `after` in byte order, at most `limit`, and where the next page begins (empty: nowhere)."""
    rest = sorted(name for name in names if name > after)
    page = rest[:limit]
    return page, page[-1] if len(rest) > limit else ""


def read_stats(step: Step) -> Stats:
    """Counts of the ledger."""
    state = step.state
    classes = tuple(_class_stats(step, class_id, state.classes[class_id]) for class_id in sorted(state.classes))
    closed_ms = max(0, state.closed_until_ms - step.now_ms)
    return Stats(classes, len(state.waiting), len(state.tenants), len(state.queues), closed_ms)


def _class_stats(step: Step, class_id: str, record: ClassRecord) -> ClassStats:
    since = [since_ms for turns in record.turns.values() for since_ms in turns.values()]
    oldest_ms = step.now_ms - min(since) if since else 0
    return ClassStats(class_id, record.competing(), step.live_in(record), len(record.owed), len(record.published), oldest_ms)
