"""A lease service over real gRPC whose answers a test decides: one thread a call, nothing remembered but what was asked."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2
from google.rpc.code_pb2 import FAILED_PRECONDITION, INVALID_ARGUMENT, UNAVAILABLE
from google.rpc.status_pb2 import Status

from slicelease.v1 import lease_service_pb2 as pb
from slicelease.v1 import lease_service_pb2_grpc as pb_grpc
from slicelease.v1 import resources_pb2

Answer = Callable[[pb.LeaseCall], pb.LeaseAnswer]


def duration(seconds: float) -> Duration:
    return Duration(seconds=int(seconds), nanos=round(seconds % 1 * 1e9))


def status(code: int, reason: str, retry_ms: int = 0) -> Status:
    """An error with its details, as the control plane makes it."""
    made = Status(code=code, message=f"text of {reason}")
    made.details.add().Pack(error_details_pb2.ErrorInfo(reason=reason, domain="slicelease"))
    if retry_ms:
        made.details.add().Pack(error_details_pb2.RetryInfo(retry_delay=duration(retry_ms / 1000)))
    return made


def failed(code: int, reason: str, retry_ms: int = 0) -> pb.LeaseAnswer:
    return pb.LeaseAnswer(error=status(code, reason, retry_ms))


LEASE_OVER = failed(FAILED_PRECONDITION, "LEASE_OVER")
BAD_FIELD = failed(INVALID_ARGUMENT, "INVALID_FIELD")
LEDGER_AWAY = failed(UNAVAILABLE, "LEDGER_UNAVAILABLE", 300)


def granted(tenant: str = "acme", token: int = 7, valid_s: float = 5.0) -> pb.Granted:
    """A complete grant."""
    queue_name = f"tenants/{tenant}/queues/default"
    return pb.Granted(
        lease=resources_pb2.Lease(
            name=f"{queue_name}/leases/{token}",
            queue=queue_name,
            amqp_queue=f"work.{tenant}",
            priority_class="standard",
            fencing_token=token,
        ),
        limits=resources_pb2.SliceLimits(max_messages=20, max_duration=duration(5)),
        valid_for=duration(valid_s),
        retry_policy=resources_pb2.RetryPolicy(max_attempts=5),
        ordering=resources_pb2.ORDERING_STRICT,
    )


def usual(call: pb.LeaseCall) -> pb.LeaseAnswer:
    """Grants a lease whose token is the number of the request, renews for 15 s, settles to IDLE."""
    if call.HasField("acquire"):
        return pb.LeaseAnswer(acquire=pb.AcquireLeaseResponse(granted=granted(token=number_of(call))))
    if call.HasField("progress"):
        going_on = pb.Directive(action=pb.Directive.ACTION_CONTINUE)
        return pb.LeaseAnswer(progress=pb.ReportProgressResponse(valid_for=duration(15), directive=going_on))
    return pb.LeaseAnswer(settle=pb.SettleLeaseResponse(disposition=pb.DISPOSITION_IDLE))


def inner(call: pb.LeaseCall) -> Any:
    """The request inside."""
    return getattr(call, str(call.WhichOneof("call")))


def number_of(call: pb.LeaseCall) -> int:
    """The n of `session/slot/n`."""
    return int(inner(call).request_id.rpartition("/")[2])


class LeaseServer(pb_grpc.LeaseServiceServicer):
    """Serves for the time of the block. `gate` holds every exchange back while it is cleared."""

    def __init__(self, address: str = "127.0.0.1:0") -> None:
        self.answer: Answer = usual
        self.exchanges: list[pb.ExchangeLeasesRequest] = []
        self.watches: list[pb.WatchDirectivesRequest] = []
        self.gate = threading.Event()
        self.gate.set()
        self.refuse_watch: Status | None = None
        self.max_heartbeat_s = 5.0
        self.drop_answers = 0
        self.cancelled = 0
        self.streams_ended = 0
        self._events: list[queue.Queue[pb.WatchDirectivesResponse | None]] = []
        self._server = grpc.server(ThreadPoolExecutor(40), options=[("grpc.so_reuseport", 0)])
        pb_grpc.add_LeaseServiceServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port(address)
        self.address = f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.gate.set()
        self.end_streams()
        self._server.stop(None).wait(5)

    @property
    def calls(self) -> list[pb.LeaseCall]:
        return [call for exchange in list(self.exchanges) for call in exchange.calls]

    def push(self, lease: str, reason: int) -> None:
        """A directive to stop, on every open stream."""
        directive = pb.Directive(action=pb.Directive.ACTION_STOP, reason=pb.EndReason.ValueType(reason))
        for events in self._events:
            events.put(pb.WatchDirectivesResponse(lease_directive=pb.LeaseDirective(lease=lease, directive=directive)))

    def end_streams(self) -> None:
        """Ends every stream in good order."""
        for events in self._events:
            events.put(None)

    def ExchangeLeases(  # noqa: N802  the name is gRPC's
        self, request: pb.ExchangeLeasesRequest, context: grpc.ServicerContext
    ) -> pb.ExchangeLeasesResponse:
        self.exchanges.append(request)
        while not self.gate.wait(0.02):
            if not context.is_active():
                self.cancelled += 1
                break
        answers = [self.answer(call) for call in request.calls]
        if self.drop_answers:
            self.drop_answers -= 1
            context.abort(grpc.StatusCode.UNAVAILABLE, "the connection broke after the step")
        return pb.ExchangeLeasesResponse(answers=answers)

    def AcquireLease(  # noqa: N802
        self, request: pb.AcquireLeaseRequest, _: grpc.ServicerContext
    ) -> pb.AcquireLeaseResponse:
        return self.answer(pb.LeaseCall(acquire=request)).acquire

    def ReportProgress(  # noqa: N802
        self, request: pb.ReportProgressRequest, _: grpc.ServicerContext
    ) -> pb.ReportProgressResponse:
        return self.answer(pb.LeaseCall(progress=request)).progress

    def SettleLease(self, request: pb.SettleLeaseRequest, _: grpc.ServicerContext) -> pb.SettleLeaseResponse:  # noqa: N802
        return self.answer(pb.LeaseCall(settle=request)).settle

    def WatchDirectives(  # noqa: N802  the name is gRPC's
        self, request: pb.WatchDirectivesRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.WatchDirectivesResponse]:
        self.watches.append(request)
        if self.refuse_watch is not None:
            details = (("grpc-status-details-bin", self.refuse_watch.SerializeToString()),)
            context.set_trailing_metadata(details)
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, self.refuse_watch.message)
        events: queue.Queue[pb.WatchDirectivesResponse | None] = queue.Queue()
        self._events.append(events)
        context.add_callback(lambda: events.put(None))
        yield pb.WatchDirectivesResponse(
            welcome=pb.Welcome(
                protocol_version=1,
                server_version="test",
                max_amqp_heartbeat=duration(self.max_heartbeat_s),
                lease_length=duration(15),
            )
        )
        while (event := events.get()) is not None:
            yield event
        self._events.remove(events)
        self.streams_ended += 1
