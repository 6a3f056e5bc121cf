"""Changes of policy: tenants, queues, classes; pause and resume; the touch that may create.

May live here: these changes and what they move. May not know: requests and their repetition.
"""

from __future__ import annotations

from dataclasses import replace

from slicelease.control_plane.domain.commands import (
    CreateClass,
    CreateQueue,
    CreateTenant,
    DeleteClass,
    DeleteQueue,
    DeleteTenant,
    Pause,
    Resume,
    Touch,
    UpdateClass,
    UpdateQueue,
    UpdateTenant,
)
from slicelease.control_plane.domain.names import DEFAULT_QUEUE, QueueKey
from slicelease.control_plane.domain.outcomes import (
    ClassView,
    Deleted,
    QueueState,
    QueueView,
    RefusalReason,
    Refused,
    TenantView,
    Touched,
)
from slicelease.control_plane.domain.policy import QueuePolicy, TenantPolicy

from .leases import end_with_queue
from .reading import view_class, view_queue, view_tenant
from .requests import finish_publish
from .running import enter, leave, make_ready, touch
from .state import ClassRecord, QueueRecord, Step, TenantRecord

# ---- touch --------------------------------------------------------------------------------------------------------------


def touch_queue(step: Step, command: Touch) -> Touched | Refused:
    """Touches the queue, creating what is unknown where the command allows it."""
    refused = _missing(step, command.key)
    if refused is None:
        coalesced, created = touch(step, command.key), False
    elif command.create is None:
        return refused
    else:
        refused = _create_for_touch(step, command.key, command.create)
        if refused is not None:
            return refused
        coalesced, created = False, True
    if command.finishes is not None:
        finish_publish(step, command.finishes)
    return Touched(coalesced, created)


def _create_for_touch(step: Step, key: QueueKey, policy: TenantPolicy) -> Refused | None:
    if key.tenant not in step.state.tenants:
        if policy.priority_class not in step.state.classes:
            return Refused(RefusalReason.PRIORITY_CLASS_NOT_FOUND, policy.priority_class)
        _add_tenant(step, key.tenant, policy)
    if key not in step.state.queues:
        _add_queue(step, key, QueuePolicy())
    return None


def _missing(step: Step, key: QueueKey) -> Refused | None:
    if key.tenant not in step.state.tenants:
        return Refused(RefusalReason.TENANT_NOT_FOUND, key.tenant)
    if key not in step.state.queues:
        return Refused(RefusalReason.QUEUE_NOT_FOUND, key.member)
    return None


# ---- pause --------------------------------------------------------------------------------------------------------------


def pause(step: Step, command: Pause) -> QueueView | Refused:
    """The queue keeps its state and leaves the running."""
    refused = _missing(step, command.key)
    if refused is not None:
        return refused
    leave(step, command.key)
    step.state.queues[command.key].paused = True
    return view_queue(step, command.key)


def resume(step: Step, command: Resume) -> QueueView | Refused:
    """A READY queue enters the running as READY from now: its pause is no wait of its class."""
    refused = _missing(step, command.key)
    if refused is not None:
        return refused
    queue = step.state.queues[command.key]
    if queue.paused:
        queue.paused = False
        if queue.state is QueueState.READY:
            make_ready(step, command.key, step.now_ms)
    return view_queue(step, command.key)


# ---- tenants ------------------------------------------------------------------------------------------------------------


def create_tenant(step: Step, command: CreateTenant) -> TenantView | Refused:
    """A tenant with its default queue, which is READY: the broker may hold work of that name."""
    if command.tenant in step.state.tenants:
        return Refused(RefusalReason.RESOURCE_EXISTS, command.tenant)
    if command.policy.priority_class not in step.state.classes:
        return Refused(RefusalReason.PRIORITY_CLASS_NOT_FOUND, command.policy.priority_class)
    if command.validate_only:
        return TenantView(command.tenant, command.policy, "", step.now_ms, step.now_ms)
    _add_tenant(step, command.tenant, command.policy)
    return view_tenant(step, command.tenant)


def _add_tenant(step: Step, tenant: str, policy: TenantPolicy) -> None:
    step.state.tenants[tenant] = TenantRecord(policy, step.next_etag(), step.now_ms, step.now_ms)
    step.state.classes[policy.priority_class].users.add(f"t:{tenant}")
    _add_queue(step, QueueKey(tenant, DEFAULT_QUEUE), QueuePolicy())


def update_tenant(step: Step, command: UpdateTenant) -> TenantView | Refused:
    """The new policy; the tenant's competing queues without a class of their own move with it and keep their times."""
    record = step.state.tenants.get(command.tenant)
    if record is None:
        return Refused(RefusalReason.TENANT_NOT_FOUND, command.tenant)
    if command.expect_etag not in ("", str(record.etag)):
        return Refused(RefusalReason.ETAG_MISMATCH, command.tenant)
    if command.policy.priority_class not in step.state.classes:
        return Refused(RefusalReason.PRIORITY_CLASS_NOT_FOUND, command.policy.priority_class)
    if command.validate_only:
        return TenantView(command.tenant, command.policy, str(record.etag), record.created_ms, record.updated_ms)
    before = record.policy.priority_class
    record.policy, record.etag, record.updated_ms = command.policy, step.next_etag(), step.now_ms
    if before != command.policy.priority_class:
        _move_user(step, f"t:{command.tenant}", before, command.policy.priority_class)
        _move_queues(step, command.tenant, step.state.classes[before])
    return view_tenant(step, command.tenant)


def _move_queues(step: Step, tenant: str, before: ClassRecord) -> None:
    for member in sorted(before.turns.get(tenant, {})):
        key = QueueKey.from_member(member)
        if not step.state.queues[key].policy.priority_class:
            leave(step, key)
            enter(step, key)


def _move_user(step: Step, user: str, before: str, after: str) -> None:
    if before:
        step.state.classes[before].users.discard(user)
    if after:
        step.state.classes[after].users.add(user)


def delete_tenant(step: Step, command: DeleteTenant) -> Deleted | Refused:
    """The tenant and its default queue; its other queues must be gone."""
    record = step.state.tenants.get(command.tenant)
    if record is None:
        return Refused(RefusalReason.TENANT_NOT_FOUND, command.tenant)
    if command.expect_etag not in ("", str(record.etag)):
        return Refused(RefusalReason.ETAG_MISMATCH, command.tenant)
    if any(key.tenant == command.tenant and key.queue != DEFAULT_QUEUE for key in step.state.queues):
        return Refused(RefusalReason.RESOURCE_IN_USE, command.tenant)
    if command.validate_only:
        return Deleted()
    _drop_queue(step, QueueKey(command.tenant, DEFAULT_QUEUE))
    _move_user(step, f"t:{command.tenant}", record.policy.priority_class, "")
    del step.state.tenants[command.tenant]
    for known in step.state.classes.values():
        known.tags.pop(command.tenant, None)
    return Deleted()


# ---- queues -------------------------------------------------------------------------------------------------------------


def create_queue(step: Step, command: CreateQueue) -> QueueView | Refused:
    """A queue, READY."""
    if command.key.tenant not in step.state.tenants:
        return Refused(RefusalReason.TENANT_NOT_FOUND, command.key.tenant)
    if command.key in step.state.queues:
        return Refused(RefusalReason.RESOURCE_EXISTS, command.key.member)
    if _unknown_class(step, command.policy):
        return Refused(RefusalReason.PRIORITY_CLASS_NOT_FOUND, command.policy.priority_class)
    if command.validate_only:
        return _preview(step, command.key, _resolved(step, command.key, command.policy))
    _add_queue(step, command.key, command.policy)
    return view_queue(step, command.key)


def _unknown_class(step: Step, policy: QueuePolicy) -> bool:
    return policy.priority_class != "" and policy.priority_class not in step.state.classes


def _resolved(step: Step, key: QueueKey, policy: QueuePolicy) -> QueuePolicy:
    class_id = policy.priority_class or step.state.tenants[key.tenant].policy.priority_class
    return replace(policy, queue_type=policy.queue_type or step.state.classes[class_id].policy.queue_type)


def _preview(step: Step, key: QueueKey, policy: QueuePolicy) -> QueueView:
    class_id = policy.priority_class or step.state.tenants[key.tenant].policy.priority_class
    return QueueView(key, policy, class_id, QueueState.IDLE, False, 0, 0, 0, "", step.now_ms, step.now_ms)


def _add_queue(step: Step, key: QueueKey, policy: QueuePolicy) -> None:
    resolved = _resolved(step, key, policy)
    step.state.queues[key] = QueueRecord(resolved, step.next_etag(), step.now_ms, step.now_ms)
    _move_user(step, f"q:{key.member}", "", policy.priority_class)
    touch(step, key)


def update_queue(step: Step, command: UpdateQueue) -> QueueView | Refused:
    """The new policy, but for the type; a competing queue moves to its new class and keeps its time."""
    refused = _missing(step, command.key)
    if refused is not None:
        return refused
    queue = step.state.queues[command.key]
    if command.expect_etag not in ("", str(queue.etag)):
        return Refused(RefusalReason.ETAG_MISMATCH, command.key.member)
    if _unknown_class(step, command.policy):
        return Refused(RefusalReason.PRIORITY_CLASS_NOT_FOUND, command.policy.priority_class)
    policy = replace(command.policy, queue_type=queue.policy.queue_type)
    if command.validate_only:
        return replace(view_queue(step, command.key), policy=policy)
    before = queue.policy.priority_class
    queue.policy, queue.etag, queue.updated_ms = policy, step.next_etag(), step.now_ms
    _move_user(step, f"q:{command.key.member}", before, policy.priority_class)
    if queue.running_in and queue.running_in != step.class_of(command.key):
        leave(step, command.key)
        enter(step, command.key)
    return view_queue(step, command.key)


def delete_queue(step: Step, command: DeleteQueue) -> Deleted | Refused:
    """The queue and all that is known of it; the default queue goes with its tenant only."""
    refused = _missing(step, command.key)
    if refused is not None:
        return refused
    if command.expect_etag not in ("", str(step.state.queues[command.key].etag)):
        return Refused(RefusalReason.ETAG_MISMATCH, command.key.member)
    if command.key.queue == DEFAULT_QUEUE:
        return Refused(RefusalReason.RESOURCE_IN_USE, command.key.member)
    if not command.validate_only:
        _drop_queue(step, command.key)
    return Deleted()


def _drop_queue(step: Step, key: QueueKey) -> None:
    leave(step, key)
    end_with_queue(step, key)
    queue = step.state.queues.pop(key)
    _move_user(step, f"q:{key.member}", queue.policy.priority_class, "")
    step.state.waiting.pop(key, None)
    step.state.attempts.pop(key, None)


# ---- classes ------------------------------------------------------------------------------------------------------------


def create_class(step: Step, command: CreateClass) -> ClassView | Refused:
    """A class without queues."""
    if command.class_id in step.state.classes:
        return Refused(RefusalReason.RESOURCE_EXISTS, command.class_id)
    if command.validate_only:
        return ClassView(command.class_id, command.policy, "", step.now_ms, step.now_ms)
    step.state.classes[command.class_id] = ClassRecord(command.policy, step.next_etag(), step.now_ms, step.now_ms)
    return view_class(step, command.class_id)


def update_class(step: Step, command: UpdateClass) -> ClassView | Refused:
    """The new policy, in force from the next grant."""
    record = step.state.classes.get(command.class_id)
    if record is None:
        return Refused(RefusalReason.PRIORITY_CLASS_NOT_FOUND, command.class_id)
    if command.expect_etag not in ("", str(record.etag)):
        return Refused(RefusalReason.ETAG_MISMATCH, command.class_id)
    if command.validate_only:
        return replace(view_class(step, command.class_id), policy=command.policy)
    record.policy, record.etag, record.updated_ms = command.policy, step.next_etag(), step.now_ms
    step.upset.add(command.class_id)
    return view_class(step, command.class_id)


def delete_class(step: Step, command: DeleteClass) -> Deleted | Refused:
    """A class that no tenant, queue or lease uses."""
    record = step.state.classes.get(command.class_id)
    if record is None:
        return Refused(RefusalReason.PRIORITY_CLASS_NOT_FOUND, command.class_id)
    if command.expect_etag not in ("", str(record.etag)):
        return Refused(RefusalReason.ETAG_MISMATCH, command.class_id)
    if record.users or record.leases:
        return Refused(RefusalReason.RESOURCE_IN_USE, command.class_id)
    if not command.validate_only:
        del step.state.classes[command.class_id]
    return Deleted()
