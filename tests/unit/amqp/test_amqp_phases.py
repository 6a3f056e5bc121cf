"""Every state and every trigger of both tables: what is allowed moves as the table says, all else is a violation."""

from collections.abc import Callable

import pytest
from pamqp import commands

from slicelease.worker.amqp import ConnectionLost, ProtocolViolation
from slicelease.worker.amqp.channel_phase import CHANNEL_TRANSITIONS, ChannelPhase, ChannelTrigger
from slicelease.worker.amqp.channel_state import ChannelState
from slicelease.worker.amqp.connection import ConnectionState
from slicelease.worker.amqp.connection_phase import TRANSITIONS, Phase, Trigger
from tests.unit.amqp.fake_broker import HANDSHAKE, open_state, start, wire

PULL: dict[Trigger, Callable[[ConnectionState], None]] = {
    Trigger.HEADER_SENT: lambda state: state.start(),
    Trigger.START: lambda state: state.receive_data(wire(0, start())),
    Trigger.TUNE: lambda state: state.receive_data(wire(0, commands.Connection.Tune(0, 0, 0))),
    Trigger.OPEN_OK: lambda state: state.receive_data(wire(0, commands.Connection.OpenOk())),
    Trigger.CLOSE_SENT: lambda state: state.close(),
    Trigger.CLOSE_RECEIVED: lambda state: state.receive_data(wire(0, commands.Connection.Close(320, "bye", 0, 0))),
    Trigger.CLOSE_OK: lambda state: state.receive_data(wire(0, commands.Connection.CloseOk())),
    Trigger.LOST: lambda state: state.lost(ConnectionLost("gone")),
}
ROAD = (Trigger.HEADER_SENT, Trigger.START, Trigger.TUNE, Trigger.OPEN_OK, Trigger.CLOSE_SENT, Trigger.CLOSE_OK)


def brought_to(phase: Phase) -> ConnectionState:
    state = ConnectionState(HANDSHAKE)
    for trigger in ROAD:
        if state.phase is phase:
            break
        PULL[trigger](state)
    assert state.phase is phase
    return state


@pytest.mark.parametrize("trigger", Trigger, ids=lambda trigger: trigger.name)
@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.name)
def test_the_connection_moves_as_the_table_says(phase: Phase, trigger: Trigger) -> None:
    state, target = brought_to(phase), TRANSITIONS[phase].get(trigger)
    state.data_to_send()
    if trigger is Trigger.HEADER_SENT and target is None:
        with pytest.raises(ProtocolViolation):
            PULL[trigger](state)
        return
    PULL[trigger](state)
    if trigger is Trigger.CLOSE_SENT and target is None:  # closing what is not open gives it up
        assert state.phase.value == "closed"
    elif target is None:
        assert state.phase.value == "closed"
        assert phase is Phase.CLOSED or isinstance(state.closed, ProtocolViolation) or phase is Phase.CLOSING
    else:
        assert state.phase is target


CHANNEL_PULL: dict[ChannelTrigger, Callable[[ConnectionState, ChannelState], object]] = {
    ChannelTrigger.OPEN_OK: lambda state, channel: state.receive_data(wire(channel.channel_id, commands.Channel.OpenOk())),
    ChannelTrigger.CLOSE_SENT: lambda state, channel: channel.close(),
    ChannelTrigger.CLOSE_RECEIVED: lambda state, channel: state.receive_data(
        wire(channel.channel_id, commands.Channel.Close(404, "NOT_FOUND", 60, 70))
    ),
    ChannelTrigger.CLOSE_OK: lambda state, channel: state.receive_data(wire(channel.channel_id, commands.Channel.CloseOk())),
    ChannelTrigger.CONNECTION_GONE: lambda state, channel: state.lost(ConnectionLost("gone")),
}
CHANNEL_ROAD = (ChannelTrigger.OPEN_OK, ChannelTrigger.CLOSE_SENT, ChannelTrigger.CLOSE_OK)


@pytest.mark.parametrize(
    ("phase", "trigger"), [(phase, trigger) for phase, moves in CHANNEL_TRANSITIONS.items() for trigger in moves]
)
def test_the_channel_moves_as_the_table_says(phase: ChannelPhase, trigger: ChannelTrigger) -> None:
    state, _, _ = open_state(channels=0)
    channel, _ = state.open_channel()
    for step in CHANNEL_ROAD:
        if channel.phase is phase:
            break
        CHANNEL_PULL[step](state, channel)
    assert channel.phase is phase
    CHANNEL_PULL[trigger](state, channel)
    assert channel.phase is CHANNEL_TRANSITIONS[phase][trigger]
    assert (state.closed is None) is (trigger is not ChannelTrigger.CONNECTION_GONE)
