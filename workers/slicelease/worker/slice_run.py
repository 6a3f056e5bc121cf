"""Executes one slice: what the machine tells it, and nothing else.

May know Trio and the ports. Decides nothing: which instruction comes, and what an event means, is the machine's. The
handler runs in the slot's own task, so a message costs no task; Cancelled of the lease's scope ends it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import structlog
import trio

from .handler_run import Failure, HandlerRunner, Rejection
from .handlers import Work
from .lease_keeper import HeldLease, LeaseKeeper
from .lease_window import LeaseWindow
from .leased_scope import LeasedScope
from .leases import EndReason, Grant, ProgressReport, SliceEnd
from .metrics import WorkerMetrics
from .ports import (
    BrokerLostError,
    DeadLetterError,
    Delivery,
    LeaseClient,
    LeaseOverError,
    LeaseServiceUnavailableError,
    QueueUnreadableError,
    RequestRefusedError,
    WorkChannel,
    WorkerBroker,
)
from .slice_machine import Do, SliceMachine, State

_log = structlog.get_logger(__name__)

CLOSE_WITHIN_S = 5.0
"""How long the broker may take to take messages back; longer, and the link counts as lost."""

Todo = tuple[Do, ...]
Feed = Callable[[float], Todo]
"""An event, all but its instant."""


@dataclass(frozen=True, slots=True)
class Crew:
    """What all slots of a process share."""

    broker: WorkerBroker
    leases: LeaseClient
    keeper: LeaseKeeper
    handlers: HandlerRunner
    metrics: WorkerMetrics


class Slot:
    """One slot: its number, the channel that it keeps from slice to slice, and what it does now, for the loop's watch."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.channel: WorkChannel | None = None
        self.task: trio.lowlevel.Task | None = None
        self.doing: Work | None = None


class SliceRun:
    """One slice. `run` returns its end, ready to be settled: the broker has processed whatever the slice said to it."""

    def __init__(self, crew: Crew, slot: Slot, grant: Grant, asked_s: float) -> None:
        self._crew = crew
        self._slot = slot
        self._grant = grant
        self._scope = LeasedScope(LeaseWindow(asked_s, grant.valid_s))
        self._machine: SliceMachine[Delivery] = SliceMachine(grant)
        self._error = ""
        self._link_is_lost = False
        self.held = HeldLease(slot.number, grant, self._machine, self._scope)

    async def run(self, stopping: EndReason | None) -> SliceEnd:
        """Until only SETTLE is left; `stopping` ends it before its first message."""
        if stopping is not None:
            self._machine.stop(stopping)
        self._crew.keeper.keep(self.held)
        try:
            todo = await self._under_lease()
            if todo[0] is Do.CLOSE:
                await self._give_back()
        finally:
            self._crew.keeper.release(self.held)
        return self._machine.end

    @property
    def window(self) -> LeaseWindow:
        """The lease's window, as last renewed."""
        return self._scope.window

    def over(self) -> None:
        """SETTLE is over."""
        self._machine.settled()

    # ---- under the lease ---------------------------------------------------------------------------------------------

    async def _under_lease(self) -> Todo:
        """Works until CLOSE or SETTLE is what comes next."""
        with self._scope:
            return await self._work()
        return self._machine.cancelled(self._scope.cause(trio.current_time()))

    async def _work(self) -> Todo:
        machine, scope, now = self._machine, self._scope, trio.current_time
        steps = {
            Do.FETCH: self._fetch,
            Do.ASK: self._ask,
            Do.START: self._start,
            Do.DEAD_LETTER: self._dead_letter,
            Do.BARRIER: self._barrier,
        }
        todo = machine.begin(now())
        while True:
            if todo[0] is Do.ACK:
                todo = self._ack(todo)
            step = steps.get(todo[0])
            if step is None:
                return todo
            feed, now_s = await step(), now()
            if scope.is_over(now_s) and not self._link_is_lost:
                self._count_late_ack(feed)
                return machine.cancelled(scope.cause(now_s))
            todo = feed(now_s)

    def _ack(self, todo: Todo) -> Todo:
        machine, finished = self._machine, self._machine.finished
        assert finished is not None  # noqa: S101  the machine told to ack it
        try:
            self._channel().ack(finished)
        except BrokerLostError:
            self._slot.channel = None
            self._crew.metrics.late_acks.inc()
            return machine.link_lost(ack_failed=True)
        except QueueUnreadableError as error:
            self._unreadable(error)
            self._crew.metrics.late_acks.inc()
            return machine.channel_refused(ack_failed=True)
        return todo[1:]

    async def _fetch(self) -> Feed:
        slot, machine = self._slot, self._machine
        try:
            # A channel kept from an earlier slice may have died with its link: nothing was asked on it for this one.
            if slot.channel is None or (machine.untouched and not slot.channel.is_open):
                slot.channel = await self._crew.broker.open_work_channel()
        except BrokerLostError:
            slot.channel = None
            return lambda _: machine.no_channel()
        try:
            messages = await slot.channel.fetch(self._grant.amqp_queue, machine.fetch_most)
        except BrokerLostError:
            return self._link_lost()
        except QueueUnreadableError as error:
            return self._refused(error)
        return lambda now_s: machine.fetched(messages, now_s)

    async def _ask(self) -> Feed:
        machine, held, asked_s = self._machine, self.held, trio.current_time()
        report = ProgressReport(self._grant, machine.totals, self._current().message_id, machine.finished_ids)
        try:
            renewal = await self._crew.leases.progress(
                self._slot.number, report, within_s=self._scope.window.remaining_s(asked_s)
            )
        except (LeaseOverError, RequestRefusedError) as error:
            _log.warning("lease lost", lease=self._grant.lease, why=str(error))
            self._scope.lose()
            return lambda _: ()
        except LeaseServiceUnavailableError:
            self._scope.lose()  # no time is left under this lease
            return lambda _: ()
        machine.reported(report.finished_ids)
        held.renewed(asked_s, renewal)
        return lambda now_s: machine.attempt_counted(renewal.attempt, renewal.stop, now_s)

    async def _start(self) -> Feed:
        machine, grant = self._machine, self._grant
        work = Work(self._current(), grant.tenant, grant.queue, machine.attempt, grant.fencing_token)
        self._slot.doing = work
        try:
            verdict = await self._crew.handlers.run(work)
        finally:
            self._slot.doing = None
        if verdict is None:
            return machine.handled
        if isinstance(verdict, Rejection):
            return self._rejected(verdict)
        return self._failed(verdict, work)

    async def _dead_letter(self) -> Feed:
        machine, grant = self._machine, self._grant
        headers = {
            "x-slicelease-reason": machine.dead_reason,
            "x-slicelease-tenant": grant.tenant,
            "x-slicelease-queue": grant.queue,
            "x-slicelease-attempts": str(machine.attempts_made),
            "x-slicelease-error": self._error,
        }
        try:
            await self._crew.broker.dead_letter(grant.tenant, self._current(), {k: v for k, v in headers.items() if v})
        except (DeadLetterError, BrokerLostError) as error:
            _log.error("no dead letter", tenant=grant.tenant, queue=grant.queue, why=str(error))
            return machine.not_buried
        where = {"tenant": grant.tenant, "queue": grant.queue, "message_id": self._current().message_id}
        _log.warning("dead-lettered", **where, reason=machine.dead_reason, attempts=machine.attempts_made)
        return machine.buried

    async def _barrier(self) -> Feed:
        machine = self._machine
        try:
            await self._channel().barrier(self._grant.amqp_queue)
        except BrokerLostError:
            return self._link_lost()
        except QueueUnreadableError as error:
            return self._refused(error)
        return lambda _: machine.confirmed()

    # ---- after the lease's scope -------------------------------------------------------------------------------------

    async def _give_back(self) -> None:
        machine, channel, self._slot.channel = self._machine, self._slot.channel, None
        if channel is None:
            machine.returned()
            return
        with trio.move_on_after(CLOSE_WITHIN_S):
            try:
                await channel.close()
                machine.returned()
            except BrokerLostError:
                machine.link_lost()
            except QueueUnreadableError:
                machine.channel_refused()
        if machine.state is State.RETURNING:
            machine.link_lost()

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _channel(self) -> WorkChannel:
        if self._slot.channel is None:
            raise BrokerLostError("the slot's channel is gone")
        return self._slot.channel

    def _current(self) -> Delivery:
        current = self._machine.current
        assert current is not None  # noqa: S101  the machine told to work on it
        return current

    def _rejected(self, verdict: Rejection) -> Feed:
        self._error = verdict.error
        return lambda now_s: self._machine.rejected(verdict.reason, now_s)

    def _failed(self, verdict: Failure, work: Work) -> Feed:
        self._error = verdict.error
        self._crew.metrics.handler_failed(verdict.handler)
        _log.warning(
            "handler failed",
            tenant=work.tenant,
            queue=work.queue,
            message_id=work.message_id,
            attempt=work.attempt,
            handler=verdict.handler,
            exc_info=verdict.cause,
        )
        return self._machine.failed

    def _link_lost(self) -> Feed:
        self._slot.channel, self._link_is_lost = None, True
        return lambda _: self._machine.link_lost()

    def _refused(self, error: QueueUnreadableError) -> Feed:
        self._unreadable(error)
        return lambda _: self._machine.channel_refused()

    def _unreadable(self, error: QueueUnreadableError) -> None:
        self._slot.channel = None
        _log.warning("queue unreadable", tenant=self._grant.tenant, queue=self._grant.queue, why=str(error))

    def _count_late_ack(self, feed: Feed) -> None:
        if feed == self._machine.handled:
            self._crew.metrics.late_acks.inc()
