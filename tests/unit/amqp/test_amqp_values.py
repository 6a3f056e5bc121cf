"""Field tables and properties on their own, against bytes written by hand from the specification."""

import struct
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from slicelease.worker.amqp.properties import Properties, decode_properties, encode_properties
from slicelease.worker.amqp.values import MAX_DEPTH, LongString, Value, decode_table, encode_table


def table_of(field: bytes) -> bytes:
    payload = b"\x01k" + field
    return struct.pack(">I", len(payload)) + payload


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (b"t\x01", True),
        (b"t\x00", False),
        (b"b\xff", -1),
        (b"B\xff", 255),
        (b"s\xff\xfe", -2),
        (b"u\xff\xfe", 65534),
        (b"I\xff\xff\xff\xfe", -2),
        (b"i\xff\xff\xff\xfe", 4294967294),
        (b"l" + b"\xff" * 8, -1),
        (b"f" + struct.pack(">f", 1.5), 1.5),
        (b"d" + struct.pack(">d", 0.1), 0.1),
        (b"D\x02\x00\x00\x01\x3a", Decimal("3.14")),
        (b"D\x00\xff\xff\xff\xff", Decimal(-1)),
        (b"S\x00\x00\x00\x03" + "é!".encode(), "é!"),
        (b"S\x00\x00\x00\x01\xff", LongString(b"\xff")),
        (b"x\x00\x00\x00\x02\x00\xff", b"\x00\xff"),
        (b"V", None),
        (b"T\x00\x00\x00\x00\x65\x53\xf1\x00", datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)),
        (b"T\x00\x00\x01\x8b\xcf\xe5\x68\x00", 1_700_000_000_000),
        (b"A\x00\x00\x00\x04t\x01b\x05", [True, 5]),
        (b"F\x00\x00\x00\x04\x01at\x01", {"a": True}),
    ],
)
def test_every_type_of_rabbitmq_is_read(field: bytes, value: Value) -> None:
    table, end = decode_table(table_of(field))
    assert table == {"k": value}
    assert type(table["k"]) is type(value)
    assert end == len(table_of(field))


def test_every_value_goes_out_as_the_type_that_keeps_it() -> None:
    values: dict[str, Value] = {
        "t": True, "I": 7, "l": 1 << 40, "d": 0.1, "S": "x", "x": b"y", "V": None, "D": Decimal("-1.5"),
        "T": datetime(2020, 1, 1, tzinfo=UTC), "A": [1, "a", [None]], "F": {"in": {"side": 1}},
    }  # fmt: skip
    for kind, value in values.items():
        encoded = encode_table({"k": value})
        assert chr(encoded[6]) == kind
        assert decode_table(encoded)[0] == {"k": value}
    assert encode_table({"k": LongString(b"\xff")})[6:7] == b"S"


def test_a_timestamp_of_another_zone_is_the_same_moment() -> None:
    moment = datetime(2020, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert decode_table(encode_table({"k": moment}))[0]["k"] == moment


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1 << 63, "beyond 64 bits"),
        (object(), "object"),
        (datetime(2020, 1, 1), "time zone"),  # noqa: DTZ001  the fault under test
        (datetime(1969, 1, 1, tzinfo=UTC), "before 1970"),
        (Decimal("NaN"), "finite"),
        (Decimal(1 << 40), "32 bits"),
        ({"deep": [1 << 63]}, "'deep'"),
        ({"x" * 256: 1}, "255 bytes"),
    ],
)
def test_what_cannot_be_sent_is_refused_by_name(value: Value, text: str) -> None:
    with pytest.raises((ValueError, TypeError), match="field 'k'") as caught:
        encode_table({"k": value})
    assert text in str(caught.value)


@pytest.mark.parametrize("kind", [list, dict])
def test_nesting_is_bounded_both_ways(kind: type) -> None:
    value: Value = 1
    for _ in range(MAX_DEPTH + 2):
        value = [value] if kind is list else {"k": value}
    with pytest.raises(ValueError, match="deeper"):
        encode_table({"k": value})
    raw = b"t\x01"
    for _ in range(2000):
        payload = raw if kind is list else b"\x01k" + raw
        raw = (b"A" if kind is list else b"F") + struct.pack(">I", len(payload)) + payload
    with pytest.raises(ValueError, match="deeper"):
        decode_table(table_of(raw))


@pytest.mark.parametrize(
    "field", [b"Z", b"L" + bytes(8), b"I\x00", b"S\x00\x00\x00\x09ab", b"T\x00", b"D\x00", b"A\x00\x00\x00\xff"]
)
def test_torn_or_unknown_fields_are_refused(field: bytes) -> None:
    with pytest.raises(ValueError, match=r"cut short|over the end|unknown"):
        decode_table(table_of(field))


def test_a_name_that_is_not_utf8_is_shown_escaped() -> None:
    assert decode_table(b"\x00\x00\x00\x04\x02\xffkV")[0] == {"\\xffk": None}


FULL = Properties(
    content_type="application/json",
    content_encoding="gzip",
    headers={"a": 1},
    delivery_mode=2,
    priority=9,
    correlation_id="c",
    reply_to="r",
    expiration="60000",
    message_id="m",
    timestamp=datetime(2024, 2, 29, tzinfo=UTC),
    type="t",
    user_id="guest",
    app_id="app",
    cluster_id="cluster",
)


def test_every_property_survives_alone_and_with_all_others() -> None:
    assert decode_properties(encode_properties(FULL)) == FULL
    for name in Properties._fields:
        alone = Properties(**{name: getattr(FULL, name)})
        assert decode_properties(encode_properties(alone)) == alone


def test_every_cut_of_properties_is_refused() -> None:
    encoded = encode_properties(FULL)
    for length in range(len(encoded)):
        with pytest.raises(ValueError, match=r"cut short|over the end|followed"):
            decode_properties(encoded[:length])
    with pytest.raises(ValueError, match="followed"):
        decode_properties(encoded + b"\x00")
    with pytest.raises(ValueError, match="unknown"):
        decode_properties(b"\x00\x01\x00\x00")


@pytest.mark.parametrize(
    "wrong", [{"content_type": "x" * 256}, {"delivery_mode": 256}, {"priority": "high"}, {"headers": 5}, {"timestamp": -1}]
)
def test_a_bad_property_is_refused_by_name(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=f"property {next(iter(wrong))}"):
        encode_properties(Properties(**wrong))  # type: ignore[arg-type]
