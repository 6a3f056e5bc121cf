"""Resources: from protos to policies, checked, and from the ledger's views to protos.

May live here: pure conversion with the bounds that resources.proto promises. May not know: services, what exists.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from slicelease.control_plane.domain import names
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.outcomes import ClassView, LeaseView, QueueView, TenantView
from slicelease.control_plane.domain.policy import (
    DEFAULT_WEIGHT,
    MAX_WEIGHT,
    ClassPolicy,
    Ordering,
    QueuePolicy,
    QueueType,
    SliceTerms,
    TenantPolicy,
)
from slicelease.v1 import resources_pb2 as pb

from .checks import bounded, duration_ms, has_controls
from .status import invalid_field

_SECOND_MS, _HOUR_MS, _DAY_MS = 1_000, 3_600_000, 86_400_000
_MAX_DISPLAY_NAME = 200
MAX_CEILING = 1_000_000

TENANT_WRITABLE = ("display_name", "priority_class", "weight")
QUEUE_WRITABLE = ("priority_class", "ordering", "queue_type", "slice_limits", "retry_policy")
CLASS_WRITABLE = ("target_wait", "slice_limits", "retry_policy", "ordering", "queue_type", "max_leases")
TIMES = ("create_time", "update_time")
QUEUE_OUTPUT = (*TIMES, "amqp_queue", "state", "paused", "state_time", "due_time", "lease", "backlog_messages")


def duration(milliseconds: int) -> Duration:
    """A proto duration."""
    return Duration(seconds=milliseconds // 1_000, nanos=milliseconds % 1_000 * 1_000_000)


def timestamp(milliseconds: int) -> Timestamp:
    """A proto timestamp of the ledger's clock."""
    return Timestamp(seconds=milliseconds // 1_000, nanos=milliseconds % 1_000 * 1_000_000)


# ---- into the domain ----------------------------------------------------------------------------------------------------


def _class_id(field: str, value: str) -> str:
    return names.parse_class(field, value) if value else ""


def _enum(field: str, value: int, kind: Any) -> Any:
    try:
        return kind(value)
    except ValueError:
        raise invalid_field(field, f"no such value: {value}") from None


def _terms(given: Any, prefix: str) -> SliceTerms:
    limits, retry = given.slice_limits, given.retry_policy
    limit, tries = f"{prefix}.slice_limits", f"{prefix}.retry_policy"
    terms = SliceTerms(
        slice_messages=bounded(f"{limit}.max_messages", limits.max_messages, 1, 10_000),
        slice_ms=duration_ms(f"{limit}.max_duration", limits.max_duration, 10, 600 * _SECOND_MS),
        max_attempts=bounded(f"{tries}.max_attempts", retry.max_attempts, 1, 100),
        backoff_ms=duration_ms(f"{tries}.initial_backoff", retry.initial_backoff, 1, _HOUR_MS),
        backoff_cap_ms=duration_ms(f"{tries}.max_backoff", retry.max_backoff, 1, _DAY_MS),
        ordering=_enum(f"{prefix}.ordering", given.ordering, Ordering),
    )
    if 0 < terms.backoff_cap_ms < terms.backoff_ms:
        raise invalid_field(f"{tries}.max_backoff", "not below initial_backoff")
    return terms


def tenant_policy(given: pb.Tenant, default_class: str) -> TenantPolicy:
    """The policy of a tenant; raises CallError, InvalidNameError."""
    shown = given.display_name
    if len(shown) > _MAX_DISPLAY_NAME or has_controls(shown):
        raise invalid_field("tenant.display_name", f"at most {_MAX_DISPLAY_NAME} characters, no control characters")
    return TenantPolicy(
        priority_class=_class_id("tenant.priority_class", given.priority_class) or default_class,
        weight=bounded("tenant.weight", given.weight, 1, MAX_WEIGHT) or DEFAULT_WEIGHT,
        display_name=shown,
    )


def queue_policy(given: pb.Queue) -> QueuePolicy:
    """The policy of a queue; raises CallError, InvalidNameError."""
    return QueuePolicy(
        priority_class=_class_id("queue.priority_class", given.priority_class),
        queue_type=_enum("queue.queue_type", given.queue_type, QueueType),
        terms=_terms(given, "queue"),
    )


def class_policy(given: pb.PriorityClass) -> ClassPolicy:
    """The policy of a priority class; raises CallError."""
    target_ms = duration_ms("priority_class.target_wait", given.target_wait, 1, 7 * _DAY_MS)
    if not target_ms:
        raise invalid_field("priority_class.target_wait", "required, 1 ms to 7 days")
    return ClassPolicy(
        target_wait_ms=target_ms,
        terms=_terms(given, "priority_class"),
        queue_type=_enum("priority_class.queue_type", given.queue_type, QueueType) or QueueType.CLASSIC,
        max_leases=bounded("priority_class.max_leases", given.max_leases, 1, MAX_CEILING),
    )


# ---- onto the wire ------------------------------------------------------------------------------------------------------


def _show_terms(into: Any, terms: SliceTerms) -> None:
    """Sets what is not inherited; inherited fields stay absent."""
    into.ordering = int(terms.ordering)
    if terms.slice_messages:
        into.slice_limits.max_messages = terms.slice_messages
    if terms.slice_ms:
        into.slice_limits.max_duration.CopyFrom(duration(terms.slice_ms))
    if terms.max_attempts:
        into.retry_policy.max_attempts = terms.max_attempts
    if terms.backoff_ms:
        into.retry_policy.initial_backoff.CopyFrom(duration(terms.backoff_ms))
    if terms.backoff_cap_ms:
        into.retry_policy.max_backoff.CopyFrom(duration(terms.backoff_cap_ms))


def _show_record(into: Any, view: TenantView | QueueView | ClassView) -> None:
    into.etag = view.etag
    if view.created_ms:  # a dry run shows a resource that was never created
        into.create_time.CopyFrom(timestamp(view.created_ms))
        into.update_time.CopyFrom(timestamp(view.updated_ms))


def tenant(view: TenantView) -> pb.Tenant:
    """The resource of a tenant."""
    policy = view.policy
    shown = pb.Tenant(
        name=names.tenant_name(view.tenant),
        display_name=policy.display_name,
        priority_class=names.class_name(policy.priority_class),
        weight=policy.weight,
    )
    _show_record(shown, view)
    return shown


def queue(view: QueueView, backlog: int | None = None) -> pb.Queue:
    """The resource of a queue, with its backlog where that is known."""
    policy = view.policy
    shown = pb.Queue(
        name=names.queue_name(view.key),
        priority_class=names.class_name(policy.priority_class) if policy.priority_class else "",
        queue_type=pb.QueueType.ValueType(policy.queue_type),
        amqp_queue=names.amqp_queue(view.key),
        state=pb.QueueState.ValueType(view.state),
        paused=view.paused,
    )
    _show_terms(shown, policy.terms)
    _show_record(shown, view)
    if view.since_ms:
        shown.state_time.CopyFrom(timestamp(view.since_ms))
    if view.due_ms:
        shown.due_time.CopyFrom(timestamp(view.due_ms))
    if view.token:
        shown.lease = names.lease_name(names.LeaseKey(*view.key, view.token))
    if backlog is not None:
        shown.backlog_messages = backlog
    return shown


def priority_class(view: ClassView) -> pb.PriorityClass:
    """The resource of a priority class."""
    shown = pb.PriorityClass(
        name=names.class_name(view.class_id),
        target_wait=duration(view.policy.target_wait_ms),
        queue_type=pb.QueueType.ValueType(view.policy.queue_type),
        max_leases=view.policy.max_leases,
    )
    _show_terms(shown, view.policy.terms)
    _show_record(shown, view)
    return shown


def lease(view: LeaseView) -> pb.Lease:
    """The resource of a live lease."""
    key = view.lease
    return pb.Lease(
        name=names.lease_name(key),
        queue=names.queue_name(key.of_queue),
        amqp_queue=names.amqp_queue(QueueKey(key.tenant, key.queue)),
        priority_class=view.priority_class,
        fencing_token=key.token,
        session=view.session,
        grant_time=timestamp(view.granted_ms),
        expire_time=timestamp(view.expires_ms),
        waited=duration(view.waited_ms),
        revoked=view.revoked,
    )
