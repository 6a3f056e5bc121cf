"""Who competes, and in which place: the running order of queues, fair queueing, the balance of announcements.

    IDLE --touch--> READY --grant--> LEASED --settle--> IDLE, READY or WAITING;  WAITING --due--> READY;  LEASED --lapse--> READY

May live here: entering and leaving the running, charging, choosing, topping up. May not know: leases' lives, requests.
Fair queueing is start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996): a tenant's start tag is the greater of the class's
virtual time and its own finish tag; the smallest start tag goes first and becomes the virtual time; the finish tag is the start
tag plus cost over weight. The cost is slot time, reserved at the grant and corrected at the end.
"""

from __future__ import annotations

from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.outcomes import QueueState

from .state import ClassRecord, LeaseRecord, QueueRecord, Step

TOP_UP_LIMIT = 128
"""Most announcement ids that one step adds."""


# ---- entering and leaving -----------------------------------------------------------------------------------------------


def make_ready(step: Step, key: QueueKey, since_ms: int) -> None:
    """The queue is READY since then; unless paused it competes."""
    queue = step.state.queues[key]
    _rest(step, key, queue)
    queue.state, queue.since_ms = QueueState.READY, since_ms
    if not queue.paused:
        enter(step, key)


def make_waiting(step: Step, key: QueueKey, due_ms: int) -> None:
    """The queue is WAITING until then."""
    queue = step.state.queues[key]
    _rest(step, key, queue)
    queue.state, queue.since_ms, queue.due_ms = QueueState.WAITING, step.now_ms, due_ms
    step.state.waiting[key] = due_ms


def make_idle(step: Step, key: QueueKey) -> None:
    """The queue is IDLE; nothing of its state is kept but a pause and a suspicion."""
    queue = step.state.queues[key]
    _rest(step, key, queue)
    queue.state, queue.since_ms = QueueState.IDLE, 0


def _rest(step: Step, key: QueueKey, queue: QueueRecord) -> None:
    leave(step, key)
    step.state.waiting.pop(key, None)
    queue.due_ms, queue.token, queue.dirty = 0, 0, False
    if queue.suspect_ms <= step.now_ms:
        queue.suspect_ms = 0


def enter(step: Step, key: QueueKey) -> None:
    """A READY queue takes its place in the running of its class."""
    queue = step.state.queues[key]
    class_id = step.class_of(key)
    record = step.state.classes[class_id]
    queue.running_in = class_id
    if key.tenant not in record.ready:
        record.ready[key.tenant] = max(record.tags.get(key.tenant, 0), record.virtual_time)
    record.turns.setdefault(key.tenant, {})[key.member] = queue.since_ms
    step.upset.add(class_id)


def leave(step: Step, key: QueueKey) -> None:
    """The queue, if it competes, no longer does."""
    queue = step.state.queues[key]
    if not queue.running_in:
        return
    record = step.state.classes[queue.running_in]
    turns = record.turns[key.tenant]
    del turns[key.member]
    if not turns:
        del record.turns[key.tenant]
        del record.ready[key.tenant]
    queue.running_in = ""


def touch(step: Step, key: QueueKey) -> bool:
    """The queue may have work; True when that was known already."""
    queue = step.state.queues[key]
    if queue.state is QueueState.IDLE:
        make_ready(step, key, step.now_ms)
        return False
    if queue.state is QueueState.LEASED and not queue.dirty:
        queue.dirty = True
        return False
    return True


# ---- fair queueing ------------------------------------------------------------------------------------------------------


def choose(step: Step, class_ids: tuple[str, ...]) -> tuple[QueueKey | None, bool]:
    """The queue that deserves the next slot among the classes, and whether a class with competing queues was at its ceiling.

    Among classes the earliest `ready_since + target_wait` of the queue that fair queueing picks goes first, ties by class id;
    within a class the tenant with the smallest start tag, ties by id; of its queues the one READY longest.
    """
    best: tuple[int, str, QueueKey] | None = None
    full = False
    for class_id in class_ids:
        record = step.state.classes.get(class_id)
        if record is None or not record.ready:
            continue
        if free_slots(step, record) == 0:
            full = True
            continue
        since_ms, key = _head(record)
        candidate = (since_ms + record.policy.target_wait_ms, class_id, key)
        best = candidate if best is None else min(best, candidate)
    return (best[2] if best else None), full


def _head(record: ClassRecord) -> tuple[int, QueueKey]:
    _, tenant = min((tag, tenant) for tenant, tag in record.ready.items())
    since_ms, member = min((since_ms, member) for member, since_ms in record.turns[tenant].items())
    return since_ms, QueueKey.from_member(member)


def reserve(step: Step, key: QueueKey, record: ClassRecord, cost: int) -> int:
    """Takes the queue out of the running and charges its tenant the virtual cost; returns the start tag."""
    start_tag = record.ready[key.tenant]
    leave(step, key)
    record.virtual_time = start_tag
    record.tags[key.tenant] = start_tag + cost
    if key.tenant in record.ready:
        record.ready[key.tenant] = start_tag + cost
    return start_tag


def charge(step: Step, lease: LeaseRecord, held_ms: int) -> None:
    """Corrects what was reserved at the grant to the slot time that was held, of which 1 ms is the least.

    Without a least charge a tenant whose slices take no measurable time would keep its tag, and with it the turn.
    """
    record = step.state.classes[lease.priority_class]
    tenant = lease.key.tenant
    reserved = lease.terms.slice_ms * lease.charge_per_ms
    before = record.tags.get(tenant, lease.start_tag + reserved)
    tag = max(0, before - reserved + max(1, held_ms) * lease.charge_per_ms)
    record.tags[tenant] = tag
    if tenant in record.ready:
        record.ready[tenant] = max(tag, record.virtual_time)


def forget_idle_class(record: ClassRecord) -> None:
    """When nothing competes and nothing is leased, a busy period ends: the next begins from zero for everybody."""
    if not record.ready and not record.leases:
        record.virtual_time = 0
        record.tags.clear()


def prune_tags(record: ClassRecord) -> None:
    """Drops tags at or below the virtual time: whoever returns starts there anyway."""
    passed = [tenant for tenant, tag in record.tags.items() if tag <= record.virtual_time]
    for tenant in passed:
        del record.tags[tenant]


# ---- the balance --------------------------------------------------------------------------------------------------------


def free_slots(step: Step, record: ClassRecord) -> int:
    """Leases that may still be granted under the class; its competing queues where it has no ceiling."""
    if not record.policy.max_leases:
        return record.competing()
    return max(0, record.policy.max_leases - step.live_in(record))


def grantable(step: Step, record: ClassRecord) -> int:
    """Queues of the class that could be granted now."""
    if step.now_ms < step.state.closed_until_ms:
        return 0
    return min(record.competing(), free_slots(step, record))


def top_up(step: Step, class_ids: list[str]) -> None:
    """Owes as many announcements as there are grantable queues without one, at most 128 in the step."""
    left = TOP_UP_LIMIT
    for class_id in class_ids:
        record = step.state.classes.get(class_id)
        if record is None:
            continue
        missing = grantable(step, record) - len(record.owed) - len(record.published)
        for _ in range(min(missing, left)):
            step.state.last_announcement += 1
            record.owed[f"{step.state.generation}-{step.state.last_announcement}"] = 0
        left -= max(0, min(missing, left))


def strike(step: Step, record: ClassRecord) -> None:
    """Strikes owed ids that nobody claimed and that are no longer needed."""
    surplus = len(record.owed) + len(record.published) - grantable(step, record)
    unclaimed = sorted(announcement_id for announcement_id, claimed_ms in record.owed.items() if claimed_ms == 0)
    for announcement_id in unclaimed[: max(0, surplus)]:
        del record.owed[announcement_id]


def ask_with(step: Step, class_id: str, announcement_id: str) -> None:
    """A worker asks with this id: it is outstanding no more. An absent id changes nothing."""
    record = step.state.classes.get(class_id)
    if record is None:
        return
    if announcement_id in record.owed:
        del record.owed[announcement_id]
    elif announcement_id in record.published:
        record.published.remove(announcement_id)
    else:
        return
    record.empty_since_ms = 0
    step.upset.add(class_id)
