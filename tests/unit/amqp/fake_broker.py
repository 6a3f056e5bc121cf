"""A broker for tests of the AMQP client: the server's side of the protocol, spoken with pamqp, in memory.

`FakeBroker` does no I/O: bytes of the client in, answers out; answers can be held back, which is what the tests of
cancellation need. It encodes and decodes with pamqp only, so it also checks the client's own codec. `serve` runs it on a
Trio stream. It knows one queue discipline: each queue is a list, a get takes its head, a nack or a close puts it back.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import trio
from pamqp import base, body, commands, frame, header, heartbeat
from trio.abc import Stream

from slicelease.worker.amqp.channel_state import ChannelState
from slicelease.worker.amqp.connection import ConnectionState
from slicelease.worker.amqp.handshake import Handshake

Frames = list[frame.FrameTypes]
PROPERTIES = commands.Basic.Properties


def wire(channel_id: int, *parts: frame.FrameTypes) -> bytes:
    """Frames of one channel as bytes."""
    return b"".join(frame.marshal(part, channel_id) for part in parts)


def content(method: base.Frame, payload: bytes, *, pieces: int = 1, properties: PROPERTIES | None = None) -> Frames:
    """A method with its content, the body cut into about `pieces` frames."""
    size = max(1, -(-len(payload) // pieces))
    cut = [payload[at : at + size] for at in range(0, len(payload), size)]
    return [method, header.ContentHeader(0, len(payload), properties or PROPERTIES()), *map(body.ContentBody, cut)]


def start() -> commands.Connection.Start:
    """connection.start as RabbitMQ sends it."""
    return commands.Connection.Start(0, 9, {"product": "fake"}, "PLAIN AMQPLAIN", "en_US")


@dataclass
class FakeBroker:
    """The server's side. `held` is not None while answers are held back; `seen` are the client's frames."""

    frame_max: int = 131_072
    heartbeat_s: int = 0
    seen: list[tuple[int, frame.FrameTypes]] = field(default_factory=list)
    queues: dict[str, list[bytes]] = field(default_factory=dict)
    held: list[bytes] | None = None
    unconfirmed: list[int] = field(default_factory=list)
    out: bytearray = field(default_factory=bytearray)
    _rest: bytes = b""
    _tags: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _unacked: dict[int, tuple[int, str, bytes]] = field(default_factory=dict)
    _confirms: dict[int, itertools.count[int]] = field(default_factory=dict)

    def methods(self, kind: type[base.Frame]) -> list[base.Frame]:
        """The client's methods of one kind, in order."""
        return [part for _, part in self.seen if isinstance(part, kind)]

    def release(self) -> None:
        """Send what was held, and hold no more."""
        self.out += b"".join(self.held or ())
        self.held = None

    def say(self, channel_id: int, *parts: frame.FrameTypes) -> None:
        """Answer, now or when released."""
        if self.held is None:
            self.out += wire(channel_id, *parts)
        else:
            self.held.append(wire(channel_id, *parts))

    def take_output(self) -> bytes:
        """What is to be sent to the client."""
        data, self.out = bytes(self.out), bytearray()
        return data

    def receive(self, data: bytes) -> None:
        """Bytes of the client."""
        self._rest += data
        while len(self._rest) >= 8:
            if not self._rest.startswith(b"AMQP") and len(self._rest) < 8 + int.from_bytes(self._rest[3:7]):
                return
            used, channel_id, part = frame.unmarshal(self._rest)
            assert used <= self.frame_max
            self._rest = self._rest[used:]
            self.seen.append((channel_id, part))
            self._answer(channel_id, part)

    def _answer(self, channel_id: int, part: frame.FrameTypes) -> None:
        match part:
            case header.ProtocolHeader():
                self.say(0, start())
            case commands.Connection.StartOk():
                self.say(0, commands.Connection.Tune(2047, self.frame_max, self.heartbeat_s))
            case commands.Connection.Open():
                self.say(0, commands.Connection.OpenOk())
            case commands.Connection.Close():
                self.say(0, commands.Connection.CloseOk())
            case commands.Channel.Close():
                self._give_back(channel_id)
                self.say(channel_id, commands.Channel.CloseOk())
            case commands.Queue.Declare():
                self._declare(channel_id, part.queue or "")
            case commands.Basic.Get():
                self._get(channel_id, part.queue or "")
            case commands.Basic.Ack():
                self._unacked.pop(part.delivery_tag or 0)
            case commands.Basic.Nack():
                _, queue, payload = self._unacked.pop(part.delivery_tag or 0)
                self.queues[queue].insert(0, payload)
            case commands.Confirm.Select():
                self._confirms[channel_id] = itertools.count(1)
                if not part.nowait:
                    self.say(channel_id, commands.Confirm.SelectOk())
            case header.ContentHeader() if channel_id in self._confirms:
                self.say(channel_id, commands.Basic.Ack(next(self._confirms[channel_id]), False))
            case _:
                self._answer_plain(channel_id, part)

    def _answer_plain(self, channel_id: int, part: frame.FrameTypes) -> None:
        plain: dict[type[base.Frame], Callable[[], base.Frame]] = {
            commands.Channel.Open: commands.Channel.OpenOk,
            commands.Exchange.Declare: commands.Exchange.DeclareOk,
            commands.Exchange.Delete: commands.Exchange.DeleteOk,
            commands.Queue.Bind: commands.Queue.BindOk,
            commands.Queue.Unbind: commands.Queue.UnbindOk,
            commands.Queue.Purge: lambda: commands.Queue.PurgeOk(71),
            commands.Queue.Delete: lambda: commands.Queue.DeleteOk(72),
            commands.Basic.Qos: commands.Basic.QosOk,
        }
        if isinstance(part, commands.Basic.Consume):
            self.say(channel_id, commands.Basic.ConsumeOk(part.consumer_tag))
            for payload in self.queues.pop(part.queue or "", []):
                self.deliver(channel_id, part.consumer_tag or "", part.queue or "", payload)
        elif isinstance(part, commands.Basic.Cancel):
            self.say(channel_id, commands.Basic.CancelOk(part.consumer_tag))
        elif type(part) in plain:
            self.say(channel_id, plain[type(part)]())  # type: ignore[index]
        else:
            assert isinstance(
                part, commands.Basic.Publish | body.ContentBody | header.ContentHeader | heartbeat.Heartbeat
            ) or part.name in ("Channel.CloseOk", "Connection.CloseOk", "Connection.TuneOk"), part

    def _declare(self, channel_id: int, queue: str) -> None:
        ready = self.queues.setdefault(queue, [])
        self.say(channel_id, commands.Queue.DeclareOk(queue, len(ready), 0))

    def _get(self, channel_id: int, queue: str) -> None:
        if not self.queues.get(queue):
            self.say(channel_id, commands.Basic.GetEmpty())
            return
        payload, tag = self.queues[queue].pop(0), next(self._tags)
        self._unacked[tag] = channel_id, queue, payload
        left = len(self.queues[queue])
        self.say(channel_id, *content(commands.Basic.GetOk(tag, False, "", queue, left), payload))

    def deliver(self, channel_id: int, consumer_tag: str, queue: str, payload: bytes) -> None:
        """Push a message to a consumer."""
        tag = next(self._tags)
        self._unacked[tag] = channel_id, queue, payload
        self.queues.setdefault(queue, [])
        self.say(channel_id, *content(commands.Basic.Deliver(consumer_tag, tag, False, "", queue), payload))

    def _give_back(self, channel_id: int) -> None:
        back = sorted((tag for tag, (owner, _, _) in self._unacked.items() if owner == channel_id), reverse=True)
        for tag in back:
            _, queue, payload = self._unacked.pop(tag)
            self.queues[queue].insert(0, payload)


async def serve(broker: FakeBroker, stream: Stream) -> None:
    """Run `broker` on a stream until the client goes; sends what it says as soon as it says it."""
    stopped = False

    async def send() -> None:
        while not stopped:
            if data := broker.take_output():
                await stream.send_all(data)
            await trio.sleep(0.001)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        try:
            while data := await stream.receive_some():
                broker.receive(bytes(data))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        stopped = True
        nursery.cancel_scope.cancel()


HANDSHAKE = Handshake(user="guest", password="guest", heartbeat_s=0)


def open_state(*, frame_max: int = 131_072, channels: int = 1) -> tuple[ConnectionState, list[ChannelState], FakeBroker]:
    """A connection without I/O after its handshake, with open channels, and the broker it speaks to."""
    state, broker = ConnectionState(HANDSHAKE), FakeBroker(frame_max=frame_max)
    state.start()
    talk(state, broker)
    opened = [state.open_channel()[0] for _ in range(channels)]
    talk(state, broker)
    state.take_events()
    broker.seen.clear()
    return state, opened, broker


def talk(state: ConnectionState, broker: FakeBroker) -> None:
    """Pass bytes to and fro until neither has anything to say."""
    while True:
        sent, said = state.data_to_send(), b""
        if sent:
            broker.receive(sent)
        said = broker.take_output()
        if said:
            state.receive_data(said)
        if not sent and not said:
            return
