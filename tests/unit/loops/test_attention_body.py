"""The body of attention messages: one reading for every publisher, and an end to every bad one."""

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from slicelease.control_plane.domain.names import QueueKey, is_id
from slicelease.control_plane.loops.attention_body import (
    MAX_BODY_BYTES,
    Attention,
    AttentionError,
    AttentionFault,
    parse_attention,
    ticket_body,
)
from slicelease.v1 import attention_pb2

IDS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", fullmatch=True)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def fault_of(body: bytes) -> AttentionFault:
    with pytest.raises(AttentionError) as told:
        parse_attention(body)
    return told.value.fault


@given(st.binary(max_size=MAX_BODY_BYTES + 10))
def test_any_bytes_are_an_attention_or_a_fault(body: bytes) -> None:
    try:
        attention = parse_attention(body)
    except AttentionError:
        return
    assert is_id(attention.key.tenant)
    assert is_id(attention.key.queue)


@given(st.fixed_dictionaries({}, optional={"tenant": JSON | IDS, "queue": JSON | IDS, "correlation_id": JSON, "x": JSON}))
def test_any_object_is_an_attention_exactly_when_its_ids_are(fields: dict[str, object]) -> None:
    body = json.dumps(fields).encode()
    tenant, queue = fields.get("tenant"), fields.get("queue")
    queue = "default" if queue is None or queue == "" else queue
    good = isinstance(tenant, str) and is_id(tenant) and isinstance(queue, str) and is_id(queue)
    if len(body) <= MAX_BODY_BYTES and good:
        assert parse_attention(body).key == (tenant, queue)
    else:
        assert isinstance(fault_of(body), AttentionFault)


@given(IDS, IDS, st.text(max_size=40), st.booleans())
def test_the_protobuf_json_form_is_read_in_both_spellings(tenant: str, queue: str, correlation: str, snake: bool) -> None:
    message = attention_pb2.Attention(tenant=tenant, queue=queue, correlation_id=correlation)
    message.created_at.FromJsonString("2024-05-06T07:08:09Z")
    text = json_format.MessageToJson(message, preserving_proto_field_name=snake)
    assert parse_attention(text.encode()) == Attention(QueueKey(tenant, queue), correlation)


@pytest.mark.parametrize("queue", ["", ', "queue": null', ', "queue": ""'])
def test_without_a_queue_it_is_the_default_one(queue: str) -> None:
    assert parse_attention(f'{{"tenant": "acme"{queue}}}'.encode()).key == QueueKey("acme", "default")


@pytest.mark.parametrize(
    "value",
    ["acme\n", "acme\0", "amq.acme", "", "a" * 255, "é" * 128, "../acme", " acme", "acme/x", "-acme", "\ud800", "a" * 64, "*"],
)
def test_there_is_one_rule_for_ids(value: str) -> None:
    """S01. The queue may be empty, for then it is absent."""
    assert fault_of(json.dumps({"tenant": value}).encode()) is AttentionFault.INVALID_NAME
    if value:
        assert fault_of(json.dumps({"tenant": "acme", "queue": value}).encode()) is AttentionFault.INVALID_NAME


def test_ids_differ_by_case() -> None:
    """S01."""
    upper, lower = (parse_attention(json.dumps({"tenant": t}).encode()).key for t in ("A", "a"))
    assert upper != lower


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"acme",
        b"null",
        b"[]",
        b'"acme"',
        b"{}",
        b'{"tenant": null}',
        b'{"tenant": 1}',
        b'{"tenant": "acme", "queue": 0}',
        b'{"tenant": "acme", "queue": false}',
        b'{"tenant": "acme"',
        b'{"tenant": "acme"} {}',
        b'\xff{"tenant": "acme"}',
        '{"tenant": "acme"}'.encode("utf-16"),
        b'\xef\xbb\xbf{"tenant": "acme"}',
        b'{"tenant": "acme", "n": ' + b"9" * 5_000 + b"}",
    ],
)
def test_what_is_no_attention_is_malformed(body: bytes) -> None:
    """A05, last clause."""
    assert fault_of(body) is AttentionFault.MALFORMED


@pytest.mark.parametrize(("opens", "closes"), [("[", "]"), ('{"a":', "}")])
def test_depth_is_no_danger(opens: str, closes: str) -> None:
    """S07: thousands of nested values, within the length and beyond it."""
    nested = '{"tenant": "acme", "x": ' + opens * 1_200 + "1" + closes * 1_200 + "}"
    assert fault_of(nested.encode()) is AttentionFault.MALFORMED
    assert fault_of(b'{"a":' * 5_000) is AttentionFault.TOO_LARGE


def test_a_few_levels_are_nobodys_fault() -> None:
    nested = '{"tenant": "acme", "x": ' + "[" * 20 + "]" * 20 + "}"
    assert parse_attention(nested.encode()).key.tenant == "acme"


def test_the_length_is_looked_at_first() -> None:
    good = b'{"tenant": "acme"}'
    assert parse_attention(good + b" " * (MAX_BODY_BYTES - len(good))).key.tenant == "acme"
    assert fault_of(good + b" " * (MAX_BODY_BYTES - len(good) + 1)) is AttentionFault.TOO_LARGE
    assert fault_of(b"x" * 10_000_000) is AttentionFault.TOO_LARGE


@pytest.mark.parametrize("correlation", [1, ["x"], "x" * 256, None])
def test_an_unusable_correlation_id_prevents_no_turn(correlation: object) -> None:
    body = json.dumps({"tenant": "acme", "correlation_id": correlation}).encode()
    assert parse_attention(body) == Attention(QueueKey("acme", "default"), "")


@given(st.text(alphabet="abc123-", min_size=1), st.datetimes(min_value=datetime(2000, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001 hypothesis wants naive bounds
def test_a_ticket_is_an_attention_in_protobuf_json(announcement_id: str, created_at: datetime) -> None:
    ticket = json_format.Parse(ticket_body(announcement_id, created_at), attention_pb2.Attention())
    assert (ticket.tenant, ticket.queue, ticket.announcement_id) == ("", "", announcement_id)
    age = created_at - ticket.created_at.ToDatetime(tzinfo=UTC)
    assert timedelta(0) <= age < timedelta(milliseconds=1)


def test_a_ticket_is_stamped_in_utc() -> None:
    stamped = ticket_body("a-1", datetime(2024, 5, 6, 9, 8, 9, tzinfo=timezone(timedelta(hours=2))))
    assert json.loads(stamped) == {"announcement_id": "a-1", "created_at": "2024-05-06T07:08:09.000Z"}
