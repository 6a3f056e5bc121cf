"""The lease client: numbers requests, repeats them until they are answered, and keeps the session's stream open.

May know Trio, gRPC stubs and the conversion. May not know slices or the broker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from itertools import count

import grpc
import structlog
import trio
from google.protobuf.duration_pb2 import Duration

from slicelease.v1 import lease_service_pb2 as pb
from slicelease.v1 import lease_service_pb2_grpc as pb_grpc
from slicelease.worker.leases import (
    CallStatistics,
    Denial,
    Directive,
    EndReason,
    Grant,
    ProgressReport,
    Renewal,
    Settlement,
    SliceEnd,
    SliceTotals,
    Ticket,
    Welcome,
)
from slicelease.worker.ports import (
    LeaseOverError,
    LeaseServiceUnavailableError,
    ProtocolUnsupportedError,
    RequestRefusedError,
)

from . import convert
from .exchange import ExchangeFailedError, Exchanges
from .faults import Fault, fault_of_status
from .stream import events_of

_log = structlog.get_logger(__name__)

PROTOCOL_VERSION = 1
GIVE_BACK_WITHIN_S = 2.0
_FIRST_BACKOFF_S = 0.05
_BACKOFF_CAP_S = 1.0


@dataclass(slots=True)
class _SlotLine:
    """The requests of one slot: one at a time, each with a higher number."""

    n: int = 0
    lock: trio.Lock = field(default_factory=trio.Lock)


class GrpcLeaseClient:
    """Implements `ports.LeaseClient` for one session. `random_number` gives numbers in [0, 1), for jitter."""

    def __init__(
        self,
        channel: grpc.Channel,
        session: str,
        *,
        amqp_heartbeat_s: float,
        random_number: Callable[[], float],
        worker_version: str = "",
    ) -> None:
        self._stub = pb_grpc.LeaseServiceStub(channel)
        self._session = session
        self._amqp_heartbeat_s = amqp_heartbeat_s
        self._worker_version = worker_version
        self._random = random_number
        self._lines: dict[int, _SlotLine] = {}
        self._exchanges: Exchanges | None = None
        self._nursery: trio.Nursery | None = None
        self._unready: str | None = "lease service: no session yet"
        self._late_grants_total = 0

    # ---- the session -------------------------------------------------------------------------------------------------

    async def run(
        self,
        on_directive: Callable[[Directive], None],
        *,
        task_status: trio.TaskStatus[Welcome] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """See `ports.LeaseClient.run`."""
        self._exchanges = Exchanges(self._stub.ExchangeLeases.future, self._answered_late)
        welcomed: list[Welcome] = []

        def hear(welcome: Welcome) -> None:
            if not welcomed:
                task_status.started(welcome)
            welcomed.append(welcome)

        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(self._exchanges.run)
            await self._keep_watching(hear, on_directive)

    def unready_reason(self) -> str | None:
        """See `ports.LeaseClient.unready_reason`."""
        return self._unready

    def statistics(self) -> CallStatistics:
        """Counts so far; may be called from any thread."""
        sent = self._exchanges
        if sent is None:
            return CallStatistics()
        return CallStatistics(sent.calls_total, sent.exchanges_total, self._late_grants_total)

    async def _keep_watching(self, hear: Callable[[Welcome], None], on_directive: Callable[[Directive], None]) -> None:
        failures = 0
        while True:
            fault, opened = await self._watch(hear, on_directive)
            failures = 0 if opened else failures + 1
            if fault is not None and fault.reason == "PROTOCOL_UNSUPPORTED":
                raise ProtocolUnsupportedError(fault.text)
            self._unready = f"lease service: {fault or 'the stream ended'}"
            if failures in (1, 10) or failures % 100 == 0:
                _log.warning("no session with the control plane; trying again", why=str(fault), failures=failures)
            await trio.sleep(self._backoff_s(failures))

    async def _watch(
        self, hear: Callable[[Welcome], None], on_directive: Callable[[Directive], None]
    ) -> tuple[Fault | None, bool]:
        """One stream, to its end: why it ended, and whether it was ever open."""
        fault, opened = None, False
        async with events_of(self._stub.WatchDirectives(self._watch_request())) as events:
            async for event in events:
                if isinstance(event, Fault):
                    fault = event
                elif event.HasField("welcome"):
                    welcome = convert.welcome(event.welcome)
                    self._check(welcome)
                    opened, self._unready = True, None
                    hear(welcome)
                elif (directive := convert.directive(event.lease_directive)) is not None:
                    on_directive(directive)
        return fault, opened

    def _watch_request(self) -> pb.WatchDirectivesRequest:
        heartbeat = Duration()
        heartbeat.FromMilliseconds(round(self._amqp_heartbeat_s * 1000))
        return pb.WatchDirectivesRequest(
            session=self._session,
            protocol_version=PROTOCOL_VERSION,
            amqp_heartbeat=heartbeat,
            worker_version=self._worker_version,
        )

    def _check(self, welcome: Welcome) -> None:
        longest_s = welcome.max_amqp_heartbeat_s
        if not 0 < self._amqp_heartbeat_s <= longest_s:
            raise ProtocolUnsupportedError(
                f"amqp_heartbeat is {self._amqp_heartbeat_s:g} s, and this installation allows 1 to {longest_s:g} s: what the "
                "control plane waits after a lost lease is reckoned from it"
            )

    # ---- the three calls ---------------------------------------------------------------------------------------------

    async def acquire(self, slot: int, classes: Sequence[str], ticket: Ticket | None, *, within_s: float) -> Grant | Denial:
        """See `ports.LeaseClient.acquire`."""

        def build(request_id: str) -> pb.LeaseCall:
            return convert.acquire_call(self._session, slot, classes, ticket, request_id)

        return convert.acquire_answer((await self._request(slot, build, within_s)).acquire)

    async def progress(self, slot: int, report: ProgressReport, *, within_s: float) -> Renewal:
        """See `ports.LeaseClient.progress`."""
        answer = await self._request(slot, lambda request_id: convert.progress_call(report, request_id), within_s)
        return convert.progress_answer(answer.progress)

    async def settle(self, slot: int, end: SliceEnd, *, next_among: Sequence[str], within_s: float) -> Settlement:
        """See `ports.LeaseClient.settle`."""
        answer = await self._request(slot, lambda request_id: convert.settle_call(end, next_among, request_id), within_s)
        return convert.settle_answer(answer.settle)

    async def _request(self, slot: int, build: Callable[[str], pb.LeaseCall], within_s: float) -> pb.LeaseAnswer:
        with trio.move_on_after(within_s):
            line = self._line(slot)
            async with _turn_in(line):
                line.n += 1
                return await self._repeat(build(f"{self._session}/{slot}/{line.n}"))
        raise LeaseServiceUnavailableError(f"no answer within {within_s:.3g} s; {self._unready or 'the control plane is slow'}")

    async def _repeat(self, call: pb.LeaseCall) -> pb.LeaseAnswer:
        """Sends the same bytes under the same id until the ledger has answered."""
        if self._exchanges is None:
            raise RuntimeError("the lease client is not running")
        for failures in count(1):
            try:
                answer = await self._exchanges.ask(call)
            except ExchangeFailedError as error:
                fault = error.fault
            else:
                if answer.HasField("error"):
                    fault = fault_of_status(answer.error)
                elif _is_draining(answer):
                    fault = Fault("UNAVAILABLE", "SHUTTING_DOWN", "the control plane is draining", again=True)
                elif answer.WhichOneof("answer") == call.WhichOneof("call"):
                    return answer
                else:
                    fault = Fault("INTERNAL", "", "an answer to another call", again=True)
            _raise_final(fault)
            await trio.sleep(max(fault.retry_after_s, self._backoff_s(failures)))
        raise AssertionError("count() ended")

    def _line(self, slot: int) -> _SlotLine:
        line = self._lines.get(slot)
        if line is None:
            line = self._lines[slot] = _SlotLine()
        return line

    def _backoff_s(self, failures: int) -> float:
        """Full jitter over a half of the exponential ceiling."""
        ceiling_s = min(_BACKOFF_CAP_S, _FIRST_BACKOFF_S * 2.0 ** min(failures, 30))
        return ceiling_s * (0.5 + 0.5 * self._random())

    # ---- grants that nobody waits for --------------------------------------------------------------------------------

    def _answered_late(self, call: pb.LeaseCall, answer: pb.LeaseAnswer) -> None:
        granted = None
        if answer.HasField("acquire") and answer.acquire.HasField("granted"):
            granted = answer.acquire.granted
        elif answer.HasField("settle") and answer.settle.HasField("next_lease"):
            granted = answer.settle.next_lease
        if granted is None or self._nursery is None:
            return
        self._late_grants_total += 1
        slot = int(_request_id(call).split("/")[1])
        self._nursery.start_soon(self._give_back, slot, convert.grant(granted))

    async def _give_back(self, slot: int, grant: Grant) -> None:
        end = SliceEnd(grant, EndReason.UNUSED, SliceTotals())
        try:
            await self.settle(slot, end, next_among=(), within_s=GIVE_BACK_WITHIN_S)
        except (LeaseOverError, LeaseServiceUnavailableError, RequestRefusedError) as error:
            _log.info("a late grant runs out by itself", lease=grant.lease, why=str(error))


class _turn_in(AbstractAsyncContextManager[None]):  # noqa: N801  reads as a phrase
    """Holds the slot's line; a free line costs no checkpoint, for the exchange behind it is one."""

    __slots__ = ("_line",)

    def __init__(self, line: _SlotLine) -> None:
        self._line = line

    async def __aenter__(self) -> None:
        try:
            self._line.lock.acquire_nowait()
        except trio.WouldBlock:
            await self._line.lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._line.lock.release()


def _raise_final(fault: Fault) -> None:
    """Raises unless the call may be repeated."""
    if fault.lease_over:
        raise LeaseOverError(fault.text)
    if not fault.again:
        raise RequestRefusedError(str(fault))


def _is_draining(answer: pb.LeaseAnswer) -> bool:
    return (
        answer.HasField("acquire")
        and answer.acquire.HasField("denied")
        and answer.acquire.denied.reason == pb.DENIAL_REASON_DRAINING
    )


def _request_id(call: pb.LeaseCall) -> str:
    inner: pb.AcquireLeaseRequest | pb.ReportProgressRequest | pb.SettleLeaseRequest = getattr(
        call, call.WhichOneof("call") or "acquire"
    )
    return inner.request_id
