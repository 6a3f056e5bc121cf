"""The connection without I/O against any cut, any interleaving and any damage of what the broker sends."""

from itertools import chain

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pamqp import body, commands, common, frame, header
from pamqp.heartbeat import Heartbeat

from slicelease.worker.amqp import Message
from slicelease.worker.amqp.calls import Call, GetCall, PublishCall
from slicelease.worker.amqp.connection import ConnectionState
from slicelease.worker.amqp.connection_phase import Phase
from tests.unit.amqp.fake_broker import PROPERTIES, content, open_state, talk, wire

steady = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy with others

CHANNELS = 3
Told = list[tuple[object, ...]]


def busy_state() -> ConnectionState:
    """Three channels, each with a consumer `c`, confirms on, and many calls waiting: gets, then declares."""
    state, channels, broker = open_state(channels=CHANNELS)
    for channel in channels:
        channel.consume("q", "c", exclusive=False, arguments=None)
    talk(state, broker)
    for channel in channels:
        for _ in range(8):
            channel.publish("", "k", b"", b"\x00\x00", mandatory=True, confirm=True)
        channel.get("q", 4)
        channel.get("q", 4)
        channel.call(commands.Queue.Declare(queue="q"), commands.Queue.DeclareOk.index)
    state.data_to_send()
    state.take_events()
    return state


def tell(state: ConnectionState) -> Told:
    """What happened, in values that compare."""
    told: Told = []
    for event in state.take_events():
        if isinstance(event, Message):
            told.append(("delivered", id_of(event), describe(event)))
        elif isinstance(event, GetCall):
            told.append(("got", event.channel.channel_id, [describe(message) for message in event.messages]))
        elif isinstance(event, PublishCall):
            told.append(("confirmed", event.channel.channel_id, event.sequence, str(event.error)))
        elif isinstance(event, Call):
            told.append(("answered", event.channel.channel_id, str(event.error)))
        else:
            told.append((type(event).__name__, str(event[-1]) if event else ""))
    return told


def id_of(message: Message) -> str:
    return message.consumer_tag or ""


def describe(message: Message) -> tuple[object, ...]:
    return (
        message.delivery_tag, message.redelivered, message.exchange, message.routing_key, message.message_count,
        message.body, message.encoded_properties,
    )  # fmt: skip


bodies = st.binary(max_size=60)
pieces = st.integers(1, 5)
header_values: st.SearchStrategy[common.FieldValue] = st.integers(-5, 5) | st.text(max_size=5) | st.none()
headers = st.dictionaries(st.text(max_size=4), header_values, max_size=3)


@st.composite
def scripts(draw: st.DrawFn) -> list[list[tuple[int, frame.FrameTypes]]]:
    """For each channel, frames in an order that is allowed."""
    script = []
    for channel_id in range(1, CHANNELS + 1):
        parts: list[frame.FrameTypes] = []
        confirmed, tag = 0, 0
        for _ in range(draw(st.integers(0, 5))):
            kind = draw(st.sampled_from(["get", "empty", "deliver", "return", "confirm"]))
            payload, cut, tag = draw(bodies), draw(pieces), tag + 1
            properties = PROPERTIES(message_id=draw(st.text(max_size=5)) or None, headers=draw(headers) or None)
            if kind == "get":
                method = commands.Basic.GetOk(tag, draw(st.booleans()), "ex", "key", 3)
                parts += content(method, payload, pieces=cut, properties=properties)
            elif kind == "empty":
                parts.append(commands.Basic.GetEmpty())
            elif kind == "deliver":
                deliver = commands.Basic.Deliver("c", tag, draw(st.booleans()), "", "key")
                parts += content(deliver, payload, pieces=cut, properties=properties)
            elif kind == "return":
                parts += content(commands.Basic.Return(312, "NO_ROUTE", "", "k"), payload, pieces=cut)
            elif confirmed < 8:
                confirmed += 1
                parts.append(commands.Basic.Ack(confirmed, draw(st.booleans())))
        script.append([(channel_id, part) for part in parts])
    return script


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """The scripts of all channels, frames interleaved in any way that keeps each channel's order."""
    script = draw(scripts())
    order = draw(st.permutations([index for index, parts in enumerate(script) for _ in parts]))
    queues = [iter(parts) for parts in script]
    return b"".join(wire(*next(queues[index])) for index in order)


@steady
@given(streams(), st.data())
def test_however_a_stream_is_cut_the_same_happens(stream: bytes, data: st.DataObject) -> None:
    whole = busy_state()
    whole.receive_data(stream or Heartbeat.value)
    expected = tell(whole)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6), label="cuts"))
    cut = busy_state()
    told: Told = []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        if begin < end:
            cut.receive_data(stream[begin:end])
            told += tell(cut)
    assert told == expected
    single = busy_state()
    for at in range(len(stream)):
        single.receive_data(stream[at : at + 1])
    assert tell(single) == expected
    assert whole.phase is cut.phase is single.phase
    assert whole.data_to_send() == cut.data_to_send() == single.data_to_send()


@steady
@given(scripts(), st.data())
def test_content_of_several_channels_may_come_interleaved(
    script: list[list[tuple[int, frame.FrameTypes]]], data: st.DataObject
) -> None:
    one_by_one, mixed = busy_state(), busy_state()
    one_by_one.receive_data(b"".join(wire(*part) for part in chain(*script)) or Heartbeat.value)
    order = data.draw(st.permutations([index for index, parts in enumerate(script) for _ in parts]), label="order")
    queues = [iter(parts) for parts in script]
    for index in order:
        mixed.receive_data(wire(*next(queues[index])))
    key = repr
    assert sorted(tell(one_by_one), key=key) == sorted(tell(mixed), key=key)
    assert one_by_one.closed is mixed.closed is None


@steady
@given(streams(), st.data())
def test_a_damaged_stream_never_raises_and_never_answers_twice(stream: bytes, data: st.DataObject) -> None:
    damaged = bytearray(stream)
    for _ in range(data.draw(st.integers(1, 3), label="damages")):
        if damaged:
            damaged[data.draw(st.integers(0, len(damaged) - 1), label="at")] = data.draw(st.integers(0, 255), label="byte")
    state = busy_state()
    ended: list[Call] = []
    for chunk in (bytes(damaged), b"", b"more"):
        state.receive_data(chunk)
        ended += [event for event in state.take_events() if isinstance(event, Call)]
    assert state.phase is Phase.CLOSED
    assert len({id(call) for call in ended}) == len(ended) == CHANNELS * 11
    assert all(call.done for call in ended)


@steady
@given(st.binary(max_size=200), st.sampled_from([Phase.AWAITS_START, Phase.OPEN]))
def test_noise_never_raises(noise: bytes, phase: Phase) -> None:
    state = busy_state()
    if phase is Phase.AWAITS_START:
        state = ConnectionState(state._handshake)
        state.start()
    state.receive_data(noise or b"\x00")
    state.receive_data(b"")
    assert state.phase is Phase.CLOSED


@steady
@given(st.binary(max_size=20_000), st.integers(4096, 9000), st.booleans())
def test_bodies_are_split_at_frame_max_and_come_whole(payload: bytes, frame_max: int, mandatory: bool) -> None:
    state, [channel], broker = open_state(frame_max=frame_max)
    channel.publish("ex", "key", payload, b"\x00\x00", mandatory=mandatory, confirm=True)
    broker.receive(state.data_to_send())  # checks the length of each frame
    parts = [part for _, part in broker.seen]
    bodies_sent = [part.value for part in parts if isinstance(part, body.ContentBody)]
    assert b"".join(bodies_sent) == payload
    assert all(len(piece) == frame_max - 8 for piece in bodies_sent[:-1])
    [publish] = broker.methods(commands.Basic.Publish)
    assert (publish["exchange"], publish["routing_key"], publish["mandatory"]) == ("ex", "key", mandatory)
    assert [part.body_size for part in parts if isinstance(part, header.ContentHeader)] == [len(payload)]


@steady
@given(st.binary(min_size=1, max_size=5000), st.integers(1, 50))
def test_bodies_that_come_in_any_pieces_come_whole(payload: bytes, count: int) -> None:
    state, [channel], _ = open_state()
    call = channel.get("q", 1)
    state.receive_data(wire(1, *content(commands.Basic.GetOk(1, False, "", "q", 0), payload, pieces=count)))
    assert [message.body for message in call.messages] == [payload]
