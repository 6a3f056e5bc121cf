"""The connection without I/O: handshake, violations, closing from both sides, numbers of channels."""

import struct

import pytest
from pamqp import body, commands, frame, header, heartbeat

from slicelease.worker.amqp import (
    AmqpError,
    ConnectionClosed,
    ConnectionLost,
    LoginRefused,
    Message,
    ProtocolViolation,
    TooManyChannels,
)
from slicelease.worker.amqp.calls import GetCall
from slicelease.worker.amqp.channel_phase import CHANNEL_TRANSITIONS, ChannelPhase
from slicelease.worker.amqp.connection import ConnectionState
from slicelease.worker.amqp.connection_phase import TRANSITIONS, Phase
from slicelease.worker.amqp.events import Blocked, ChannelGone, ConnectionGone, ConsumerGone, Opened, Unblocked
from slicelease.worker.amqp.handshake import Handshake
from tests.unit.amqp.fake_broker import HANDSHAKE, FakeBroker, content, open_state, start, talk, wire


def closes_sent(data: bytes) -> list[int]:
    """The reply codes of the connection.close frames in what a client sent."""
    codes = []
    while data:
        used, _, part = frame.unmarshal(data)
        data = data[used:]
        if isinstance(part, commands.Connection.Close):
            codes.append(part.reply_code or 0)
    return codes


def gone(state: ConnectionState) -> AmqpError:
    last = state.take_events()[-1]
    assert isinstance(last, ConnectionGone)
    return last.error


def test_the_handshake_introduces_us_and_agrees_on_the_smaller_limits() -> None:
    broker = FakeBroker(frame_max=8192, heartbeat_s=3)
    state = ConnectionState(Handshake(user="u", password="p", vhost="v", name="worker-1", heartbeat_s=5))
    state.start()
    talk(state, broker)
    assert [type(event) for event in state.take_events()] == [Opened]
    assert (state.phase, state.frame_max, state.channel_max, state.heartbeat_s) == (Phase.OPEN, 8192, 2047, 3)
    [start_ok] = broker.methods(commands.Connection.StartOk)
    assert (start_ok["response"], start_ok["mechanism"]) == ("\0u\0p", "PLAIN")
    properties = start_ok["client_properties"]
    assert isinstance(properties, dict)
    assert properties["connection_name"] == "worker-1"
    assert properties["capabilities"] == dict.fromkeys(
        ("publisher_confirms", "basic.nack", "consumer_cancel_notify", "connection.blocked", "authentication_failure_close"),
        True,
    )
    [tune_ok] = broker.methods(commands.Connection.TuneOk)
    assert (tune_ok["channel_max"], tune_ok["frame_max"], tune_ok["heartbeat"]) == (2047, 8192, 3)
    assert broker.methods(commands.Connection.Open)[0]["virtual_host"] == "v"


def test_a_refused_login_says_so_without_the_password() -> None:
    state = ConnectionState(Handshake(user="guest", password="s3cret-word"))
    state.start()
    state.receive_data(wire(0, start()))
    state.receive_data(wire(0, commands.Connection.Close(403, "ACCESS_REFUSED - Login was refused", 0, 0)))
    error = gone(state)
    assert isinstance(error, LoginRefused)
    assert b"s3cret" in state.data_to_send()  # so that the next line looks for what could be there
    assert "s3cret" not in repr(error) + str(state.__dict__)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"AMQP\x00\x01\x00\x00", 503),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", 501),
        (wire(0, commands.Connection.Tune(1, 4096, 0)), 503),
        (wire(0, commands.Connection.OpenOk()), 503),
        (wire(0, commands.Connection.Start(0, 9, {}, "EXTERNAL", "en_US")), 503),
        (wire(0, start(), commands.Connection.Tune(0, 100, 0)), 502),
        (wire(1, commands.Channel.OpenOk()), 504),
    ],
)
def test_a_server_that_greets_wrongly_is_refused(answer: bytes, code: int) -> None:
    state = ConnectionState(HANDSHAKE)
    state.start()
    state.receive_data(answer)
    error = gone(state)
    assert isinstance(error, ProtocolViolation)
    assert error.code == code


UNKNOWN_METHOD = struct.pack(">BHIHHB", 1, 1, 4, 60, 999, 0xCE)
GET_OK = commands.Basic.GetOk(1, False, "", "q", 0)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(struct.pack(">BHI", 9, 1, 0), 501, id="unknown frame type, before its payload came"),
        pytest.param(struct.pack(">BHIB", 4, 1, 0, 0xCE), 501, id="unknown frame type on a channel"),
        pytest.param(struct.pack(">BHIB", 4, 0, 0, 0xCE), 501, id="unknown frame type on channel 0"),
        pytest.param(struct.pack(">BHI", 3, 1, 131_065), 501, id="longer than frame-max, before its payload came"),
        pytest.param(heartbeat.Heartbeat.value[:-1] + b"\x00", 501, id="no frame end"),
        pytest.param(struct.pack(">BHI", 8, 0, 1), 501, id="heartbeat with a payload"),
        pytest.param(struct.pack(">BHIB", 8, 1, 0, 0xCE), 505, id="heartbeat on a channel"),
        pytest.param(wire(0, body.ContentBody(b"x")), 505, id="content on channel 0"),
        pytest.param(UNKNOWN_METHOD, 503, id="unknown method"),
        pytest.param(struct.pack(">BHIHB", 1, 1, 2, 60, 0xCE), 502, id="half a method number"),
        pytest.param(wire(9, commands.Basic.GetEmpty()), 504, id="channel that is not open"),
        pytest.param(wire(1, commands.Basic.GetEmpty()), 503, id="get-empty unasked"),
        pytest.param(wire(1, GET_OK), 503, id="get-ok unasked"),
        pytest.param(wire(1, commands.Queue.DeclareOk("q", 0, 0)), 503, id="declare-ok unasked"),
        pytest.param(wire(1, commands.Channel.CloseOk()), 503, id="close-ok unasked"),
        pytest.param(wire(1, commands.Channel.OpenOk()), 503, id="open-ok twice"),
        pytest.param(wire(1, commands.Basic.Ack(1, False)), 503, id="confirm unasked"),
        pytest.param(wire(1, commands.Basic.Deliver("nobody", 1, False, "", "q")), 503, id="deliver to nobody"),
        pytest.param(wire(1, commands.Basic.Get(0, "q")), 503, id="a client's method"),
        pytest.param(wire(0, commands.Connection.Start(0, 9, {}, "PLAIN", "")), 503, id="start again"),
        pytest.param(wire(0, commands.Connection.CloseOk()), 503, id="connection close-ok unasked"),
        pytest.param(wire(0, commands.Basic.GetEmpty()), 503, id="channel method on channel 0"),
        pytest.param(wire(1, header.ContentHeader(0, 1)), 505, id="header without method"),
        pytest.param(wire(1, body.ContentBody(b"x")), 505, id="body without header"),
    ],
)
def test_a_violation_closes_the_connection_with_its_code_and_ends_every_call(data: bytes, code: int) -> None:
    state, [first, second], _ = open_state(channels=2)
    call = second.call(commands.Queue.Purge(queue="q"), commands.Queue.PurgeOk.index)
    publish = second.publish("", "q", b"", b"\x00\x00", mandatory=True, confirm=True)
    state.data_to_send()
    state.receive_data(data)
    assert closes_sent(state.data_to_send()) == [code]
    error = state.closed
    assert isinstance(error, ProtocolViolation)
    assert error.code == code
    events = state.take_events()
    assert isinstance(events[-1], ConnectionGone)
    assert call in events
    assert publish in events
    assert publish is not None
    assert call.error is publish.error is error
    with pytest.raises(ProtocolViolation):
        first.get("q", 1)
    state.receive_data(wire(1, commands.Basic.GetEmpty()))  # nothing more is read
    assert state.take_events() == []


def raw_header(class_id: int, weight: int, size: int) -> bytes:
    return struct.pack(">BHIHHQHB", 2, 1, 14, class_id, weight, size, 0, 0xCE)


TORN = [
    pytest.param([GET_OK, GET_OK], 505, id="method instead of header"),
    pytest.param([GET_OK, body.ContentBody(b"x")], 505, id="body instead of header"),
    pytest.param([GET_OK, header.ContentHeader(0, 2), header.ContentHeader(0, 2)], 505, id="header twice"),
    pytest.param([GET_OK, header.ContentHeader(0, 2), body.ContentBody(b"xyz")], 501, id="body too long"),
    pytest.param([GET_OK, header.ContentHeader(0, 0), body.ContentBody(b"x")], 505, id="body after an empty one"),
    pytest.param([GET_OK, header.ContentHeader(0, 2), body.ContentBody(b"x"), commands.Basic.GetEmpty()], 505, id="cut"),
    pytest.param([GET_OK, raw_header(60, 1, 2)], 502, id="weight"),
    pytest.param([GET_OK, raw_header(50, 0, 2)], 502, id="class"),
    pytest.param([GET_OK, struct.pack(">BHIHHQB", 2, 1, 12, 60, 0, 2, 0xCE)], 502, id="no flags"),
]


@pytest.mark.parametrize(("parts", "code"), TORN)
def test_torn_content_is_a_violation(parts: list[frame.FrameTypes | bytes], code: int) -> None:
    state, [channel], _ = open_state()
    channel.get("q", 2)
    state.data_to_send()
    state.receive_data(b"".join(part if isinstance(part, bytes) else wire(1, part) for part in parts))
    assert closes_sent(state.data_to_send()) == [code]


def test_a_method_that_is_longer_or_shorter_than_its_frame_is_a_violation() -> None:
    good = wire(1, GET_OK)
    for change in (-1, 1):
        state, [channel], _ = open_state()
        channel.get("q", 1)
        payload = good[7:-1][:change] if change < 0 else good[7:-1] + b"\x00"
        state.receive_data(good[:3] + struct.pack(">I", len(payload)) + payload + b"\xce" + good)
        assert closes_sent(state.data_to_send()) == [502]


def test_properties_that_cannot_be_read_spoil_the_message_and_not_the_connection() -> None:
    state, [channel], _ = open_state()
    call = channel.get("q", 1)
    bad = struct.pack(">BHIHHQHB", 2, 1, 14, 60, 0, 0, 0x8000, 0xCE)  # says content-type, has none
    state.receive_data(wire(1, GET_OK) + bad)
    assert call.done
    [message] = call.messages
    assert state.closed is None
    with pytest.raises(AmqpError, match="cut short"):
        message.properties  # noqa: B018  a property that raises


def test_the_broker_closes_the_connection() -> None:
    state, [channel], _ = open_state()
    call = channel.get("q", 1)
    state.receive_data(wire(0, commands.Connection.Close(320, "CONNECTION_FORCED - bye", 0, 0)))
    assert wire(0, commands.Connection.CloseOk()) in state.data_to_send()
    assert isinstance(call.error, ConnectionClosed)
    assert (call.error.code, call.error.by_broker) == (320, True)


def test_we_close_the_connection_and_whatever_comes_meanwhile_is_ignored() -> None:
    state, [channel], _ = open_state()
    call = channel.get("q", 1)
    state.close()
    assert call.error is not None
    state.receive_data(wire(1, *content(GET_OK, b"late")) + wire(0, commands.Connection.Blocked("alarm")))
    assert state.phase.value == "closing"
    state.receive_data(wire(0, commands.Connection.CloseOk()))
    assert isinstance(gone(state), ConnectionClosed)
    assert state.phase.value == "closed"


def test_both_close_the_connection_at_once() -> None:
    state, _, _ = open_state()
    state.close()
    state.receive_data(wire(0, commands.Connection.Close(320, "bye", 0, 0)))
    assert state.phase is Phase.CLOSED
    assert wire(0, commands.Connection.CloseOk()) in state.data_to_send()


@pytest.mark.parametrize("cut", [0, 3, 9])
def test_the_end_of_the_stream_loses_the_connection(cut: int) -> None:
    state, [channel], _ = open_state()
    call = channel.get("q", 1)
    state.receive_data(wire(1, GET_OK)[:cut] or wire(0, heartbeat.Heartbeat()))
    state.receive_data(b"")
    assert isinstance(call.error, ConnectionLost)
    assert ("middle of a frame" in str(call.error)) is (cut > 0)


def test_the_broker_closes_a_channel_and_its_number_is_used_again_last() -> None:
    state, [channel, other], _ = open_state(channels=2)
    call = channel.get("gone", 1)
    state.receive_data(wire(1, commands.Channel.Close(404, "NOT_FOUND - no queue 'gone'", 60, 70)))
    assert wire(1, commands.Channel.CloseOk()) in state.data_to_send()
    assert type(call.error).__name__ == "QueueMissing"
    assert [type(event) for event in state.take_events()] == [ChannelGone, GetCall]
    assert other.closed is None
    numbers = [state.open_channel()[0].channel_id for _ in range(2045)]
    assert numbers[0] == 3
    assert state.open_channel()[0].channel_id == 1
    with pytest.raises(TooManyChannels):
        state.open_channel()


def test_both_close_a_channel_at_once() -> None:
    state, [channel], _ = open_state()
    call = channel.close()
    state.receive_data(wire(1, commands.Channel.Close(406, "PRECONDITION_FAILED", 60, 80)))
    assert channel.phase is ChannelPhase.CLOSING
    assert not call.done
    state.receive_data(wire(1, commands.Channel.CloseOk()))
    assert call.done
    assert call.error is None


def test_a_closing_channel_ignores_what_is_on_its_way() -> None:
    state, [channel], _ = open_state()
    get = channel.get("q", 2)
    state.receive_data(wire(1, GET_OK))
    call = channel.close()
    assert get.error is not None
    late = content(commands.Basic.Return(312, "NO_ROUTE", "", "q"), b"late")
    state.receive_data(wire(1, header.ContentHeader(0, 2), body.ContentBody(b"xy"), commands.Basic.GetEmpty(), *late))
    state.receive_data(wire(1, commands.Channel.CloseOk()))
    assert call.done
    assert state.closed is None


def test_a_server_sent_cancel_ends_the_consumer_only() -> None:
    state, [channel], broker = open_state()
    tag = channel.consume("q", None, exclusive=False, arguments=None).consumer_tag
    talk(state, broker)
    state.take_events()
    state.receive_data(wire(1, commands.Basic.Cancel(tag, nowait=True)))
    assert state.take_events() == [ConsumerGone(channel, tag)]
    assert state.data_to_send() == b""
    state.receive_data(wire(1, commands.Basic.Cancel("again", nowait=False)))
    assert state.data_to_send() == wire(1, commands.Basic.CancelOk("again"))


def test_blocked_and_unblocked_are_reported() -> None:
    state, _, _ = open_state()
    state.receive_data(wire(0, commands.Connection.Blocked("low on memory"), commands.Connection.Unblocked()))
    assert state.take_events() == [Blocked("low on memory"), Unblocked()]


def test_names_and_arguments_that_cannot_be_sent_leave_no_trace() -> None:
    state, [channel], broker = open_state()
    for wrong in (
        lambda: channel.get("é" * 128, 1),
        lambda: channel.publish("", "k" * 256, b"", b"\x00\x00", mandatory=True, confirm=True),
        lambda: channel.publish("", "k", b"", bytes(140_000), mandatory=True, confirm=True),
        lambda: channel.call(commands.Queue.Declare(queue="x" * 300), commands.Queue.DeclareOk.index),
    ):
        with pytest.raises(ValueError):  # noqa: PT011  each has its own text
            wrong()
    assert state.data_to_send() == b""
    call = channel.get("q", 1)
    talk(state, broker)
    assert call.done


def test_abandoned_get_keeps_its_place_and_its_message() -> None:
    state, [channel], broker = open_state()
    broker.queues["q"] = [b"1", b"2", b"3"]
    first, second = channel.get("q", 2), channel.get("q", 1)
    channel.abandon(first)
    talk(state, broker)
    assert [message.body for message in channel.abandoned] == [b"1", b"2"]
    assert [message.body for message in second.messages] == [b"3"]
    assert first not in state.take_events()


def test_an_abandoned_get_that_was_half_answered_keeps_both_halves() -> None:
    state, [channel], _ = open_state()
    call = channel.get("q", 2)
    state.receive_data(wire(1, *content(GET_OK, b"1")))
    channel.abandon(call)
    state.receive_data(wire(1, *content(commands.Basic.GetOk(2, False, "", "q", 0), b"2")))
    assert [message.body for message in channel.abandoned] == [b"1", b"2"]


def test_deliveries_for_an_abandoned_consumer_go_back_at_once() -> None:
    state, [channel], broker = open_state()
    broker.queues["q"] = [b"1", b"2"]
    channel.abandon(channel.consume("q", None, exclusive=False, arguments=None))
    talk(state, broker)
    assert sorted(broker.queues["q"]) == [b"1", b"2"]
    assert not any(isinstance(event, Message) for event in state.take_events())
    assert channel.consumer_tags == set()


def test_an_abandoned_open_closes_its_channel() -> None:
    state, _, broker = open_state()
    channel, call = state.open_channel()
    channel.abandon(call)
    talk(state, broker)
    assert channel.phase is ChannelPhase.CLOSED
    assert state.closed is None


def test_the_tables_have_no_dead_ends_and_no_strangers() -> None:
    assert set(TRANSITIONS) == set(Phase)
    assert set(CHANNEL_TRANSITIONS) == set(ChannelPhase)
    for phase, moves in TRANSITIONS.items():
        assert (Phase.CLOSED in moves.values()) is (phase is not Phase.CLOSED)
    for channel_phase, channel_moves in CHANNEL_TRANSITIONS.items():
        assert (ChannelPhase.CLOSED in channel_moves.values()) is (channel_phase is not ChannelPhase.CLOSED)
