"""The batcher: what many slots ask rides few exchanges, and the bridge from gRPC's threads into the Trio loop.

May know gRPC futures, Trio and lease calls. May not know what the calls mean, or who repeats them.

There is no timer. At most two exchanges are in flight, the second only for many calls or a renewal, which must not wait behind
a control plane that hangs; what is asked meanwhile rides the next, up to 256 calls each. A caller that is cancelled leaves its
call behind: not yet sent, it is withdrawn; sent, its answer goes to `on_late`; and when nobody waits for an exchange any more,
it is cancelled, so that the server sees its callers gone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

import grpc
import outcome
import trio

from slicelease.v1 import lease_service_pb2 as pb

from .faults import Fault, fault_of_call

MAX_CALLS = 256
MAX_IN_FLIGHT = 2
WORTH_A_SECOND = 16
"""An exchange costs both sides as much as dozens of calls, so few callers share one; with more waiting, two overlap."""
EXCHANGE_TIMEOUT_S = 2.5
"""After that a control plane counts as gone, and the calls are repeated, elsewhere if there is another. A renewal asked at a
third of the first validity (5 s) can be repeated once before the lease ends."""


def _share(waiting: int, lanes: int) -> int:
    """How many calls the next exchange takes: all, or an even share where each of the free lanes is worth an exchange."""
    return min(waiting if waiting < lanes * WORTH_A_SECOND else -(-waiting // lanes), MAX_CALLS)


class ExchangeFuture(Protocol):
    """What is used of gRPC's future."""

    def result(self) -> pb.ExchangeLeasesResponse:
        """The answer, or raises."""
        ...

    def cancel(self) -> object:
        """Gives it up; the server sees it."""
        ...

    def add_done_callback(self, fn: Callable[[Any], None]) -> None:
        """Called in a thread of gRPC."""
        ...


class Send(Protocol):
    """Starts one exchange: `stub.ExchangeLeases.future`."""

    def __call__(self, request: pb.ExchangeLeasesRequest, *, timeout: float) -> ExchangeFuture:
        """The future of its answer."""
        ...


class ExchangeFailedError(Exception):
    """The exchange brought no answer; what became of its calls is unknown."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        super().__init__(str(fault))


class _Entry:
    """One call on its way. `task` is None once its caller has left."""

    __slots__ = ("batch", "call", "task")

    def __init__(self, call: pb.LeaseCall, task: trio.lowlevel.Task) -> None:
        self.call = call
        self.task: trio.lowlevel.Task | None = task
        self.batch: _Batch | None = None


class _Batch:
    """One exchange in flight; `waiting` counts callers that have not left."""

    __slots__ = ("entries", "future", "waiting")

    def __init__(self, entries: list[_Entry]) -> None:
        self.entries = entries
        self.waiting = len(entries)
        self.future: ExchangeFuture | None = None


class Exchanges:
    """Must be made inside the Trio run that uses it. `on_late` gets the call and the answer of a caller that left."""

    def __init__(self, send: Send, on_late: Callable[[pb.LeaseCall, pb.LeaseAnswer], None]) -> None:
        self.calls_total = 0
        self.exchanges_total = 0
        self._send = send
        self._on_late = on_late
        self._token = trio.lowlevel.current_trio_token()
        self._waiting: deque[_Entry] = deque()
        self._in_flight: set[_Batch] = set()
        self._closed = False
        self._idle_pump: trio.lowlevel.Task | None = None

    async def run(self) -> None:
        """Sends what is asked, until cancelled; then what is in flight is given up."""
        try:
            while True:
                self._pump()
                await self._wait_for_calls()
        finally:
            self._close()

    async def ask(self, call: pb.LeaseCall) -> pb.LeaseAnswer:
        """The answer to one call. Raises ExchangeFailedError. A scope that ends the wait ends it at once."""
        await trio.lowlevel.checkpoint_if_cancelled()
        entry = _Entry(call, trio.lowlevel.current_task())
        self._waiting.append(entry)
        self._wake_pump()

        def abort(_: object) -> trio.lowlevel.Abort:
            self._leave(entry)
            return trio.lowlevel.Abort.SUCCEEDED

        answer: pb.LeaseAnswer = await trio.lowlevel.wait_task_rescheduled(abort)
        return answer

    def _wake_pump(self) -> None:
        """The pump runs after every task that can run now, so what is asked at one time rides one exchange."""
        task, self._idle_pump = self._idle_pump, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    async def _wait_for_calls(self) -> None:
        self._idle_pump = trio.lowlevel.current_task()

        def abort(_: object) -> trio.lowlevel.Abort:
            self._idle_pump = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def _close(self) -> None:
        self._closed = True
        for batch in self._in_flight:
            if batch.future is not None:
                batch.future.cancel()

    def _pump(self) -> None:
        while self._waiting and self._may_send():
            size = _share(len(self._waiting), MAX_IN_FLIGHT - len(self._in_flight))
            batch = _Batch([self._waiting.popleft() for _ in range(size)])
            for entry in batch.entries:
                entry.batch = batch
            self._in_flight.add(batch)
            self.calls_total += size
            self.exchanges_total += 1
            request = pb.ExchangeLeasesRequest(calls=[entry.call for entry in batch.entries])
            batch.future = self._send(request, timeout=EXCHANGE_TIMEOUT_S)
            batch.future.add_done_callback(partial(self._post, batch))

    def _may_send(self) -> bool:
        if self._closed or len(self._in_flight) >= MAX_IN_FLIGHT:
            return False
        return not self._in_flight or len(self._waiting) >= WORTH_A_SECOND or self._waiting[-1].call.HasField("progress")

    def _post(self, batch: _Batch, _: object) -> None:
        """In a thread of gRPC."""
        with suppress(trio.RunFinishedError):  # nobody is left to hear it
            self._token.run_sync_soon(self._arrived, batch)

    def _arrived(self, batch: _Batch) -> None:
        self._in_flight.discard(batch)
        answers = self._answers(batch)
        for index, entry in enumerate(batch.entries):
            answer = answers if isinstance(answers, Fault) else answers[index]
            self._hand_over(entry, answer)
        self._wake_pump()

    def _answers(self, batch: _Batch) -> list[pb.LeaseAnswer] | Fault:
        assert batch.future is not None  # noqa: S101  it is what has arrived
        try:
            answers = list(batch.future.result().answers)
        except (grpc.RpcError, grpc.FutureCancelledError) as error:
            return fault_of_call(error)
        if len(answers) != len(batch.entries):
            return Fault("INTERNAL", "", f"{len(answers)} answers to {len(batch.entries)} calls", again=True)
        return answers

    def _hand_over(self, entry: _Entry, answer: pb.LeaseAnswer | Fault) -> None:
        task, entry.task = entry.task, None
        if task is None:
            if not isinstance(answer, Fault):
                self._on_late(entry.call, answer)
        elif isinstance(answer, Fault):
            trio.lowlevel.reschedule(task, outcome.Error(ExchangeFailedError(answer)))
        else:
            trio.lowlevel.reschedule(task, outcome.Value(answer))

    def _leave(self, entry: _Entry) -> None:
        entry.task = None
        if entry.batch is None:
            self._waiting.remove(entry)
            return
        entry.batch.waiting -= 1
        if entry.batch.waiting == 0 and entry.batch.future is not None:
            entry.batch.future.cancel()
