"""One slice, from its grant to its settled end: what happened goes in, what is to be done comes out. No I/O, no clock.

May live here: the states, the one table, and what follows from it. May not know: Trio, AMQP, gRPC; times are arguments.

The rules that the table keeps:

- Messages are taken one after another in the order in which they were fetched; never more are fetched than the slice may
  still take, and after the first message the slice's time ends it at a boundary.
- A redelivered message is made known to the ledger before its handler starts, and nothing else starts meanwhile.
- Every fetched message is acked after its handler ended well, or dead-lettered and then acked, or given back by closing the
  channel, which keeps the order. What is behind a given-back message is given back with it.
- SETTLE is told once, as the last thing, and only after the broker's answer to a BARRIER or CLOSE on the slice's channel, or
  when nothing was fetched. Where that answer cannot be had, the reason says BROKER_LOST.
- A lost lease or an over-long shutdown cancels whatever runs; a lost link never does: the handler's end is waited for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Generic, NamedTuple, Protocol, TypeVar

from .leases import EndReason, Grant, SliceEnd, SliceTotals

FETCH_WINDOW = 20
"""Most messages fetched in one write, and so in hand: what a lost worker's connection can hold."""


class State(IntEnum):
    """Where a slice stands. BOUNDARY is passed through and never rested in."""

    GRANTED = 0
    BOUNDARY = 1
    FETCHING = 2
    ASKING = 3
    HANDLING = 4
    BURYING = 5
    CONFIRMING = 6
    RETURNING = 7
    SETTLING = 8
    OVER = 9


class Trigger(IntEnum):
    """What moves a slice. Those from BOUNDARY are chosen by the machine itself."""

    BEGIN = 0
    NEXT_FRESH = 1
    NEXT_SEEN_BEFORE = 2
    HAND_EMPTY = 3
    END_UNTOUCHED = 4
    END_CLEAN = 5
    END_HOLDING = 6
    FETCHED = 7
    MAY_START = 8
    ATTEMPTS_SPENT = 9
    TOLD_TO_STOP = 10
    HANDLED = 11
    FAILED = 12
    FAILED_FINALLY = 13
    REJECTED = 14
    BURIED = 15
    NOT_BURIED = 16
    CONFIRMED = 17
    RETURNED = 18
    SETTLED = 19
    CANCELLED = 20
    CHANNEL_REFUSED = 21
    LINK_LOST = 22
    NO_CHANNEL = 23


class Do(IntEnum):
    """An instruction; its particulars are the machine's attributes. All but ACK are answered by an event."""

    FETCH = 0
    """`fetch_most` messages of the queue."""
    ASK = 1
    """Report progress with `current.message_id` as the starting message."""
    START = 2
    """The handler on `current`, as attempt `attempt`."""
    DEAD_LETTER = 3
    """`current`, for `dead_reason`, after `attempts_made` attempts."""
    ACK = 4
    """`finished`."""
    BARRIER = 5
    """A synchronous answer of the broker on the slice's channel."""
    CLOSE = 6
    """The slice's channel: gives back what is in hand."""
    SETTLE = 7
    """The lease, with `end`."""


class Row(NamedTuple):
    """Where a trigger leads, and what is to be done then."""

    to: State
    do: tuple[Do, ...] = ()


_CUT_OFF = {
    Trigger.CANCELLED: Row(State.RETURNING, (Do.CLOSE,)),
    Trigger.CHANNEL_REFUSED: Row(State.SETTLING, (Do.SETTLE,)),
    Trigger.LINK_LOST: Row(State.SETTLING, (Do.SETTLE,)),
}

TABLE: dict[State, dict[Trigger, Row]] = {
    State.GRANTED: {Trigger.BEGIN: Row(State.BOUNDARY)},
    State.BOUNDARY: {
        Trigger.NEXT_FRESH: Row(State.HANDLING, (Do.START,)),
        Trigger.NEXT_SEEN_BEFORE: Row(State.ASKING, (Do.ASK,)),
        Trigger.HAND_EMPTY: Row(State.FETCHING, (Do.FETCH,)),
        Trigger.END_UNTOUCHED: Row(State.SETTLING, (Do.SETTLE,)),
        Trigger.END_CLEAN: Row(State.CONFIRMING, (Do.BARRIER,)),
        Trigger.END_HOLDING: Row(State.RETURNING, (Do.CLOSE,)),
    },
    State.FETCHING: {
        Trigger.FETCHED: Row(State.BOUNDARY),
        Trigger.NO_CHANNEL: Row(State.SETTLING, (Do.SETTLE,)),
        **_CUT_OFF,
    },
    State.ASKING: {
        Trigger.MAY_START: Row(State.HANDLING, (Do.START,)),
        Trigger.ATTEMPTS_SPENT: Row(State.BURYING, (Do.DEAD_LETTER,)),
        Trigger.TOLD_TO_STOP: Row(State.RETURNING, (Do.CLOSE,)),
        **_CUT_OFF,
    },
    State.HANDLING: {
        Trigger.HANDLED: Row(State.BOUNDARY, (Do.ACK,)),
        Trigger.FAILED: Row(State.RETURNING, (Do.CLOSE,)),
        Trigger.FAILED_FINALLY: Row(State.BURYING, (Do.DEAD_LETTER,)),
        Trigger.REJECTED: Row(State.BURYING, (Do.DEAD_LETTER,)),
        **_CUT_OFF,
    },
    State.BURYING: {
        Trigger.BURIED: Row(State.BOUNDARY, (Do.ACK,)),
        Trigger.NOT_BURIED: Row(State.RETURNING, (Do.CLOSE,)),
        **_CUT_OFF,
    },
    State.CONFIRMING: {Trigger.CONFIRMED: Row(State.SETTLING, (Do.SETTLE,)), **_CUT_OFF},
    State.RETURNING: {
        Trigger.RETURNED: Row(State.SETTLING, (Do.SETTLE,)),
        # The broker closed the channel itself: what was in hand has gone back all the same.
        Trigger.CHANNEL_REFUSED: Row(State.SETTLING, (Do.SETTLE,)),
        Trigger.LINK_LOST: Row(State.SETTLING, (Do.SETTLE,)),
    },
    State.SETTLING: {Trigger.SETTLED: Row(State.OVER)},
    State.OVER: {},
}


class Fetched(Protocol):
    """What the machine must see of a message."""

    @property
    def body(self) -> bytes:
        """Its bytes."""
        ...

    @property
    def redelivered(self) -> bool:
        """Whether it was delivered before."""
        ...

    @property
    def message_id(self) -> str:
        """The same at each delivery."""
        ...


M = TypeVar("M", bound=Fetched)


class SliceOrderError(RuntimeError):
    """An event that the state does not allow: a fault of whoever drives the machine."""


class SliceMachine(Generic[M]):
    """One slice. Each event returns the instructions to execute, in order; instants are float seconds of one clock.

    `moved` is told each (state, trigger) passed, for tests and traces.
    """

    def __init__(
        self, grant: Grant, *, window: int = FETCH_WINDOW, moved: Callable[[State, Trigger], None] | None = None
    ) -> None:
        self.grant = grant
        self.state = State.GRANTED
        self.current: M | None = None
        self.attempt = 0
        self.attempts_made = 0
        self.dead_reason = ""
        self.finished: M | None = None
        self.fetch_most = 0
        self._window = window
        self._moved = moved
        self._hand: deque[M] = deque()
        self._taken = 0
        self._touched = False
        self._seen_empty = False
        self._stop: EndReason | None = None
        self._reason: EndReason | None = None
        self._ends_at_s = 0.0
        self._started_s = 0.0
        self._counted = False
        self._acks_handled = False
        self._failed_id = ""
        self._finished_ids: list[str] = []
        self._messages = self._failed = self._dead_lettered = self._bytes = 0
        self._handler_s = 0.0

    # ---- what there is to know ---------------------------------------------------------------------------------------

    @property
    def totals(self) -> SliceTotals:
        """What the slice has done so far."""
        handler_us = int(self._handler_s * 1_000_000)
        return SliceTotals(self._messages, self._failed, self._dead_lettered, self._bytes, handler_us)

    @property
    def untouched(self) -> bool:
        """Whether nothing was fetched yet."""
        return not self._touched

    @property
    def finished_ids(self) -> tuple[str, ...]:
        """Ids counted with an ASK whose messages are done, and not yet reported."""
        return tuple(self._finished_ids)

    @property
    def end(self) -> SliceEnd:
        """The end to settle with; only once SETTLE was told."""
        if self._reason is None:
            raise SliceOrderError("the slice has not come to an end")
        left = [*([self.current] if self.current is not None else []), *self._hand]
        returned = tuple(message.message_id for message in left if message.message_id != self._failed_id)
        return SliceEnd(self.grant, self._reason, self.totals, returned, self.finished_ids, self._failed_id)

    # ---- what can happen ---------------------------------------------------------------------------------------------

    def begin(self, now_s: float) -> tuple[Do, ...]:
        """The grant is here."""
        self._ends_at_s = now_s + self.grant.max_duration_s
        return self._move(Trigger.BEGIN, now_s)

    def fetched(self, messages: Sequence[M], now_s: float) -> tuple[Do, ...]:
        """FETCH was answered; fewer messages than asked for mean that the queue was seen empty."""
        if len(messages) > self.fetch_most:
            raise SliceOrderError(f"{len(messages)} messages, but {self.fetch_most} were asked for")
        self._seen_empty = len(messages) < self.fetch_most
        self._touched = self._touched or bool(messages)
        self._hand.extend(messages)
        return self._move(Trigger.FETCHED, now_s)

    def attempt_counted(self, attempt: int, stop: EndReason | None, now_s: float) -> tuple[Do, ...]:
        """ASK was answered: this is the number of the attempt, and perhaps the slice is to stop."""
        self._counted = True
        self._stop = self._stop or stop
        if self._stop is not None:
            self._reason = self._stop
            return self._move(Trigger.TOLD_TO_STOP, now_s)
        self.attempt, self._started_s = attempt, now_s
        if attempt <= self.grant.max_attempts:
            return self._move(Trigger.MAY_START, now_s)
        return self._bury("max_attempts", attempt - 1, Trigger.ATTEMPTS_SPENT, now_s)

    def handled(self, now_s: float) -> tuple[Do, ...]:
        """The handler ended well."""
        self._took(now_s)
        self._messages += 1
        self._finish()
        self._acks_handled = True
        return self._move(Trigger.HANDLED, now_s)

    def failed(self, now_s: float) -> tuple[Do, ...]:
        """The handler raised: to be retried, or after the last attempt dead-lettered."""
        self._took(now_s)
        self._failed += 1
        if self.attempt >= self.grant.max_attempts:
            return self._bury("max_attempts", self.attempt, Trigger.FAILED_FINALLY, now_s)
        self._fail()
        return self._move(Trigger.FAILED, now_s)

    def rejected(self, reason: str, now_s: float) -> tuple[Do, ...]:
        """The handler, or the choice of one, said that the message will never succeed."""
        self._took(now_s)
        return self._bury(reason, self.attempt, Trigger.REJECTED, now_s)

    def buried(self, now_s: float) -> tuple[Do, ...]:
        """DEAD_LETTER is confirmed."""
        self._dead_lettered += 1
        self._finish()
        self._acks_handled = False
        return self._move(Trigger.BURIED, now_s)

    def not_buried(self, now_s: float) -> tuple[Do, ...]:
        """DEAD_LETTER failed: the message rests like one to be retried."""
        self._fail()
        return self._move(Trigger.NOT_BURIED, now_s)

    def confirmed(self) -> tuple[Do, ...]:
        """BARRIER was answered."""
        return self._move(Trigger.CONFIRMED, 0.0)

    def returned(self) -> tuple[Do, ...]:
        """CLOSE was answered."""
        return self._move(Trigger.RETURNED, 0.0)

    def settled(self) -> tuple[Do, ...]:
        """SETTLE is over, answered or not."""
        return self._move(Trigger.SETTLED, 0.0)

    def stop(self, reason: EndReason) -> None:
        """The slice is to end at the next boundary; the first reason counts. Allowed at any time."""
        self._stop = self._stop or reason

    def cancelled(self, reason: EndReason) -> tuple[Do, ...]:
        """Whatever ran was cancelled (LEASE_LOST, or SHUTDOWN when the grace is over)."""
        self._reason = reason
        return self._move(Trigger.CANCELLED, 0.0)

    def channel_refused(self, *, ack_failed: bool = False) -> tuple[Do, ...]:
        """The broker closed the slice's channel; with `ack_failed` it was seen by the last ACK."""
        self._unack(ack_failed)
        if ack_failed or self.state is not State.RETURNING:
            self._reason = EndReason.ERROR
        return self._move(Trigger.CHANNEL_REFUSED, 0.0)

    def link_lost(self, *, ack_failed: bool = False) -> tuple[Do, ...]:
        """The link to the broker is gone; with `ack_failed` it was seen by the last ACK."""
        self._unack(ack_failed)
        self._reason = EndReason.BROKER_LOST
        return self._move(Trigger.LINK_LOST, 0.0)

    def no_channel(self) -> tuple[Do, ...]:
        """There is no link to the broker to open the slice's channel on: nothing was asked of the queue."""
        self._reason = EndReason.UNUSED
        return self._move(Trigger.NO_CHANNEL, 0.0)

    def reported(self, finished_ids: Sequence[str]) -> None:
        """A progress report with these ids (a beginning of `finished_ids`) was answered."""
        del self._finished_ids[: len(finished_ids)]

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _move(self, trigger: Trigger, now_s: float) -> tuple[Do, ...]:
        do = self._step(trigger)
        if self.state is not State.BOUNDARY:
            return do
        following = self._step(self._choose(now_s))
        return do + following if do else following

    def _step(self, trigger: Trigger) -> tuple[Do, ...]:
        row = TABLE[self.state].get(trigger)
        if row is None:
            raise SliceOrderError(f"{trigger.name} while {self.state.name}")
        if self._moved is not None:
            self._moved(self.state, trigger)
        self.state = row.to
        return row.do

    def _choose(self, now_s: float) -> Trigger:
        """At a boundary: the next message, the next fetch, or the end."""
        self._reason = self._end_reason(now_s)
        if self._reason is not None:
            return self._way_out()
        if not self._hand:
            self.fetch_most = min(self._window, self.grant.max_messages - self._taken)
            return Trigger.HAND_EMPTY
        self.current = self._hand.popleft()
        self._taken += 1
        self._counted = False
        if self.current.redelivered:
            return Trigger.NEXT_SEEN_BEFORE
        self.attempt, self._started_s = 1, now_s
        return Trigger.NEXT_FRESH

    def _end_reason(self, now_s: float) -> EndReason | None:
        if self._stop is not None:
            return self._stop
        if self._taken >= self.grant.max_messages:
            return EndReason.MESSAGES
        if self._seen_empty and not self._hand:
            return EndReason.EMPTY
        # One message at least, or a queue with a short time limit would never get on.
        if self._taken and now_s >= self._ends_at_s:
            return EndReason.TIME
        return None

    def _way_out(self) -> Trigger:
        if self._hand:
            return Trigger.END_HOLDING
        if self._touched:
            return Trigger.END_CLEAN
        if self._reason is EndReason.SHUTDOWN:
            self._reason = EndReason.UNUSED
        return Trigger.END_UNTOUCHED

    def _took(self, now_s: float) -> None:
        if self.current is not None:
            self._bytes += len(self.current.body)
        self._handler_s += max(0.0, now_s - self._started_s)

    def _finish(self) -> None:
        if self._counted and self.current is not None:
            self._finished_ids.append(self.current.message_id)
        self.finished, self.current = self.current, None

    def _fail(self) -> None:
        self._reason = EndReason.ERROR
        self._failed_id = self.current.message_id if self.current is not None else ""

    def _bury(self, reason: str, attempts_made: int, trigger: Trigger, now_s: float) -> tuple[Do, ...]:
        self.dead_reason, self.attempts_made = reason, attempts_made
        return self._move(trigger, now_s)

    def _unack(self, ack_failed: bool) -> None:
        """The message comes back, though its handler ended well."""
        if ack_failed and self._acks_handled:
            self._messages -= 1
