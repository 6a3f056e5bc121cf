"""LeaseService: lease calls of workers, each list of them one ledger step, and the stream of directives.

May live here: the service. May not know: Redis, how leases are chosen. Conversion is lease_convert.py's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import structlog

from slicelease.control_plane.domain.commands import Acquire, Command, GiveBack, Renew, Settle, SlotRequest
from slicelease.control_plane.domain.names import InvalidNameError, lease_name
from slicelease.control_plane.domain.outcomes import Denied, GivenBack, Granted, Outcome, Renewed, Settled
from slicelease.control_plane.metrics import Metrics
from slicelease.control_plane.ports import Ledger, LedgerUnavailableError, StopHint
from slicelease.v1 import lease_service_pb2 as pb
from slicelease.v1 import lease_service_pb2_grpc

from .convert import duration
from .directives import Sessions
from .gate import DeadlinePassedError, Gate
from .lease_convert import (
    DRAINING,
    check_session,
    fill_acquired,
    fill_renewed,
    fill_settled,
    read_acquire,
    read_call,
    read_progress,
    read_settle,
)
from .refusals import expect, from_exception
from .status import CallError, heartbeat_too_long, invalid_field, protocol_unsupported, shutting_down

PROTOCOL_VERSION = 1
MAX_CALLS = 256
TRANSIT_S = 0.01
"""An answer that has less time left is not sent."""

_LeaseCommand = Acquire | Renew | Settle
_log = structlog.get_logger("slicelease.rpc")


@dataclass(frozen=True, slots=True)
class Installation:
    """What workers are told of the installation. Milliseconds."""

    lease_ms: int
    heartbeat_ms: int
    version: str


class LeaseService(lease_service_pb2_grpc.LeaseServiceServicer):
    """Implements LeaseService."""

    def __init__(self, ledger: Ledger, sessions: Sessions, gate: Gate, metrics: Metrics, installation: Installation) -> None:
        self._ledger = ledger
        self._sessions = sessions
        self._gate = gate
        self._metrics = metrics
        self._installation = installation

    async def AcquireLease(self, request: pb.AcquireLeaseRequest, context: Any) -> pb.AcquireLeaseResponse:
        """Asks for a lease."""
        response = pb.AcquireLeaseResponse()
        await self._alone(read_acquire(request), response, context)
        return response

    async def ReportProgress(self, request: pb.ReportProgressRequest, context: Any) -> pb.ReportProgressResponse:
        """Renews a lease."""
        response = pb.ReportProgressResponse()
        await self._alone(read_progress(request), response, context)
        return response

    async def SettleLease(self, request: pb.SettleLeaseRequest, context: Any) -> pb.SettleLeaseResponse:
        """Ends a lease."""
        response = pb.SettleLeaseResponse()
        await self._alone(read_settle(request), response, context)
        return response

    async def ExchangeLeases(self, request: pb.ExchangeLeasesRequest, context: Any) -> pb.ExchangeLeasesResponse:
        """Works off the list in one ledger step; a call that is invalid or refused answers alone."""
        if not 1 <= len(request.calls) <= MAX_CALLS:
            raise invalid_field("calls", f"1 to {MAX_CALLS} calls")
        response = pb.ExchangeLeasesResponse()
        accepted: list[tuple[_LeaseCommand, pb.LeaseAnswer]] = []
        for call in request.calls:
            answer = response.answers.add()
            try:
                accepted.append((self._admit(read_call(call), accepted), answer))
            except (CallError, InvalidNameError) as error:
                _refuse(answer, error)
        await self._together(accepted, context)
        return response

    def _admit(self, command: _LeaseCommand, accepted: list[tuple[_LeaseCommand, pb.LeaseAnswer]]) -> _LeaseCommand:
        if accepted and accepted[0][0].request.session != command.request.session:
            raise invalid_field("request_id", "an exchange carries calls of one session")
        return command

    async def _together(self, accepted: list[tuple[_LeaseCommand, pb.LeaseAnswer]], context: Any) -> None:
        if self._gate.draining:
            accepted = [pair for pair in map(self._drained, accepted) if pair is not None]
        if not accepted:
            return
        outcomes = await self._step([command for command, _ in accepted], context)
        for (command, answer), outcome in zip(accepted, outcomes, strict=True):
            try:
                self._answer(answer, command, outcome)
            except CallError as error:
                _refuse(answer, error)

    def _drained(self, pair: tuple[_LeaseCommand, pb.LeaseAnswer]) -> tuple[_LeaseCommand, pb.LeaseAnswer] | None:
        """What of an exchange still goes to the ledger while this process drains."""
        command, answer = pair
        if not isinstance(command, Acquire):
            return _without_next(command), answer
        if command.announcement_id:
            _refuse(answer, shutting_down())
        else:
            fill_acquired(answer.acquire, self._denied_by_us(), command.request.session)
        return None

    async def _alone(self, command: _LeaseCommand, response: Any, context: Any) -> None:
        """One unary call.

        While this process drains, one who asks with a ticket is sent to another replica by an error: a denial that the ledger
        did not give would let the ticket be acked, and its turn would be lost.
        """
        if self._gate.draining:
            if not isinstance(command, Acquire):
                command = _without_next(command)
            elif command.announcement_id:
                raise shutting_down()
            else:
                fill_acquired(response, self._denied_by_us(), command.request.session)
                return
        (outcome,) = await self._step((command,), context)
        self._fill(response, command, outcome)

    def _denied_by_us(self) -> Denied:
        self._metrics.denied(DRAINING, "")
        return DRAINING

    def _answer(self, answer: pb.LeaseAnswer, command: _LeaseCommand, outcome: Outcome) -> None:
        if isinstance(command, Settle):
            self._settled(answer.settle, command, expect(outcome, Settled, command))
        elif isinstance(command, Acquire):
            self._acquired(answer.acquire, command, outcome)
        else:
            fill_renewed(answer.progress, expect(outcome, Renewed, command))

    def _fill(self, response: Any, command: _LeaseCommand, outcome: Outcome) -> None:
        if isinstance(command, Settle):
            self._settled(response, command, expect(outcome, Settled, command))
        elif isinstance(command, Acquire):
            self._acquired(response, command, outcome)
        else:
            fill_renewed(response, expect(outcome, Renewed, command))

    def _acquired(self, into: pb.AcquireLeaseResponse, command: Acquire, outcome: Outcome) -> None:
        if isinstance(outcome, Denied):
            self._metrics.denied(outcome, command.ticket_class)
            fill_acquired(into, outcome, command.request.session)
            return
        granted = expect(outcome, Granted, command)
        self._metrics.granted(granted)
        fill_acquired(into, granted, command.request.session)

    def _settled(self, into: pb.SettleLeaseResponse, command: Settle, outcome: Settled) -> None:
        self._metrics.settled(outcome, command.end_reason, command.totals)
        fill_settled(into, outcome, command.request.session)

    # ---- the ledger step, and callers that leave --------------------------------------------------------------------

    async def _step(self, commands: Sequence[_LeaseCommand], context: Any) -> list[Outcome]:
        """One ledger step that is carried to its end though the caller leaves: what it granted is then given back.

        A caller whose deadline has passed, or will have by the time the answer arrives, has left, though the news of it may come
        later than the end of the step.
        """
        step = asyncio.ensure_future(self._ledger.execute(commands))
        try:
            outcomes = await asyncio.shield(step)
        except asyncio.CancelledError:
            self._gate.behind(self._give_back(step, commands))
            raise
        remaining_s: float | None = context.time_remaining()
        if remaining_s is not None and remaining_s < TRANSIT_S:
            self._gate.behind(self._give_back(step, commands))
            raise DeadlinePassedError
        return outcomes

    async def _give_back(self, step: asyncio.Future[list[Outcome]], commands: Sequence[_LeaseCommand]) -> None:
        try:
            outcomes = await step
            returned = list(_give_backs(commands, outcomes))
            if returned:
                self._count_returned(await self._ledger.execute(returned))
        except LedgerUnavailableError:
            # Whatever was granted has the short first validity and runs out.
            _log.warning("a grant whose caller left could not be given back", commands=len(commands))

    def _count_returned(self, outcomes: list[Outcome]) -> None:
        ended = sum(1 for outcome in outcomes if isinstance(outcome, GivenBack) and outcome.ended)
        self._metrics.count("leases_given_back_total", by=ended)

    # ---- directives -------------------------------------------------------------------------------------------------

    async def WatchDirectives(
        self, request: pb.WatchDirectivesRequest, context: Any
    ) -> AsyncIterator[pb.WatchDirectivesResponse]:
        """Welcomes the session, then pushes what concerns its leases."""
        self._check_worker(request)
        session = check_session("session", request.session)
        with self._sessions.open(session) as stream:
            self._metrics.set("sessions", len(self._sessions))
            try:
                _log.info("session opened", session=session, worker_version=request.worker_version[:64])
                yield self._welcome()
                while (hint := await stream.next()) is not None:
                    self._metrics.count("directives_total")
                    yield _directive(hint)
            finally:
                self._metrics.set("sessions", len(self._sessions) - 1)
        raise shutting_down()

    def _check_worker(self, request: pb.WatchDirectivesRequest) -> None:
        if request.protocol_version != PROTOCOL_VERSION:
            raise protocol_unsupported(request.protocol_version, PROTOCOL_VERSION)
        given = request.amqp_heartbeat
        heartbeat_ms = given.seconds * 1_000 + given.nanos // 1_000_000
        if heartbeat_ms <= 0:
            raise invalid_field("amqp_heartbeat", "required: without heartbeats a dead link is never noticed")
        if heartbeat_ms > self._installation.heartbeat_ms:
            raise heartbeat_too_long(heartbeat_ms, self._installation.heartbeat_ms)

    def _welcome(self) -> pb.WatchDirectivesResponse:
        told = self._installation
        welcome = pb.Welcome(
            protocol_version=PROTOCOL_VERSION,
            server_version=told.version,
            max_amqp_heartbeat=duration(told.heartbeat_ms),
            lease_length=duration(told.lease_ms),
        )
        return pb.WatchDirectivesResponse(welcome=welcome)


def _refuse(answer: pb.LeaseAnswer, error: Exception) -> None:
    known = from_exception(error)
    if known is None:
        raise error
    answer.error.CopyFrom(known.status())


def _without_next(command: Renew | Settle) -> Renew | Settle:
    """A settle that asks for no next lease; its digest stays, so that a retry elsewhere is the same request."""
    return replace(command, want_next=False, classes=()) if isinstance(command, Settle) and command.want_next else command


def _give_backs(commands: Sequence[_LeaseCommand], outcomes: Sequence[Outcome]) -> list[Command]:
    pairs = ((command.request, _lease_in(outcome)) for command, outcome in zip(commands, outcomes, strict=True))
    return [_give_back_of(request, granted) for request, granted in pairs if granted is not None]


def _lease_in(outcome: Outcome) -> Granted | None:
    if isinstance(outcome, Granted):
        return outcome
    return outcome.next if isinstance(outcome, Settled) else None


def _give_back_of(request: SlotRequest, granted: Granted) -> GiveBack:
    return GiveBack(request.session, request.slot, request.n, granted.lease, granted.carried)


def _directive(hint: StopHint) -> pb.WatchDirectivesResponse:
    directive = pb.Directive(action=pb.Directive.ACTION_STOP, reason=pb.EndReason.ValueType(hint.reason))
    return pb.WatchDirectivesResponse(lease_directive=pb.LeaseDirective(lease=lease_name(hint.lease), directive=directive))
