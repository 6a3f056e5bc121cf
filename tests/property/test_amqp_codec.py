"""Field tables, properties and confirms: round trips, and agreement with pamqp where pamqp is right."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pamqp import commands, decode, frame, header

from slicelease.worker.amqp import LongString, ProtocolViolation
from slicelease.worker.amqp.calls import PublishCall
from slicelease.worker.amqp.channel_state import ChannelState
from slicelease.worker.amqp.confirms import Confirms
from slicelease.worker.amqp.properties import Properties, decode_properties, encode_properties
from slicelease.worker.amqp.values import Value, decode_table, encode_table
from tests.unit.amqp.fake_broker import open_state

steady = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy with others

names = st.text(max_size=60).filter(lambda name: len(name.encode()) <= 128)
short_texts = st.text(max_size=60).filter(lambda text: len(text.encode()) <= 255)
moments = st.datetimes(datetime(1970, 1, 1), datetime(2106, 1, 1)).map(  # noqa: DTZ001  the zone follows
    lambda moment: moment.replace(microsecond=0, tzinfo=UTC)
)
scalars: st.SearchStrategy[Value] = (
    st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.none()
    | moments
    | st.binary(min_size=1).map(lambda raw: LongString(b"\xff" + raw))
    | st.builds(lambda digits, scale: Decimal(digits).scaleb(-scale), st.integers(-(1 << 31), (1 << 31) - 1), st.integers(0, 20))
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4), max_leaves=20
)
tables = st.dictionaries(names, values, max_size=6)


@steady
@given(tables)
def test_a_table_survives(table: dict[str, Value]) -> None:
    encoded = encode_table(table)
    assert decode_table(encoded) == (table, len(encoded))


def of_pamqp(value: object) -> object:
    """pamqp's view of a value: bytearrays are our bytes."""
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, dict):
        return {name: of_pamqp(item) for name, item in value.items()}
    return [of_pamqp(item) for item in value] if isinstance(value, list) else value


@steady
@given(tables)
def test_pamqp_reads_what_we_write(table: dict[str, Value]) -> None:
    used, read = decode.field_table(encode_table(table))
    assert of_pamqp(read) == table
    assert used == len(encode_table(table))


@steady
@given(tables, st.data())
def test_a_cut_table_is_refused(table: dict[str, Value], data: st.DataObject) -> None:
    encoded = encode_table(table)
    with pytest.raises(ValueError, match=r"cut short|over the end"):
        decode_table(encoded[: data.draw(st.integers(0, len(encoded) - 1))])


@steady
@given(st.binary(max_size=80))
def test_noise_is_a_table_or_a_value_error(noise: bytes) -> None:
    try:
        _, end = decode_table(noise)
    except ValueError:
        return
    assert end <= len(noise)


properties = st.builds(
    Properties,
    *[
        st.none() | {"headers": tables, "delivery_mode": st.sampled_from([1, 2]), "priority": st.integers(0, 255),
                     "timestamp": moments}.get(name, short_texts)
        for name in Properties._fields
    ],
)  # fmt: skip


@steady
@given(properties)
def test_properties_survive(wanted: Properties) -> None:
    assert decode_properties(encode_properties(wanted)) == wanted


@steady
@given(properties)
def test_pamqp_reads_our_properties(wanted: Properties) -> None:
    read = header.ContentHeader()
    read.unmarshal(b"\x00\x3c\x00\x00" + bytes(8) + encode_properties(wanted))
    for name, value in zip(Properties._fields, wanted, strict=True):
        got = getattr(read.properties, "message_type" if name == "type" else name)
        assert of_pamqp(got) == value or (name == "cluster_id" and value is None and got == "")


@steady
@given(st.text(max_size=50), st.integers(1, 65535), st.integers(1, (1 << 64) - 1), st.booleans(), st.booleans())
def test_pamqp_reads_our_frames(queue: str, channel_id: int, tag: int, flag: bool, other: bool) -> None:
    state, [channel], _ = open_state()
    channel.channel_id = channel_id
    for send, expected in (
        (lambda: channel.get(queue, 1), commands.Basic.Get),
        (lambda: channel.ack(tag, flag), commands.Basic.Ack),
        (lambda: channel.nack(tag, flag, other), commands.Basic.Nack),
        (lambda: channel.reject(tag, flag), commands.Basic.Reject),
    ):
        send()
        data = state.data_to_send()
        used, number, method = frame.unmarshal(data)
        assert (used, number, type(method)) == (len(data), channel_id, expected)
        assert isinstance(method, commands.Basic.Get | commands.Basic.Ack | commands.Basic.Nack | commands.Basic.Reject)
        fields = dict(method)
        assert fields.get("queue", queue) == queue
        assert fields.get("delivery_tag", tag) in (tag, tag - (1 << 64))  # pamqp reads tags as signed
        assert fields.get("multiple", flag) == flag
        assert fields.get("requeue", other if expected is commands.Basic.Nack else flag) == (
            other if expected is commands.Basic.Nack else flag
        )


@steady
@given(st.from_regex(r"[A-Za-z0-9._-]{1,100}", fullmatch=True), st.integers(1, 65535))
def test_a_look_is_a_passive_declare_to_pamqp(queue: str, channel_id: int) -> None:
    state, [channel], _ = open_state()
    channel.channel_id = channel_id
    channel.look(queue)
    data = state.data_to_send()
    used, number, method = frame.unmarshal(data)
    assert (used, number) == (len(data), channel_id)
    assert isinstance(method, commands.Queue.Declare)
    assert dict(method) == dict(commands.Queue.Declare(queue=queue, passive=True, arguments={}))


@steady
@given(st.integers(1, 12), st.lists(st.tuples(st.integers(0, 14), st.booleans(), st.booleans()), max_size=12))
def test_each_publish_is_confirmed_once_and_by_the_right_word(count: int, words: list[tuple[int, bool, bool]]) -> None:
    """Against a set of numbers as the model."""
    channel: ChannelState = open_state()[1][0]
    confirms, waiting = Confirms(), set(range(1, count + 1))
    for _ in range(count):
        confirms.add(PublishCall(channel, confirms.next_sequence(), "", "", b"", b""), mandatory=False)
    for tag, multiple, refused in words:
        meant = {number for number in waiting if number <= tag or tag == 0} if multiple else waiting & {tag}
        if not meant or (multiple and tag > count):
            with pytest.raises(ProtocolViolation):
                confirms.settle(tag, multiple=multiple, refused=refused)
            continue
        settled = confirms.settle(tag, multiple=multiple, refused=refused)
        assert [call.sequence for call in settled] == sorted(meant)
        assert all(call.done and (call.error is not None) is refused for call in settled)
        waiting -= meant
    assert {call.sequence for call in confirms.take_all()} == waiting
