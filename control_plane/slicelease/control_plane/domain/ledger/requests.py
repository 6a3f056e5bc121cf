"""Repeated requests: the same bytes get the same answer, other content under the same id is refused.

May live here: stored answers and their replay. May not know: what the requests do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from slicelease.control_plane.domain.commands import ClaimPublish, ReadAnswer, ReleasePublish, RequestKey, SlotRequest
from slicelease.control_plane.domain.names import LeaseKey
from slicelease.control_plane.domain.outcomes import (
    Done,
    Granted,
    Outcome,
    PublishClaim,
    RefusalReason,
    Refused,
    Renewed,
    Settled,
)

from .leases import carry, lease_over
from .state import RequestRecord, SlotRecord, Step


def once_in_slot(step: Step, request: SlotRequest, lease: LeaseKey | None, run: Callable[[], Outcome]) -> Outcome:
    """Runs a lease call unless the slot's last answer is to this request or a later one.

    `lease` is the one that the call names, if any. Refusals are not stored: they change nothing and would be the same again.
    """
    place = request.session, request.slot
    record = step.state.slots.get(place)
    if record is not None and record.until_ms > step.now_ms:
        request_id = f"{request.session}/{request.slot}/{request.n}"
        if request.n < record.n:
            return Refused(RefusalReason.REQUEST_SUPERSEDED, request_id)
        if request.n == record.n and request.digest != record.digest:
            return Refused(RefusalReason.REQUEST_ID_REUSED, request_id)
        if request.n == record.n:
            return _replay(step, record, lease)
    answer = run()
    if not isinstance(answer, Refused):
        until_ms = step.now_ms + step.config.request_ttl_ms
        step.state.slots[place] = SlotRecord(request.n, request.digest, answer, until_ms)
    return answer


def _replay(step: Step, record: SlotRecord, lease: LeaseKey | None) -> Outcome:
    """The stored answer with the validity that remains: never an ended lease."""
    match record.answer:
        case Granted() as granted:
            held = step.live(granted.lease)
            return carry(step, held) if held is not None else lease_over(granted.lease)
        case Renewed() as renewed if lease is not None:
            held = step.live(lease)
            if held is None:
                return lease_over(lease)
            return replace(renewed, valid_ms=held.expires_ms - step.now_ms)
        case Settled(next=Granted() as following) as settled:
            held = step.live(following.lease)
            return replace(settled, next=carry(step, held) if held is not None else None)
        case answer:
            return answer


def once(step: Step, request: RequestKey | None, run: Callable[[], Outcome]) -> Outcome:
    """Runs any other idempotent call unless its request_id was answered within the time that answers are kept."""
    if request is None:
        return run()
    kept = _answer_of(step, request)
    if kept is not None:
        return kept
    answer = run()
    if not isinstance(answer, Refused):
        until_ms = step.now_ms + step.config.request_ttl_ms
        step.state.requests[request.request_id] = RequestRecord(request.digest, until_ms, answer)
    return answer


def read_answer(step: Step, command: ReadAnswer) -> Outcome:
    """The stored answer of any other idempotent call."""
    return _answer_of(step, command.request) or Done()


def _answer_of(step: Step, request: RequestKey) -> Outcome | None:
    record = _kept(step, request.request_id)
    if record is None:
        return None
    if record.digest != request.digest or record.answer is None:
        return Refused(RefusalReason.REQUEST_ID_REUSED, request.request_id)
    return record.answer


def _kept(step: Step, request_id: str) -> RequestRecord | None:
    record = step.state.requests.get(request_id)
    return record if record is not None and record.until_ms > step.now_ms else None


def claim_publish(step: Step, command: ClaimPublish) -> PublishClaim | Refused:
    """The claim of a publish: new, taken over from a claimant that is gone, or already done."""
    request, now_ms = command.request, step.now_ms
    record = _kept(step, request.request_id)
    if record is None:
        record = RequestRecord(request.digest, 0, message_id=command.message_id, correlation_id=command.correlation_id)
        step.state.requests[request.request_id] = record
    elif record.digest != request.digest or record.answer is not None:
        return Refused(RefusalReason.REQUEST_ID_REUSED, request.request_id)
    elif not record.done and record.claimed_ms > now_ms:
        return Refused(RefusalReason.REQUEST_IN_PROGRESS, request.request_id, record.claimed_ms - now_ms)
    if not record.done:
        record.claimed_ms = now_ms + step.config.claim_ms
        record.until_ms = now_ms + step.config.request_ttl_ms
    return PublishClaim(record.message_id, record.correlation_id, record.done)


def finish_publish(step: Step, request: RequestKey) -> None:
    """The claimed publish is made and recorded."""
    record = _kept(step, request.request_id)
    if record is not None and record.digest == request.digest:
        record.done, record.claimed_ms = True, 0


def release_publish(step: Step, command: ReleasePublish) -> Done:
    """The claim is free again."""
    record = _kept(step, command.request.request_id)
    if record is not None and record.digest == command.request.digest and not record.done:
        record.claimed_ms = 0
    return Done()


def forget_old(step: Step) -> None:
    """Drops answers whose time is over: what a store does by TTL."""
    state, now_ms = step.state, step.now_ms
    for place in [place for place, record in state.slots.items() if record.until_ms <= now_ms]:
        del state.slots[place]
    for request_id in [request_id for request_id, record in state.requests.items() if record.until_ms <= now_ms]:
        del state.requests[request_id]
