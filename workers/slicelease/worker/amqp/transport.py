"""The Trio transport of the AMQP connection: a stream, a reader, a writer, heartbeats.

May know sockets, TLS and the clock; knows nothing of AMQP beyond what `ConnectionState` tells it. Whatever is queued when
the writer wakes goes out in one send.
"""

from __future__ import annotations

from dataclasses import dataclass

import trio
from trio.abc import Stream

from slicelease.worker.amqp.calls import Call
from slicelease.worker.amqp.channel import Channel
from slicelease.worker.amqp.connection import ConnectionState
from slicelease.worker.amqp.connection_phase import Phase
from slicelease.worker.amqp.errors import AmqpError, ConnectionLost, ConsumerCancelled, HeartbeatMissed
from slicelease.worker.amqp.events import Blocked, ChannelGone, ConnectionGone, ConsumerGone, Event, Unblocked
from slicelease.worker.amqp.handshake import Handshake
from slicelease.worker.amqp.heartbeat import lost_at, send_due
from slicelease.worker.amqp.message import Message

READ_BYTES = 64 * 1024
HIGH_WATER_BYTES = 1024 * 1024
"""Publishers wait while more than this is queued for the socket."""
CLOSE_TIMEOUT_S = 1.0
"""How long a close in good order may take before the stream is simply dropped."""


@dataclass(frozen=True, slots=True)
class ConnectionStatistics:
    """Counters since the connection opened. `sends` are calls of the stream's send_all: the measure of coalescing."""

    sends: int
    frames_sent: int
    bytes_sent: int
    reads: int
    frames_received: int
    bytes_received: int
    bytes_queued: int


class Connection:
    """An open connection. Made by `open_connection`."""

    def __init__(self, stream: Stream, handshake: Handshake) -> None:
        self.state = ConnectionState(handshake)
        self._stream = stream
        self._gone = trio.Event()
        self._opened = trio.Event()
        self._flushed = trio.Event()
        self._unblocked: trio.Event | None = None
        self._blocked_reason: str | None = None
        self._idle_writer: trio.lowlevel.Task | None = None
        self._room = trio.lowlevel.ParkingLot()
        self._last_sent = self._last_received = trio.current_time()
        self._sends = self._bytes_sent = self._reads = self._bytes_received = 0

    # ---- what callers use --------------------------------------------------------------------------------------------

    async def open_channel(self) -> Channel:
        """A channel, once the broker has opened it. Raises TooManyChannels, or what closed the connection."""
        await trio.lowlevel.checkpoint_if_cancelled()
        channel = self.open_channel_nowait()
        await self.wait_call(channel.opening)
        return channel

    def open_channel_nowait(self) -> Channel:
        """A channel that may be used at once: its calls follow its channel.open in the same write."""
        channel = Channel(self)
        self.wake_writer()
        return channel

    @property
    def closed(self) -> AmqpError | None:
        """Why the connection can no longer be used; None while it can."""
        return self.state.closed

    async def wait_closed(self) -> AmqpError:
        """Wait until the connection has ended, and say why."""
        await self._gone.wait()
        assert self.state.closed is not None  # noqa: S101  set before the event
        return self.state.closed

    @property
    def blocked(self) -> str | None:
        """Why the broker does not take publishes at the moment (an alarm); None while it does."""
        return self._blocked_reason

    async def wait_unblocked(self) -> None:
        """Wait until publishes are taken. Raises what closed the connection meanwhile."""
        while self._unblocked is not None and self.state.closed is None:
            await self._unblocked.wait()
        if self.state.closed is not None:
            raise self.state.closed.fresh()

    async def aclose(self) -> None:
        """Close in good order, within a second; else drop the stream. Does not raise."""
        self.state.close()
        self.wake_writer()
        self.dispatch()
        with trio.move_on_after(CLOSE_TIMEOUT_S, shield=True):
            await self._gone.wait()
        self.state.lost(ConnectionLost("the broker did not answer the close"))
        self.dispatch()

    def statistics(self) -> ConnectionStatistics:
        """The counters."""
        return ConnectionStatistics(
            self._sends,
            self.state.frames_sent_total,
            self._bytes_sent,
            self._reads,
            self.state.frames_received_total,
            self._bytes_received,
            self.state.bytes_queued,
        )

    # ---- for channels ------------------------------------------------------------------------------------------------

    def wake_writer(self) -> None:
        """There is something to send."""
        task = self._idle_writer
        if task is not None:
            self._idle_writer = None
            trio.lowlevel.reschedule(task)

    async def wait_room(self) -> None:
        """Wait until a publish may be queued: not blocked, and the socket keeps up. A checkpoint for cancellation."""
        await trio.lowlevel.checkpoint_if_cancelled()
        while self.state.closed is None:
            if self._unblocked is not None:
                await self._unblocked.wait()
            elif self.state.bytes_queued > HIGH_WATER_BYTES:
                await self._room.park()
            else:
                return

    async def wait_call(self, call: Call, *, abandon: bool = True) -> None:
        """Wait for a call's answer. Raises its error. A cancelled wait gives the call up, if `abandon`."""
        if call.done:
            await trio.lowlevel.checkpoint()
        elif call.waiter is not None:
            raise trio.BusyResourceError("another task waits for this call")
        else:
            call.waiter = trio.lowlevel.current_task()

            def abort(_: object) -> trio.lowlevel.Abort:
                call.waiter = None
                if abandon:
                    call.channel.abandon(call)
                    self.wake_writer()
                    self.dispatch()
                return trio.lowlevel.Abort.SUCCEEDED

            await trio.lowlevel.wait_task_rescheduled(abort)
        if call.error is not None:
            raise call.error.fresh()

    def dispatch(self) -> None:
        """Hand out what happened."""
        for event in self.state.take_events():
            if isinstance(event, Call):
                if event.waiter is not None:
                    trio.lowlevel.reschedule(event.waiter)
                    event.waiter = None
            elif isinstance(event, Message):
                channel = event.channel
                assert isinstance(channel, Channel)  # noqa: S101  every channel here was opened with itself as owner
                channel.deliver(event)
            else:
                self._happened(event)
        if self.state.bytes_queued:
            self.wake_writer()

    def _happened(self, event: Event) -> None:
        match event:
            case ChannelGone(channel=state, error=error):
                channel = state.owner
                assert isinstance(channel, Channel)  # noqa: S101  see above
                channel.end_consumers(error)
            case ConsumerGone(channel=state, consumer_tag=tag):
                assert isinstance(state.owner, Channel)  # noqa: S101  see above
                state.owner.end_consumer(tag, ConsumerCancelled(f"the broker cancelled consumer {tag!r}"))
            case Blocked(reason=reason):
                self._blocked_reason = reason
                self._unblocked = self._unblocked or trio.Event()
            case Unblocked():
                self._unblock()
            case ConnectionGone():
                self._unblock()
                self._room.unpark_all()
                self._opened.set()
                self._gone.set()
                self.wake_writer()
            case _:
                self._opened.set()

    def _unblock(self) -> None:
        self._blocked_reason = None
        if self._unblocked is not None:
            self._unblocked.set()
            self._unblocked = None

    # ---- tasks -------------------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Run the connection until it has ended; the stream is closed when this returns.

        Shielded, because acks that were queued before a cancellation must still go out: only `aclose`, the broker or a
        broken stream ends it.
        """
        self.state.start()
        with trio.CancelScope(shield=True):
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._read)
                    nursery.start_soon(self._write)
                    await self._opened.wait()
                    nursery.start_soon(self._beat)
                    await self._gone.wait()
                    with trio.move_on_after(CLOSE_TIMEOUT_S):
                        await self._flushed.wait()
                    nursery.cancel_scope.cancel()
            finally:
                await trio.aclose_forcefully(self._stream)

    async def wait_opened(self) -> None:
        """Wait for the end of the handshake. Raises LoginRefused or ConnectionLost."""
        await self._opened.wait()
        if self.state.closed is not None:
            raise self.state.closed.fresh()

    async def _read(self) -> None:
        state, stream = self.state, self._stream
        while state.phase is not Phase.CLOSED:
            try:
                data = await stream.receive_some(READ_BYTES)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                state.lost(ConnectionLost(f"the stream broke: {cause_of(error)}"))
            else:
                self._reads += 1
                self._bytes_received += len(data)
                self._last_received = trio.current_time()
                state.receive_data(bytes(data))
            self.dispatch()

    async def _write(self) -> None:
        try:
            while await self._write_queued():
                await self._wait_for_work()
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            with trio.move_on_after(CLOSE_TIMEOUT_S):  # the broker's reason may lie unread: the reader finds it first
                await self._gone.wait()
            self.state.lost(ConnectionLost(f"the stream broke: {cause_of(error)}"))
            self.dispatch()
        self._flushed.set()

    async def _write_queued(self) -> bool:
        """Send all that is queued; whether there may be more later."""
        while data := self.state.data_to_send():
            await self._stream.send_all(data)
            self._sends += 1
            self._bytes_sent += len(data)
            self._last_sent = trio.current_time()
            if self._room:
                self._room.unpark_all()
        return self.state.phase is not Phase.CLOSED

    async def _wait_for_work(self) -> None:
        self._idle_writer = trio.lowlevel.current_task()

        def abort(_: object) -> trio.lowlevel.Abort:
            self._idle_writer = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    async def _beat(self) -> None:
        interval_s, stalled_until = self.state.heartbeat_s, 0.0
        while interval_s:
            now = trio.current_time()
            if now >= lost_at(interval_s, self._last_received, stalled_until):
                self.state.lost(HeartbeatMissed(f"no heartbeat from the broker for {2 * interval_s} s"))
                self.dispatch()
                return
            if now >= send_due(interval_s, self._last_sent) and not self.state.bytes_queued:
                self.state.heartbeat()
                self.wake_writer()
                self._last_sent = now
            due = min(send_due(interval_s, max(self._last_sent, now - interval_s / 4)),
                      lost_at(interval_s, self._last_received, stalled_until))  # fmt: skip
            await trio.sleep_until(due)
            if trio.current_time() - due > interval_s / 2:
                stalled_until = trio.current_time()


def cause_of(error: BaseException) -> str:
    """What Trio's error hides: the operating system's or OpenSSL's."""
    cause = error.__cause__ or error
    return f"{type(cause).__name__} {cause}".strip()
