"""Publisher confirms: any order, several at once, refusals and returns, each to its own publish."""

import pytest
from pamqp import commands

from slicelease.worker.amqp import ProtocolViolation, PublishRefused, Unroutable
from slicelease.worker.amqp.calls import PublishCall
from slicelease.worker.amqp.channel_state import ChannelState
from slicelease.worker.amqp.properties import Properties, encode_properties
from tests.unit.amqp.fake_broker import PROPERTIES, content, open_state, wire


def publish(channel: ChannelState, key: str, body: bytes = b"", message_id: str | None = None) -> PublishCall:
    call = channel.publish("", key, body, encode_properties(Properties(message_id=message_id)), mandatory=True, confirm=True)
    assert call is not None
    return call


def test_confirms_come_in_any_order_and_several_at_once() -> None:
    state, [channel], _ = open_state()
    calls = [publish(channel, "q") for _ in range(6)]
    state.receive_data(wire(1, commands.Basic.Ack(3, False)))
    assert [call.done for call in calls] == [False, False, True, False, False, False]
    state.receive_data(wire(1, commands.Basic.Ack(4, True)))
    assert [call.done for call in calls] == [True, True, True, True, False, False]
    state.receive_data(wire(1, commands.Basic.Nack(5, False), commands.Basic.Ack(0, True)))
    assert [type(call.error) for call in calls] == [type(None)] * 4 + [PublishRefused, type(None)]
    assert [event for event in state.take_events() if isinstance(event, PublishCall)] == [
        calls[2], calls[0], calls[1], calls[3], calls[4], calls[5]
    ]  # fmt: skip


@pytest.mark.parametrize(("tag", "multiple"), [(2, False), (2, True), (9, True)])
def test_a_confirm_of_nothing_is_a_violation(tag: int, multiple: bool) -> None:
    state, [channel], _ = open_state()
    publish(channel, "q")
    state.receive_data(wire(1, commands.Basic.Ack(tag, multiple)))
    assert isinstance(state.closed, ProtocolViolation)
    assert state.closed.code == 503


def returned(key: str, body: bytes, message_id: str | None = None) -> bytes:
    method = commands.Basic.Return(312, "NO_ROUTE", "", key)
    return wire(1, *content(method, body, properties=PROPERTIES(message_id=message_id)))


def test_a_return_ends_the_publish_with_its_content() -> None:
    state, [channel], _ = open_state()
    calls = [publish(channel, key, body, mark) for key, body, mark in
             [("a", b"1", "x"), ("b", b"1", "x"), ("a", b"2", "x"), ("a", b"1", "y"), ("a", b"1", "x")]]  # fmt: skip
    state.receive_data(returned("a", b"1", "y") + returned("b", b"1", "x") + returned("a", b"1", "x"))
    assert not any(call.done for call in calls)  # the confirm ends them, not the return
    state.receive_data(wire(1, commands.Basic.Ack(5, True)))
    assert [type(call.error) for call in calls] == [Unroutable, Unroutable, type(None), Unroutable, type(None)]
    assert channel.confirms.returns_unmatched_total == 0


def test_a_return_whose_properties_the_broker_rewrote_is_recognised_by_place_and_body() -> None:
    state, [channel], _ = open_state()
    call = publish(channel, "a", b"1", "x")
    state.receive_data(returned("a", b"1", "x,rewritten") + wire(1, commands.Basic.Ack(1, False)))
    assert isinstance(call.error, Unroutable)


def test_a_return_that_fits_nothing_is_counted() -> None:
    state, [channel], _ = open_state()
    call = publish(channel, "a", b"1")
    state.receive_data(returned("a", b"other") + wire(1, commands.Basic.Ack(1, False)))
    assert call.error is None
    assert channel.confirms.returns_unmatched_total == 1


def test_unconfirmed_publishes_count_too_once_confirms_are_on() -> None:
    state, [channel], _ = open_state()
    assert channel.publish("", "q", b"", b"\x00\x00", mandatory=False, confirm=False) is None
    first = publish(channel, "q")
    channel.publish("", "q", b"", b"\x00\x00", mandatory=False, confirm=False)
    third = publish(channel, "q")
    assert (first.sequence, third.sequence) == (1, 3)
    state.take_events()
    state.receive_data(wire(1, commands.Basic.Ack(3, True)))
    assert state.take_events() == [first, third]


def test_a_lost_channel_ends_its_publishes_with_an_unknown_outcome() -> None:
    _state, [channel], _ = open_state()
    call = publish(channel, "q")
    channel.close()
    assert call.done
    assert call.error is channel.closed
