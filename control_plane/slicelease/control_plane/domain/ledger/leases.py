"""The life of a lease: grant, renew, settle, give back, revoke, lapse; and the attempts counted meanwhile.

May live here: these transitions. May not know: requests and their repetition (requests.py), policy changes.
"""

from __future__ import annotations

from dataclasses import replace

from slicelease.control_plane.domain.commands import EndReason, GiveBack, Renew, Revoke, Settle
from slicelease.control_plane.domain.names import LeaseKey, QueueKey
from slicelease.control_plane.domain.outcomes import (
    DenialReason,
    Denied,
    GivenBack,
    Granted,
    LeaseView,
    QueueState,
    RefusalReason,
    Refused,
    Renewed,
    Settled,
)
from slicelease.control_plane.domain.policy import Ordering

from .running import charge, choose, forget_idle_class, make_idle, make_ready, make_waiting, reserve
from .state import Attempt, LeaseRecord, Step

LAPSED_KEPT = 10_000
"""Most unreported lapses kept; older ones are dropped from the report (never from the rules)."""

STEP_LIMIT = 128
"""Most leases expired, and most queues woken, before a step's own commands."""


# ---- grant --------------------------------------------------------------------------------------------------------------


def grant(step: Step, session: str, slot: int, classes: tuple[str, ...]) -> Granted | Denied:
    """The lease that the slot deserves among the classes, or why there is none."""
    closed_ms = step.state.closed_until_ms - step.now_ms
    if closed_ms > 0:
        return Denied(DenialReason.ADMISSION_CLOSED, closed_ms)
    key, full = choose(step, classes)
    if key is None:
        return Denied(DenialReason.CLASS_FULL if full else DenialReason.NO_READY_QUEUE, 0)
    return carry(step, _lease_out(step, key, session, slot))


def _lease_out(step: Step, key: QueueKey, session: str, slot: int) -> LeaseRecord:
    state, now_ms = step.state, step.now_ms
    queue = state.queues[key]
    class_id = queue.running_in
    record = state.classes[class_id]
    terms = queue.policy.terms.over(record.policy.terms).over(step.config.terms)
    charge_per_ms = state.tenants[key.tenant].policy.charge_per_ms
    start_tag = reserve(step, key, record, terms.slice_ms * charge_per_ms)
    state.last_token = max(state.last_token + 1, step.now_us)
    lease = LeaseRecord(
        key=LeaseKey(key.tenant, key.queue, state.last_token),
        priority_class=class_id,
        session=session,
        slot=slot,
        granted_ms=now_ms,
        renewed_ms=now_ms,
        expires_ms=now_ms + step.config.first_lease_ms,
        waited_ms=now_ms - queue.since_ms,
        terms=terms,
        start_tag=start_tag,
        charge_per_ms=charge_per_ms,
    )
    state.leases[lease.key] = lease
    record.leases.add(lease.key)
    queue.state, queue.since_ms, queue.token, queue.dirty = QueueState.LEASED, now_ms, lease.key.token, False
    step.upset.add(class_id)
    return lease


def carry(step: Step, lease: LeaseRecord) -> Granted:
    """A reply that carries the lease, with the validity that remains."""
    lease.carried += 1
    return Granted(
        lease=lease.key,
        priority_class=lease.priority_class,
        valid_ms=lease.expires_ms - step.now_ms,
        waited_ms=lease.waited_ms,
        granted_ms=lease.granted_ms,
        terms=lease.terms,
        carried=lease.carried,
    )


# ---- renew --------------------------------------------------------------------------------------------------------------


def renew(step: Step, command: Renew) -> Renewed | Refused:
    """Renews unless revoked; a paused queue's holder is renewed, so that it can end at its message boundary, and told to stop."""
    lease = step.live(command.lease)
    if lease is None:
        return lease_over(command.lease)
    lease.totals = command.totals
    drop_attempts(step, command.lease.of_queue, command.finished_ids)
    attempt = _count_attempt(step, command.lease, command.starting_id) if command.starting_id else 0
    if lease.revoked:
        return Renewed(lease.expires_ms - step.now_ms, EndReason.REVOKED, attempt)
    _prolong(step, lease)
    paused = step.state.queues[command.lease.of_queue].paused
    return Renewed(step.config.lease_ms, EndReason.PAUSED if paused else None, attempt)


def _prolong(step: Step, lease: LeaseRecord) -> None:
    lease.renewed_ms = step.now_ms
    lease.expires_ms = step.now_ms + step.config.lease_ms


def lease_over(key: LeaseKey) -> Refused:
    """The lease has ended."""
    return Refused(RefusalReason.LEASE_OVER, f"{key.tenant}/{key.queue}/{key.token}")


# ---- settle -------------------------------------------------------------------------------------------------------------


def settle(step: Step, command: Settle) -> Settled | Refused:
    """Ends the lease for the given reason; with `want_next` chooses the slot's next one in the same step."""
    lease = step.live(command.lease)
    if lease is None:
        return lease_over(command.lease)
    lease.totals = command.totals
    key = command.lease.of_queue
    _settle_attempts(step, command)
    _end(step, lease, step.now_ms)
    _after_settle(step, lease, command)
    forget_idle_class(step.state.classes[lease.priority_class])
    queue = step.state.queues[key]
    waits_ms = queue.due_ms - step.now_ms if queue.state is QueueState.WAITING else 0
    settled = Settled(queue.state, waits_ms, step.now_ms - lease.granted_ms, lease.priority_class, None)
    if not command.want_next:
        return settled
    following = grant(step, command.request.session, command.request.slot, command.classes)
    return replace(settled, next=following) if isinstance(following, Granted) else settled


def _after_settle(step: Step, lease: LeaseRecord, command: Settle) -> None:
    """The one table of what an end reason makes of the queue."""
    key, now_ms = lease.key.of_queue, step.now_ms
    queue = step.state.queues[key]
    match command.end_reason:
        case EndReason.EMPTY if queue.dirty:
            make_ready(step, key, now_ms)
        case EndReason.EMPTY if queue.suspect_ms > lease.granted_ms:
            # It may have been seen while a lost holder still had messages, even if it is told after that.
            _try_again(step, key, queue.suspect_ms)
        case EndReason.EMPTY:
            make_idle(step, key)
        case EndReason.ERROR:
            make_waiting(step, key, now_ms + _backoff_ms(step, lease, command.failed_id))
        case EndReason.BROKER_LOST:
            _after_loss(step, lease, now_ms)
        case EndReason.UNUSED:
            make_ready(step, key, lease.granted_ms - lease.waited_ms)
        case _:
            make_ready(step, key, now_ms)


def _try_again(step: Step, key: QueueKey, at_ms: int) -> None:
    if at_ms > step.now_ms:
        make_waiting(step, key, at_ms)
    else:
        make_ready(step, key, step.now_ms)


def _after_loss(step: Step, lease: LeaseRecord, last_ms: int) -> None:
    """The holder's connection, used until then at the latest, may hold messages for a while: a queue in order rests so long."""
    key = lease.key.of_queue
    queue = step.state.queues[key]
    queue.suspect_ms = max(queue.suspect_ms, last_ms + step.config.quarantine_ms)
    in_order = lease.terms.ordering is Ordering.STRICT
    _try_again(step, key, queue.suspect_ms if in_order else step.now_ms)


def _end(step: Step, lease: LeaseRecord, end_ms: int) -> None:
    charge(step, lease, end_ms - lease.granted_ms)
    del step.state.leases[lease.key]
    step.state.classes[lease.priority_class].leases.discard(lease.key)
    step.upset.add(lease.priority_class)


def end_with_queue(step: Step, key: QueueKey) -> None:
    """The queue is being deleted: its lease, if any, ends."""
    lease = step.state.leases.get(LeaseKey(key.tenant, key.queue, step.state.queues[key].token))
    if lease is not None:
        _end(step, lease, min(step.now_ms, lease.expires_ms))
        forget_idle_class(step.state.classes[lease.priority_class])


# ---- other ends ---------------------------------------------------------------------------------------------------------


def give_back(step: Step, command: GiveBack) -> GivenBack:
    """Ends a lease that no later reply carried; its queue keeps its place."""
    slot = step.state.slots.get((command.session, command.slot))
    lease = step.live(command.lease)
    if slot is None or slot.n != command.n or lease is None or lease.carried != command.carried:
        return GivenBack(False)
    if isinstance(slot.answer, Settled):
        slot.answer = replace(slot.answer, next=None)
    else:
        del step.state.slots[command.session, command.slot]
    _end(step, lease, step.now_ms)
    make_ready(step, lease.key.of_queue, lease.granted_ms - lease.waited_ms)
    forget_idle_class(step.state.classes[lease.priority_class])
    return GivenBack(True)


def revoke(step: Step, command: Revoke) -> LeaseView | Refused:
    """Refuses further renewals; with force ends the lease as if it had lapsed now."""
    lease = step.live(command.lease)
    if lease is None:
        return Refused(RefusalReason.LEASE_NOT_FOUND, f"{command.lease.tenant}/{command.lease.queue}/{command.lease.token}")
    lease.revoked = True
    if command.force:
        _end(step, lease, step.now_ms)
        _after_loss(step, lease, lease.expires_ms)
        forget_idle_class(step.state.classes[lease.priority_class])
    return view_lease(lease)


def expire_lapsed(step: Step, limit: int) -> None:
    """Ends leases past their time, oldest first."""
    lapsed = sorted(
        (lease.expires_ms, f"{key.tenant}/{key.queue}/{key.token}", lease)
        for key, lease in step.state.leases.items()
        if lease.expires_ms <= step.now_ms
    )
    for expires_ms, _, lease in lapsed[:limit]:
        _end(step, lease, expires_ms)
        _after_loss(step, lease, expires_ms)
        forget_idle_class(step.state.classes[lease.priority_class])
        step.state.lapsed.append((lease.key, lease.priority_class))
    del step.state.lapsed[:-LAPSED_KEPT]


def wake_due(step: Step, limit: int) -> int:
    """Makes WAITING queues whose time has come READY, earliest first; how many."""
    due = sorted((due_ms, key.member) for key, due_ms in step.state.waiting.items() if due_ms <= step.now_ms)[:limit]
    for _, member in due:
        make_ready(step, QueueKey.from_member(member), step.now_ms)
    return len(due)


def view_lease(lease: LeaseRecord) -> LeaseView:
    """The lease as people see it."""
    return LeaseView(
        lease.key,
        lease.priority_class,
        lease.session,
        lease.slot,
        lease.granted_ms,
        lease.expires_ms,
        lease.waited_ms,
        lease.revoked,
        lease.totals,
    )


# ---- attempts -----------------------------------------------------------------------------------------------------------


def _count_attempt(step: Step, lease: LeaseKey, message_id: str) -> int:
    counts = step.state.attempts.setdefault(lease.of_queue, {})
    attempt = counts.setdefault(message_id, Attempt(0, 0))
    attempt.count, attempt.token = attempt.count + 1, lease.token
    return attempt.count


def drop_attempts(step: Step, key: QueueKey, message_ids: tuple[str, ...]) -> None:
    """The messages are finished."""
    counts = step.state.attempts.get(key)
    if counts is None:
        return
    for message_id in message_ids:
        counts.pop(message_id, None)
    if not counts:
        del step.state.attempts[key]


def _settle_attempts(step: Step, command: Settle) -> None:
    key, token = command.lease.of_queue, command.lease.token
    drop_attempts(step, key, command.finished_ids)
    counts = step.state.attempts.get(key, {})
    for message_id in command.returned_ids:
        attempt = counts.get(message_id)
        if attempt is not None and attempt.token == token:
            attempt.count, attempt.token = attempt.count - 1, 0
            if attempt.count == 0:
                drop_attempts(step, key, (message_id,))
    failed = counts.get(command.failed_id)
    if command.end_reason is EndReason.ERROR and command.failed_id and (failed is None or failed.token != token):
        _count_attempt(step, command.lease, command.failed_id)


def _backoff_ms(step: Step, lease: LeaseRecord, failed_id: str) -> int:
    """Initial back-off doubled for each attempt after the first, up to the cap."""
    attempt = step.state.attempts.get(lease.key.of_queue, {}).get(failed_id)
    wait_ms = lease.terms.backoff_ms
    for _ in range(attempt.count - 1 if attempt else 0):
        wait_ms = min(wait_ms * 2, lease.terms.backoff_cap_ms)
    return min(wait_ms, lease.terms.backoff_cap_ms)
