"""The ledger's specification: one atomic step over plain state, in integers.

`run_step` is what one call to the store does; `apply` is one command of it. The state is changed in place: a copy of it a step
would make the simulation quadratic, and nobody but the step's caller holds it. The Redis side is held to this by a shared
contract suite and by a machine that drives both and compares state and outcome after each step.

    one step = look at the store, expire what has lapsed, wake what is due, the commands in order, top up the balance
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from slicelease.control_plane.domain import commands as c
from slicelease.control_plane.domain.outcomes import Announcements, Done, Expired, Observed, Outcome, Pong, Woken
from slicelease.control_plane.domain.policy import LedgerConfig

from . import leases, policies, reading, requests, running
from .state import LedgerState, Step

REPORT_LIMIT = 1_000
"""Most lapses in one report."""

__all__ = ["LedgerState", "apply", "run_step"]


def run_step(state: LedgerState, commands: Sequence[c.Command], now_us: int, config: LedgerConfig, run_id: str) -> list[Outcome]:
    """One atomic step at one instant: an outcome for each command, in order.

    `now_us` is the ledger's clock in microseconds and never goes back; `run_id` names the run of the store that holds the state.
    """
    step = Step(state, max(now_us, state.last_us), config)
    state.last_us = step.now_us
    _look_at_store(step, run_id)
    requests.forget_old(step)
    leases.expire_lapsed(step, leases.STEP_LIMIT)
    leases.wake_due(step, leases.STEP_LIMIT)
    outcomes = [apply(step, command) for command in commands]
    running.top_up(step, _by_urgency(step, step.upset))
    return outcomes


def _look_at_store(step: Step, run_id: str) -> None:
    """A store that is new, restarted or emptied may have forgotten leases: nothing is granted until the longest has ended.

    Announcements may be lost or doubled with it: all are forgotten, and owed again once admission opens.
    """
    state = step.state
    if state.run_id == run_id:
        return
    opens = step.config.open_when_new if state.run_id == "" else step.config.open_when_restarted
    state.run_id = run_id
    # Of the clock, so that announcement ids of before a loss are not given again.
    state.generation = max(state.generation + 1, step.now_us // 1_000_000)
    if not opens:
        state.closed_until_ms = max(state.closed_until_ms, step.now_ms + step.config.admission_ms)
    for class_id, record in state.classes.items():
        record.owed.clear()
        record.published.clear()
        record.empty_since_ms = 0
        step.upset.add(class_id)


def _by_urgency(step: Step, class_ids: set[str]) -> list[str]:
    known = [class_id for class_id in class_ids if class_id in step.state.classes]
    return sorted(known, key=lambda class_id: (step.state.classes[class_id].policy.target_wait_ms, class_id))


def apply(step: Step, command: c.Command) -> Outcome:
    """One command of a step; a refusal has changed nothing."""
    outcome: Outcome = _TABLE[type(command)](step, command)
    return outcome


def _acquire(step: Step, command: c.Acquire) -> Outcome:
    def run() -> Outcome:
        if command.announcement_id:
            running.ask_with(step, command.ticket_class, command.announcement_id)
        return leases.grant(step, command.request.session, command.request.slot, command.classes)

    return requests.once_in_slot(step, command.request, None, run)


def _renew(step: Step, command: c.Renew) -> Outcome:
    return requests.once_in_slot(step, command.request, command.lease, lambda: leases.renew(step, command))


def _settle(step: Step, command: c.Settle) -> Outcome:
    return requests.once_in_slot(step, command.request, None, lambda: leases.settle(step, command))


def _expire(step: Step, command: c.ExpireLapsed) -> Expired:
    leases.expire_lapsed(step, command.limit)
    for record in step.state.classes.values():
        running.prune_tags(record)
    reported = tuple(step.state.lapsed[:REPORT_LIMIT])
    del step.state.lapsed[:REPORT_LIMIT]
    more = bool(step.state.lapsed) or any(lease.expires_ms <= step.now_ms for lease in step.state.leases.values())
    return Expired(reported, more)


def _wake(step: Step, command: c.WakeDue) -> Woken:
    woken = leases.wake_due(step, command.limit)
    return Woken(woken, any(due_ms <= step.now_ms for due_ms in step.state.waiting.values()))


def _claim(step: Step, command: c.ClaimAnnouncements) -> Announcements:
    order = _by_urgency(step, set(step.state.classes))
    running.top_up(step, order)
    claimed: list[tuple[str, str]] = []
    for class_id in order:
        record = step.state.classes[class_id]
        running.strike(step, record)
        free = sorted((claimed_ms, owed) for owed, claimed_ms in record.owed.items() if claimed_ms <= step.now_ms)
        for _, owed in free[: command.limit - len(claimed)]:
            record.owed[owed] = step.now_ms + step.config.claim_ms
            claimed.append((class_id, owed))
    return Announcements(tuple(claimed))


def _mark_published(step: Step, command: c.MarkPublished) -> Done:
    record = step.state.classes.get(command.class_id)
    if record is None:
        return Done()
    for announcement_id in command.announcement_ids:
        if record.owed.pop(announcement_id, None) is not None:
            record.published.add(announcement_id)
    return Done()


def _observe(step: Step, command: c.ObserveAttention) -> Observed:
    record = step.state.classes.get(command.class_id)
    if record is None:
        return Observed(0)
    if command.messages > 0 or record.owed or running.grantable(step, record) == 0:
        record.empty_since_ms = 0
    elif record.empty_since_ms == 0:
        record.empty_since_ms = step.now_ms
    elif step.now_ms - record.empty_since_ms >= step.config.look_ms:
        return _drop_published(step, command.class_id)
    return Observed(0)


def _drop_published(step: Step, class_id: str) -> Observed:
    record = step.state.classes[class_id]
    dropped = len(record.published)
    record.published.clear()
    record.empty_since_ms = 0
    step.upset.add(class_id)
    return Observed(dropped)


def _ping(step: Step, _: c.Ping) -> Pong:
    return Pong(step.now_ms, max(0, step.state.closed_until_ms - step.now_ms), step.state.generation)


def _once(run: Callable[[Step, Any], Outcome]) -> Callable[[Step, Any], Outcome]:
    """The command answered once for its `request`; a dry run is not remembered."""

    def wrapped(step: Step, command: Any) -> Outcome:
        request = None if getattr(command, "validate_only", False) else command.request
        return requests.once(step, request, lambda: run(step, command))

    return wrapped


_TABLE: dict[type, Callable[[Step, Any], Outcome]] = {
    c.Touch: policies.touch_queue,
    c.ClaimPublish: requests.claim_publish,
    c.ReleasePublish: requests.release_publish,
    c.ReadAnswer: requests.read_answer,
    c.Acquire: _acquire,
    c.Renew: _renew,
    c.Settle: _settle,
    c.GiveBack: leases.give_back,
    c.Revoke: _once(leases.revoke),
    c.Pause: _once(policies.pause),
    c.Resume: _once(policies.resume),
    c.CreateTenant: _once(policies.create_tenant),
    c.UpdateTenant: _once(policies.update_tenant),
    c.DeleteTenant: _once(policies.delete_tenant),
    c.CreateQueue: _once(policies.create_queue),
    c.UpdateQueue: _once(policies.update_queue),
    c.DeleteQueue: _once(policies.delete_queue),
    c.CreateClass: _once(policies.create_class),
    c.UpdateClass: _once(policies.update_class),
    c.DeleteClass: _once(policies.delete_class),
    c.GetTenant: reading.get_tenant,
    c.GetQueue: reading.get_queue,
    c.GetClass: reading.get_class,
    c.GetLease: reading.get_lease,
    c.ListTenants: reading.list_tenants,
    c.ListQueues: reading.list_queues,
    c.ListClasses: reading.list_classes,
    c.ListLeases: reading.list_leases,
    c.ExpireLapsed: _expire,
    c.WakeDue: _wake,
    c.ClaimAnnouncements: _claim,
    c.MarkPublished: _mark_published,
    c.ObserveAttention: _observe,
    c.ReadStats: lambda step, _: reading.read_stats(step),
    c.Ping: _ping,
}
