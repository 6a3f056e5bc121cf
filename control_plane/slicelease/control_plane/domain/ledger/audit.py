"""What must hold of a ledger's state after every step, checked from scratch.

May live here: checks that recompute. May not know: how the rules keep these promises.
"""

from __future__ import annotations

from collections.abc import Iterator

from slicelease.control_plane.domain.names import LeaseKey, QueueKey
from slicelease.control_plane.domain.outcomes import QueueState
from slicelease.control_plane.domain.policy import LedgerConfig

from .running import grantable
from .state import ClassRecord, LedgerState, QueueRecord, Step


def faults(state: LedgerState, config: LedgerConfig) -> list[str]:
    """Every broken promise, in words; empty when the state is sound at the instant of its last step."""
    step = Step(state, state.last_us, config)
    found: list[str] = []
    for key, queue in state.queues.items():
        found += (f"queue {key.member}: {fault}" for fault in _queue_faults(step, key, queue))
    for lease_key in state.leases:
        found += (f"lease {lease_key.token} of {lease_key.of_queue.member}: {fault}" for fault in _lease_faults(step, lease_key))
    for class_id, record in state.classes.items():
        found += (f"class {class_id}: {fault}" for fault in _class_faults(step, class_id, record))
    found += (f"waiting {key.member}: no such queue" for key in state.waiting if key not in state.queues)
    found += (f"attempts of {key.member}: no such queue" for key in state.attempts if key not in state.queues)
    return found


def unbalanced(state: LedgerState, config: LedgerConfig) -> list[str]:
    """Classes with more grantable queues than announcements out, after a step that topped up every class."""
    step = Step(state, state.last_us, config)
    return [
        f"class {class_id}: {grantable(step, record)} grantable, {len(record.owed) + len(record.published)} announced"
        for class_id, record in state.classes.items()
        if len(record.owed) + len(record.published) < grantable(step, record)
    ]


def _queue_faults(step: Step, key: QueueKey, queue: QueueRecord) -> Iterator[str]:
    state = step.state
    competes = queue.state is QueueState.READY and not queue.paused
    if key.tenant not in state.tenants:
        yield "its tenant is gone"
        return
    if (queue.running_in or None) != (step.class_of(key) if competes else None):
        yield f"{queue.state.name}, paused={queue.paused}, competes in {queue.running_in or 'no class'}"
    if (queue.state is QueueState.WAITING) != (key in state.waiting):
        yield f"{queue.state.name} and its due time disagree"
    if state.waiting.get(key, 0) != queue.due_ms:
        yield f"due at {queue.due_ms} and at {state.waiting.get(key, 0)}"
    if (queue.state is QueueState.LEASED) != (LeaseKey(*key, queue.token) in state.leases):
        yield f"{queue.state.name} with token {queue.token} and its lease disagree"
    if queue.dirty and queue.state is not QueueState.LEASED:
        yield f"dirty while {queue.state.name}"
    if (queue.since_ms == 0) != (queue.state is QueueState.IDLE):
        yield f"{queue.state.name} since {queue.since_ms}"


def _lease_faults(step: Step, key: LeaseKey) -> Iterator[str]:
    state = step.state
    lease, queue = state.leases[key], state.queues.get(key.of_queue)
    if queue is None:
        yield "its queue is gone"
    elif queue.token != key.token:
        yield f"its queue is leased under token {queue.token}"
    if key.token > state.last_token:
        yield f"its token is above the last one given, {state.last_token}"
    if key not in state.classes[lease.priority_class].leases:
        yield f"class {lease.priority_class} does not list it"
    if lease.renewed_ms > step.now_ms or lease.expires_ms < lease.renewed_ms:
        yield f"renewed at {lease.renewed_ms}, expires at {lease.expires_ms}"


def _class_faults(step: Step, class_id: str, record: ClassRecord) -> Iterator[str]:
    state = step.state
    if set(record.ready) != set(record.turns):
        yield "tenants with a start tag and tenants with competing queues differ"
    for tenant, turns in record.turns.items():
        for member, since_ms in turns.items():
            queue = state.queues.get(QueueKey.from_member(member))
            if queue is None or queue.running_in != class_id or queue.since_ms != since_ms:
                yield f"{member} competes here since {since_ms} and does not know"
        if record.ready.get(tenant, record.virtual_time) < record.virtual_time:
            yield f"the start tag of {tenant} is behind the virtual time"
    if any(key not in state.leases for key in record.leases):
        yield "it lists a lease that is gone"
    if record.published & set(record.owed):
        yield "an announcement is both owed and published"
    if record.users != _users(state, class_id):
        yield f"its users are {sorted(_users(state, class_id))} and it lists {sorted(record.users)}"


def _users(state: LedgerState, class_id: str) -> set[str]:
    tenants = {f"t:{tenant}" for tenant, record in state.tenants.items() if record.policy.priority_class == class_id}
    queues = {f"q:{key.member}" for key, queue in state.queues.items() if queue.policy.priority_class == class_id}
    return tenants | queues
