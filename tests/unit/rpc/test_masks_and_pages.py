"""Update masks and page tokens."""

from __future__ import annotations

import base64

import pytest
from google.protobuf.duration_pb2 import Duration

from slicelease.control_plane.rpc.checks import page_size
from slicelease.control_plane.rpc.convert import QUEUE_OUTPUT, QUEUE_WRITABLE
from slicelease.control_plane.rpc.masks import merged
from slicelease.control_plane.rpc.paging import after_token, page_token
from slicelease.control_plane.rpc.status import CallError
from slicelease.v1 import resources_pb2 as pb


def queue(**fields: object) -> pb.Queue:
    return pb.Queue(**fields)  # type: ignore[arg-type]  # tests name fields freely


CURRENT = queue(
    name="tenants/a/queues/b",
    priority_class="priorityClasses/bulk",
    ordering=pb.ORDERING_NONE,
    slice_limits=pb.SliceLimits(max_messages=7, max_duration=Duration(seconds=9)),
    state=pb.QUEUE_STATE_READY,
    etag="4",
)


def merge(given: pb.Queue, *mask: str) -> pb.Queue:
    return merged(CURRENT, given, mask, QUEUE_WRITABLE, QUEUE_OUTPUT)


def test_an_absent_mask_takes_every_field_that_is_set_to_its_leaves() -> None:
    given = queue(name="tenants/a/queues/b", slice_limits=pb.SliceLimits(max_messages=3), state=pb.QUEUE_STATE_IDLE, etag="1")
    result = merge(given)
    assert result.slice_limits.max_messages == 3
    assert result.slice_limits.max_duration.seconds == 9
    assert result.priority_class == "priorityClasses/bulk"
    assert result.state == pb.QUEUE_STATE_READY


def test_a_masked_field_that_is_absent_is_reset() -> None:
    assert merge(queue(), "priority_class").priority_class == ""
    assert not merge(queue(), "slice_limits").HasField("slice_limits")
    assert not merge(queue(), "slice_limits.max_duration").slice_limits.HasField("max_duration")
    assert merge(queue(), "slice_limits.max_duration").slice_limits.max_messages == 7


def test_a_nested_path_takes_that_leaf_only() -> None:
    given = queue(slice_limits=pb.SliceLimits(max_messages=3, max_duration=Duration(seconds=1)))
    result = merge(given, "slice_limits.max_messages")
    assert (result.slice_limits.max_messages, result.slice_limits.max_duration.seconds) == (3, 9)


def test_a_star_takes_all() -> None:
    result = merge(queue(ordering=pb.ORDERING_STRICT), "*")
    assert result.ordering == pb.ORDERING_STRICT
    assert not result.HasField("slice_limits")
    assert result.priority_class == ""


def test_output_only_fields_and_identity_are_ignored() -> None:
    assert merge(queue(state=pb.QUEUE_STATE_IDLE, etag="9"), "state", "name", "etag", "create_time") == CURRENT


@pytest.mark.parametrize(
    "path", ["nonsense", "slice_limits.nonsense", "slice_limits.max_messages.x", "priority_class.x", "", ".", "Ordering", "a\nb"]
)
def test_a_path_that_is_no_field_is_an_error(path: str) -> None:
    with pytest.raises(CallError) as caught:
        merge(queue(), path)
    assert caught.value.fault.metadata == {"field": "update_mask"}


def test_a_star_stands_alone() -> None:
    with pytest.raises(CallError):
        merge(queue(), "*", "ordering")


def test_a_token_continues_its_own_list_only() -> None:
    token = page_token("queues:acme", "acme/mail")
    assert after_token("queues:acme", token) == "acme/mail"
    assert after_token("queues:acme", "") == ""
    assert page_token("queues:acme", "") == ""
    for other in ("queues:acm", "tenants"):
        with pytest.raises(CallError):
            after_token(other, token)


@pytest.mark.parametrize("token", ["x", "é", "====", base64.urlsafe_b64encode(b"\xff\xfe").decode(), "a" * 10_000, "\0"])
def test_a_token_that_is_none_is_an_error(token: str) -> None:
    with pytest.raises(CallError) as caught:
        after_token("tenants", token)
    assert caught.value.fault.metadata == {"field": "page_token"}


def test_the_size_of_a_page_is_bounded() -> None:
    assert [page_size(size) for size in (0, 1, 1_000, 1_001, 2**31 - 1)] == [100, 1, 1_000, 1_000, 1_000]
    with pytest.raises(CallError):
        page_size(-1)
