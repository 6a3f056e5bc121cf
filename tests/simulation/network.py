"""Between workers and control planes: calls that get lost, late or doubled, and the side of the lease service.

May know the twin's commands and the timeline. May not know what workers do. A call is executed when it arrives, wherever its
caller is by then; a caller that was seen to leave has its grant given back, as the control plane does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import outcome
import trio

from slicelease.control_plane.domain.commands import Acquire, Command, GiveBack, Renew, Settle
from slicelease.control_plane.domain.outcomes import GivenBack, Granted, Outcome, Settled
from slicelease.worker.leases import Directive

from .shape import Shape
from .timeline import Timeline

TIMEOUT_S = 2.5
"""After which the client gives an exchange up, as `lease_client.exchange` does."""
LeaseCommand = Acquire | Renew | Settle


class UnavailableError(Exception):
    """This try brought no answer."""


class Call:
    """One try of a lease call on its way. `task` is None once nobody waits for it; `ended`: it timed out or was answered.

    An answer that comes after that is dropped, as gRPC does: the slot may hold the lease by a repeated try.
    """

    __slots__ = ("command", "ended", "on_late", "task")

    def __init__(self, command: LeaseCommand, on_late: Callable[[Granted], None]) -> None:
        self.command = command
        self.task: trio.lowlevel.Task | None = None
        self.on_late = on_late
        self.ended = False

    async def wait(self) -> Outcome:
        """The answer. Raises UnavailableError."""
        self.task = trio.lowlevel.current_task()

        def leave(_: object) -> trio.lowlevel.Abort:
            self.task = None
            return trio.lowlevel.Abort.SUCCEEDED

        answer: Outcome = await trio.lowlevel.wait_task_rescheduled(leave)
        return answer

    def end(self, answer: outcome.Outcome[Outcome]) -> None:
        """Tells the waiting task, if it still waits."""
        task, self.task = self.task, None
        self.ended = True
        if task is not None:
            trio.lowlevel.reschedule(task, answer)


class Network:
    """`execute` is a ledger step through some replica; it returns None while none can be reached, or the store is away."""

    def __init__(
        self, timeline: Timeline, dice: Random, shape: Shape, execute: Callable[[Sequence[Command]], list[Outcome] | None]
    ) -> None:
        self._timeline = timeline
        self._dice = dice
        self._bad = shape.lost_call
        self._execute = execute
        self.listeners: dict[str, Callable[[Directive], None]] = {}
        self.troubles: dict[str, int] = dict.fromkeys(("lost requests", "lost replies", "slow calls", "doubled calls"), 0)
        self.given_back = 0

    def calm(self) -> None:
        """Nothing gets lost any more."""
        self._bad = 0.0

    def send(self, call: Call) -> None:
        """Sends a try."""
        luck, there_s = self._dice.random(), self._dice.random() * 0.004
        if luck < self._bad:
            self.troubles["lost requests"] += 1
            self._fail_after(TIMEOUT_S, call)
            return
        late_s = 0.0
        if luck < 2 * self._bad:
            self.troubles["slow calls"] += 1
            late_s = self._dice.random() * 5
            self._fail_after(TIMEOUT_S, call)
        self._timeline.after(there_s + late_s, lambda: self._arrive(call))
        if 2 * self._bad <= luck < 3 * self._bad:
            self.troubles["doubled calls"] += 1
            self._timeline.after(self._dice.random(), lambda: self._arrive_again(call))

    def direct(self, session: str, directive: Directive) -> None:
        """Pushes a directive; now and then it is lost."""
        hear = self.listeners.get(session)
        if hear is not None and self._dice.random() >= 0.1:
            self._timeline.after(self._dice.random() * 0.01, lambda: hear(directive))

    def _fail_after(self, seconds: float, call: Call) -> None:
        self._timeline.after(seconds, lambda: call.end(outcome.Error(UnavailableError())))

    def _arrive(self, call: Call) -> None:
        outcomes = self._execute([call.command])
        if outcomes is None:
            self._fail_after(0.002, call)
        elif call.task is None and not call.ended and self._dice.random() < 0.5:
            self._give_back(call, outcomes[0])  # its caller was seen to leave
        elif self._dice.random() < self._bad:
            self.troubles["lost replies"] += 1
            self._fail_after(TIMEOUT_S, call)
        else:
            self._timeline.after(self._dice.random() * 0.004, lambda: self._reply(call, outcomes[0]))

    def _arrive_again(self, call: Call) -> None:
        self._execute([call.command])  # nobody hears the answer

    def _reply(self, call: Call, answer: Outcome) -> None:
        if call.task is not None:
            call.end(outcome.Value(answer))
        elif not call.ended and (granted := granted_in(answer)) is not None:
            call.on_late(granted)

    def _give_back(self, call: Call, answer: Outcome) -> None:
        granted, request = granted_in(answer), call.command.request
        if granted is None:
            return
        returned = self._execute([GiveBack(request.session, request.slot, request.n, granted.lease, granted.carried)])
        if returned is not None and isinstance(returned[0], GivenBack):
            self.given_back += returned[0].ended


def granted_in(answer: Outcome) -> Granted | None:
    """The lease that an answer carries, if any."""
    if isinstance(answer, Granted):
        return answer
    return answer.next if isinstance(answer, Settled) else None
