"""The slice machine: its rules as properties of random runs, every row of its table, and the diagram drawn from it."""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicelease.worker.leases import EndReason, Grant, SliceEnd
from slicelease.worker.slice_diagram import slice_machine_page
from slicelease.worker.slice_machine import TABLE, Do, SliceMachine, SliceOrderError, State, Trigger


@dataclass(frozen=True)
class Message:
    number: int
    redelivered: bool = False

    @property
    def body(self) -> bytes:
        return b"x" * self.number

    @property
    def message_id(self) -> str:
        return f"m{self.number}"


def grant(max_messages: int = 20, max_duration_s: float = 5.0, max_attempts: int = 3) -> Grant:
    return Grant(
        "tenants/t/queues/q/leases/7", "t", "q", "work.t.q", "standard", 7, 5.0, max_messages, max_duration_s, max_attempts
    )


class Driver:
    """Plays runtime, broker and ledger for one slice, and keeps account of each message; `choose` decides what happens."""

    def __init__(self, choose: Callable[[Sequence[Any]], Any], queue: list[Message], given_grant: Grant, window: int) -> None:
        self.rows: set[tuple[State, Trigger]] = set()
        self.machine: SliceMachine[Message] = SliceMachine(
            given_grant, window=window, moved=lambda state, trigger: self.rows.add((state, trigger))
        )
        self.choose = choose
        self.left = queue
        self.now_s = 100.0
        self.in_hand: list[Message] = []
        self.fetched_total = 0
        self.started: list[Message] = []
        self.acked: list[Message] = []
        self.buried: list[Message] = []
        self.returned: list[Message] = []
        self.settles: list[SliceEnd] = []
        self.link_up = True
        self.answered_since_ack = True
        self.asking = False

    def run(self) -> None:
        todo = self.machine.begin(self.now_s)
        while todo:
            if todo[0] is Do.ACK:
                todo = self.ack(todo)
                continue
            assert len(todo) == 1
            if self.happens("stop"):
                self.machine.stop(self.choose([EndReason.PAUSED, EndReason.SHUTDOWN, EndReason.REVOKED]))
            todo = self.cut_off(todo[0]) or self.execute(todo[0])
            self.now_s += self.choose([0.0, 0.1, 3.0])

    def happens(self, what: str, one_in: int = 8) -> bool:
        """`what` is for the reader."""
        return bool(self.choose([True] + [False] * (one_in - 1)))

    def ack(self, todo: tuple[Do, ...]) -> tuple[Do, ...]:
        message = self.machine.finished
        assert message is not None
        if self.happens("the link breaks at an ack", 20):
            self.lose_link()
            return self.machine.link_lost(ack_failed=True)
        if self.happens("the channel is refused at an ack", 20):
            self.give_back_all()
            return self.machine.channel_refused(ack_failed=True)
        self.in_hand.remove(message)
        self.acked.append(message)
        self.answered_since_ack = False
        return todo[1:]

    def cut_off(self, do: Do) -> tuple[Do, ...]:
        """Perhaps the instruction is not answered as it should be."""
        if do is Do.SETTLE:
            return ()
        if self.happens("the link breaks", 20):
            self.lose_link()
            never_open = do is Do.FETCH and not self.fetched_total and self.choose([True, False])
            return self.machine.no_channel() if never_open else self.machine.link_lost()
        if self.happens("the channel is refused", 20):
            self.give_back_all()
            return self.machine.channel_refused()
        if do is not Do.CLOSE and self.happens("cancelled", 20):
            return self.machine.cancelled(self.choose([EndReason.LEASE_LOST, EndReason.SHUTDOWN]))
        return ()

    def execute(self, do: Do) -> tuple[Do, ...]:
        machine = self.machine
        if do is Do.FETCH:
            assert not self.in_hand
            assert machine.fetch_most >= 1
            taken, self.left = self.left[: machine.fetch_most], self.left[machine.fetch_most :]
            self.in_hand = list(taken)
            self.fetched_total += len(taken)
            assert self.fetched_total <= machine.grant.max_messages
            return machine.fetched(taken, self.now_s)
        if do is Do.ASK:
            stop = EndReason.PAUSED if self.happens("told to stop") else None
            return machine.attempt_counted(self.choose([1, 2, 3, 4, 5]), stop, self.now_s)
        if do is Do.START:
            return self.handle()
        if do is Do.DEAD_LETTER:
            assert machine.dead_reason
            if self.happens("no dead letter"):
                return machine.not_buried(self.now_s)
            assert machine.current is not None
            self.buried.append(machine.current)
            return machine.buried(self.now_s)
        if do is Do.BARRIER:
            assert not self.in_hand
            self.answered_since_ack = True
            return machine.confirmed()
        if do is Do.CLOSE:
            self.give_back_all()
            return machine.returned()
        self.settles.append(machine.end)
        return machine.settled()

    def handle(self) -> tuple[Do, ...]:
        machine, message = self.machine, self.machine.current
        assert message is not None
        assert message == self.in_hand[0]
        assert 1 <= machine.attempt <= machine.grant.max_attempts
        assert message.redelivered or machine.attempt == 1
        self.started.append(message)
        verdict = self.choose(["ok"] * 8 + ["failed", "rejected"])
        if verdict == "ok":
            return machine.handled(self.now_s)
        return machine.failed(self.now_s) if verdict == "failed" else machine.rejected("bad", self.now_s)

    def give_back_all(self) -> None:
        self.returned, self.in_hand = list(self.in_hand), []
        self.answered_since_ack = True

    def lose_link(self) -> None:
        self.link_up = False
        self.give_back_all()
        self.answered_since_ack = False


slices = st.builds(
    grant,
    max_messages=st.integers(1, 8),
    max_duration_s=st.sampled_from([0.01, 2.0, 60.0]),
    max_attempts=st.integers(1, 3),
)
queues = st.lists(st.booleans(), max_size=12).map(
    lambda flags: [Message(number, redelivered) for number, redelivered in enumerate(flags, start=1)]
)


@settings(max_examples=400, deadline=None)
@given(st.data(), queues, slices, st.integers(1, 5))
def test_the_rules_hold_whatever_happens(data: st.DataObject, queue: list[Message], terms: Grant, window: int) -> None:
    driver = Driver(lambda options: data.draw(st.sampled_from(options)), list(queue), terms, window)
    driver.run()
    check(driver, queue)


def check(driver: Driver, queue: list[Message]) -> None:
    fetched = queue[: driver.fetched_total]
    # Settled once, as the last thing, and after an answer of the broker or with the reason that says there was none.
    assert driver.machine.state is State.OVER
    (end,) = driver.settles
    if driver.acked and not driver.answered_since_ack:
        assert end.reason is EndReason.BROKER_LOST
    # Every fetched message is acked or given back; what was given back is the end of what was fetched, in order.
    assert not driver.in_hand
    assert driver.acked + driver.returned == fetched
    assert set(driver.buried) <= set(fetched)
    # Handlers started in the order of the queue, each message once.
    assert driver.started == [message for message in fetched if message in driver.started]
    assert len(set(driver.started)) == len(driver.started)
    # The account of the ledger is right.
    totals = end.totals
    assert totals.messages == len([message for message in driver.acked if message not in driver.buried])
    assert totals.messages + totals.dead_lettered >= len(driver.acked)
    finished = set(end.finished_ids)
    assert finished <= {message.message_id for message in driver.started + driver.buried}
    assert not finished & set(end.returned_ids)
    if end.failed_id:
        assert end.failed_id not in end.returned_ids
    if end.reason is EndReason.EMPTY:
        assert not driver.left
    if end.reason is EndReason.UNUSED:
        assert not fetched
    if end.reason is EndReason.MESSAGES:
        assert driver.fetched_total == driver.machine.grant.max_messages
    if end.reason is EndReason.TIME:
        assert driver.acked


def test_every_row_of_the_table_is_passed() -> None:
    dice, passed = random.Random(7), set[tuple[State, Trigger]]()
    for _ in range(4_000):
        queue = [Message(number, dice.random() < 0.4) for number in range(1, dice.randrange(1, 10))]
        driver = Driver(dice.choice, list(queue), grant(dice.randrange(1, 8), dice.choice([0.01, 60.0]), 2), dice.randrange(1, 5))
        driver.run()
        check(driver, queue)
        passed |= driver.rows
    assert passed == {(state, trigger) for state, rows in TABLE.items() for trigger in rows}


def test_every_state_can_end() -> None:
    ends = {State.OVER}
    while True:
        more = {state for state, rows in TABLE.items() if any(row.to in ends for row in rows.values())} | ends
        if more == ends:
            break
        ends = more
    assert ends == set(State)


def test_an_event_out_of_order_is_a_fault_of_the_driver() -> None:
    machine: SliceMachine[Message] = SliceMachine(grant())
    with pytest.raises(SliceOrderError, match="HANDLED while GRANTED"):
        machine.handled(0.0)
    assert machine.begin(0.0) == (Do.FETCH,)
    with pytest.raises(SliceOrderError, match="21 messages, but 20"):
        machine.fetched([Message(number) for number in range(1, 22)], 0.0)
    with pytest.raises(SliceOrderError, match="not come to an end"):
        _ = machine.end


def test_a_short_time_limit_still_gets_one_message_on() -> None:
    machine: SliceMachine[Message] = SliceMachine(grant(max_duration_s=0.01))
    machine.begin(0.0)
    assert machine.fetched([Message(1), Message(2)], 1.0) == (Do.START,)
    assert machine.handled(1.0) == (Do.ACK, Do.CLOSE)
    machine.returned()
    assert (machine.end.reason, machine.end.returned_ids) == (EndReason.TIME, ("m2",))


def test_nothing_is_fetched_when_told_to_stop_before() -> None:
    machine: SliceMachine[Message] = SliceMachine(grant())
    machine.stop(EndReason.SHUTDOWN)
    assert machine.begin(0.0) == (Do.SETTLE,)
    assert machine.end.reason is EndReason.UNUSED


def test_an_empty_queue_needs_no_barrier() -> None:
    machine: SliceMachine[Message] = SliceMachine(grant())
    machine.begin(0.0)
    assert machine.fetched([], 0.0) == (Do.SETTLE,)
    assert machine.end.reason is EndReason.EMPTY


def test_the_last_failure_is_dead_lettered_and_an_earlier_one_given_back() -> None:
    machine: SliceMachine[Message] = SliceMachine(grant(max_attempts=2))
    machine.begin(0.0)
    assert machine.fetched([Message(1, redelivered=True), Message(2), Message(3)], 0.0) == (Do.ASK,)
    assert machine.attempt_counted(2, None, 0.0) == (Do.START,)
    assert machine.failed(0.5) == (Do.DEAD_LETTER,)
    assert (machine.dead_reason, machine.attempts_made) == ("max_attempts", 2)
    assert machine.buried(0.5) == (Do.ACK, Do.START)
    assert machine.failed(1.0) == (Do.CLOSE,)
    assert machine.returned() == (Do.SETTLE,)
    end = machine.end
    assert (end.reason, end.failed_id, end.returned_ids, end.finished_ids) == (EndReason.ERROR, "m2", ("m3",), ("m1",))
    assert (end.totals.failed, end.totals.dead_lettered, end.totals.bytes) == (2, 1, 3)
    assert end.totals.handler_us == 1_000_000


def test_a_message_over_its_attempts_is_dead_lettered_without_a_run() -> None:
    machine: SliceMachine[Message] = SliceMachine(grant(max_attempts=2))
    machine.begin(0.0)
    machine.fetched([Message(1, redelivered=True)], 0.0)
    assert machine.attempt_counted(3, None, 0.0) == (Do.DEAD_LETTER,)
    assert machine.attempts_made == 2


def test_reported_ids_are_not_reported_again() -> None:
    machine: SliceMachine[Message] = SliceMachine(grant())
    machine.begin(0.0)
    machine.fetched([Message(1, redelivered=True), Message(2, redelivered=True)], 0.0)
    machine.attempt_counted(1, None, 0.0)
    assert machine.handled(0.0) == (Do.ACK, Do.ASK)
    reported = machine.finished_ids
    assert reported == ("m1",)
    machine.attempt_counted(1, None, 0.0)
    machine.handled(0.0)
    machine.reported(reported)
    assert machine.finished_ids == ("m2",)


def test_the_diagram_shows_every_state_and_the_table_every_row() -> None:
    drawn = slice_machine_page()
    for state, rows in TABLE.items():
        assert re.search(rf"^    (\[\*\]|\w+) --> {state.name}\b", drawn, re.MULTILINE) or state is State.GRANTED
        for trigger, row in rows.items():
            assert f"| {state.name} | {trigger.name} | {row.to.name} |" in drawn
