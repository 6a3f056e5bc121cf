"""Resources and work: bounds, and that what goes in comes out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from google.protobuf.duration_pb2 import Duration

from slicelease.control_plane.domain.names import InvalidNameError, QueueKey
from slicelease.control_plane.domain.outcomes import ClassView, QueueState, QueueView, TenantView
from slicelease.control_plane.domain.policy import ClassPolicy, Ordering, QueuePolicy, QueueType, SliceTerms, TenantPolicy
from slicelease.control_plane.rpc import convert
from slicelease.control_plane.rpc.status import CallError, Reason
from slicelease.control_plane.rpc.work_convert import MAX_HEADERS_BYTES, MAX_PAYLOAD_BYTES, read_publish
from slicelease.v1 import resources_pb2 as pb
from slicelease.v1 import work_service_pb2 as work

TERMS = SliceTerms(7, 1_500, 3, 250, 90_000, Ordering.NONE)


@pytest.mark.parametrize("policy", [TenantPolicy("bulk", 250, "Größe　AG"), TenantPolicy("standard")])
def test_a_tenant_comes_out_as_it_went_in(policy: TenantPolicy) -> None:
    shown = convert.tenant(TenantView("acme", policy, "3", 1_700_000_000_123, 1_700_000_000_456))
    assert convert.tenant_policy(shown, "other") == policy
    assert (shown.name, shown.etag, shown.create_time.nanos) == ("tenants/acme", "3", 123_000_000)


@pytest.mark.parametrize("policy", [QueuePolicy("bulk", QueueType.QUORUM, TERMS), QueuePolicy("", QueueType.CLASSIC)])
def test_a_queue_comes_out_as_it_went_in(policy: QueuePolicy) -> None:
    view = QueueView(QueueKey("acme", "mail"), policy, "bulk", QueueState.LEASED, True, 5_000, 0, 17, "3", 1, 2)
    shown = convert.queue(view, 12)
    assert convert.queue_policy(shown) == policy
    assert shown.lease == "tenants/acme/queues/mail/leases/17"
    assert (shown.amqp_queue, shown.backlog_messages, shown.paused) == ("work.acme.mail", 12, True)
    assert not shown.HasField("due_time")
    assert not convert.queue(view).HasField("backlog_messages")


@pytest.mark.parametrize("policy", [ClassPolicy(1_500, TERMS, QueueType.QUORUM, 9), ClassPolicy(1, SliceTerms())])
def test_a_class_comes_out_as_it_went_in(policy: ClassPolicy) -> None:
    assert convert.class_policy(convert.priority_class(ClassView("bulk", policy, "3", 1, 2))) == policy


def terms(**fields: object) -> Callable[[], object]:
    return lambda: convert.queue_policy(pb.Queue(**fields))  # type: ignore[arg-type]  # tests name fields freely


OUT_OF_BOUNDS = [
    (terms(slice_limits=pb.SliceLimits(max_messages=10_001)), "queue.slice_limits.max_messages"),
    (terms(slice_limits=pb.SliceLimits(max_duration=Duration(nanos=9_000_000))), "queue.slice_limits.max_duration"),
    (terms(slice_limits=pb.SliceLimits(max_duration=Duration(seconds=601))), "queue.slice_limits.max_duration"),
    (terms(slice_limits=pb.SliceLimits(max_duration=Duration(seconds=-1))), "queue.slice_limits.max_duration"),
    (terms(slice_limits=pb.SliceLimits(max_duration=Duration(seconds=1, nanos=-5))), "queue.slice_limits.max_duration"),
    (terms(slice_limits=pb.SliceLimits(max_duration=Duration(seconds=2**62))), "queue.slice_limits.max_duration"),
    (terms(retry_policy=pb.RetryPolicy(max_attempts=101)), "queue.retry_policy.max_attempts"),
    (terms(retry_policy=pb.RetryPolicy(initial_backoff=Duration(nanos=999_999))), "queue.retry_policy.initial_backoff"),
    (terms(retry_policy=pb.RetryPolicy(max_backoff=Duration(seconds=86_401))), "queue.retry_policy.max_backoff"),
    (
        terms(retry_policy=pb.RetryPolicy(initial_backoff=Duration(seconds=5), max_backoff=Duration(seconds=4))),
        "queue.retry_policy.max_backoff",
    ),
    (terms(ordering=9), "queue.ordering"),
    (terms(queue_type=9), "queue.queue_type"),
    (lambda: convert.tenant_policy(pb.Tenant(weight=1_001), "s"), "tenant.weight"),
    (lambda: convert.tenant_policy(pb.Tenant(display_name="x" * 201), "s"), "tenant.display_name"),
    (lambda: convert.tenant_policy(pb.Tenant(display_name="a\x1bb"), "s"), "tenant.display_name"),
    (lambda: convert.class_policy(pb.PriorityClass()), "priority_class.target_wait"),
    (lambda: convert.class_policy(pb.PriorityClass(target_wait=Duration(seconds=7 * 86_400 + 1))), "priority_class.target_wait"),
    (
        lambda: convert.class_policy(pb.PriorityClass(target_wait=Duration(seconds=1), max_leases=2**31)),
        "priority_class.max_leases",
    ),
]


@pytest.mark.parametrize(("read", "field"), OUT_OF_BOUNDS)
def test_a_value_out_of_bounds_is_refused_by_its_path(read: Callable[[], object], field: str) -> None:
    with pytest.raises(CallError) as caught:
        read()
    assert caught.value.fault.reason is Reason.INVALID_FIELD
    assert caught.value.fault.metadata == {"field": field}


def test_bounds_themselves_are_accepted() -> None:
    limits = pb.SliceLimits(max_messages=10_000, max_duration=Duration(seconds=600))
    retry = pb.RetryPolicy(max_attempts=100, initial_backoff=Duration(nanos=1_000_000), max_backoff=Duration(seconds=86_400))
    accepted = convert.queue_policy(pb.Queue(slice_limits=limits, retry_policy=retry)).terms
    assert accepted == SliceTerms(10_000, 600_000, 100, 1, 86_400_000)


# ---- work ---------------------------------------------------------------------------------------------------------------


def publish(**fields: object) -> work.PublishWorkRequest:
    return work.PublishWorkRequest(**({"queue": "tenants/acme"} | fields))  # type: ignore[arg-type]  # as above


@pytest.mark.parametrize("name", ["CC", "cc", "Bcc", " BCC ", "x-slicelease-tenant", "X-SliceLease-Reason", "", "a\0", "b" * 256])
def test_a_header_that_would_reroute_or_pose_as_ours_is_refused(name: str) -> None:
    """S03."""
    with pytest.raises(CallError) as caught:
        read_publish(publish(headers={name: "work.victim"}))
    assert caught.value.fault.reason is Reason.HEADER_REFUSED


def test_other_headers_pass_untouched() -> None:
    headers = {"x-tenant": "a\nb", "CCC": "", "é" * 127: "v"}
    assert read_publish(publish(headers=headers)).message.headers == headers


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"payload": b"x" * (MAX_PAYLOAD_BYTES + 1)}, "payload"),
        ({"message_id": "é" * 128}, "message_id"),
        ({"message_id": "a\nb"}, "message_id"),
        ({"correlation_id": "a\0"}, "correlation_id"),
        ({"type": "x" * 256}, "type"),
        ({"content_type": "\x7f"}, "content_type"),
        ({"headers": {str(n): "" for n in range(101)}}, "headers"),
        ({"headers": {"h": "x" * MAX_HEADERS_BYTES}}, "headers"),
        ({"request_id": "x" * 129}, "request_id"),
        ({"request_id": "a\tb"}, "request_id"),
    ],
)
def test_a_message_out_of_bounds_is_refused_by_its_field(fields: dict[str, object], field: str) -> None:
    with pytest.raises(CallError) as caught:
        read_publish(publish(**fields))
    assert caught.value.fault.metadata == {"field": field}


def test_ids_are_made_where_none_are_given_and_kept_where_they_are() -> None:
    made, other = read_publish(publish()).message, read_publish(publish()).message
    assert len({made.message_id, made.correlation_id, other.message_id, other.correlation_id}) == 4
    kept = read_publish(publish(message_id="m é", correlation_id="c")).message
    assert (kept.message_id, kept.correlation_id) == ("m é", "c")


def test_a_tenant_alone_means_its_default_queue() -> None:
    assert read_publish(publish()).key == QueueKey("acme", "default")
    assert read_publish(publish(queue="tenants/acme/queues/mail")).key == QueueKey("acme", "mail")
    with pytest.raises(InvalidNameError):
        read_publish(publish(queue="acme"))


def test_the_digest_is_of_the_content_and_nothing_else() -> None:
    same = [read_publish(publish(request_id="r", headers=h)) for h in ({"a": "1", "b": "2"}, {"b": "2", "a": "1"})]
    assert same[0].request == same[1].request
    assert read_publish(publish(request_id="r", payload=b"x")).request != same[0].request
