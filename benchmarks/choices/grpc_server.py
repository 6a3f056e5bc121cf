"""A lease service in a process of its own. Argument: `uvloop`, `asyncio` or `threads` (they answer at once), or `slow`.

Prints its port, runs until its standard input ends, and prints what became of its calls. There is no ledger: every settle gets
the next lease, so that what is measured is the call.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from functools import partial
from typing import IO, Any

import grpc
import uvloop
from google.protobuf.duration_pb2 import Duration

from slicelease.v1 import lease_service_pb2 as pb
from slicelease.v1 import resources_pb2 as resources

OPTIONS = [("grpc.so_reuseport", 0)]
THREADS = 16
SLOW_S = 3.0
"""After how long the slow service answers."""

GRANTED = pb.Granted(
    lease=resources.Lease(
        name="tenants/acme/queues/default/leases/1764536098000001",
        queue="tenants/acme/queues/default",
        amqp_queue="work.acme",
        priority_class="priorityClasses/standard",
        fencing_token=1764536098000001,
    ),
    limits=resources.SliceLimits(max_messages=20, max_duration=Duration(seconds=5)),
    valid_for=Duration(seconds=5),
    retry_policy=resources.RetryPolicy(max_attempts=5),
)
SETTLED = pb.SettleLeaseResponse(disposition=pb.DISPOSITION_READY, next_lease=GRANTED)


Handler = Callable[[Any, Any], Any]


@contextmanager
def running(kind: str) -> Iterator[tuple[str, subprocess.Popen[bytes], dict[str, int]]]:
    """The address, the process, and the counts of its calls, which are filled in when it has ended."""
    counts: dict[str, int] = {}
    command = [sys.executable, "-m", "benchmarks.choices.grpc_server", kind]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        said = _pipe(process.stdout)
        try:
            yield f"127.0.0.1:{int(said.readline())}", process, counts
        finally:
            _pipe(process.stdin).close()
            counts.update(json.loads(said.readline() or "{}"))


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None, "it was asked for"
    return pipe


def settle(_request: pb.SettleLeaseRequest, _context: object) -> pb.SettleLeaseResponse:
    return pb.SettleLeaseResponse(disposition=pb.DISPOSITION_READY, next_lease=GRANTED)


def exchange(request: pb.ExchangeLeasesRequest, _context: object) -> pb.ExchangeLeasesResponse:
    return pb.ExchangeLeasesResponse(answers=[pb.LeaseAnswer(settle=SETTLED) for _ in request.calls])


def at_once(answer: Handler) -> Handler:
    async def handle(request: Any, context: Any) -> Any:
        return answer(request, context)

    return handle


def slowly(answer: Handler, counts: dict[str, int]) -> Handler:
    """Counts the calls that came, that their callers ended, and that were answered."""

    async def handle(request: Any, context: Any) -> Any:
        counts["came"] += 1
        try:
            await asyncio.sleep(SLOW_S)
        except asyncio.CancelledError:
            counts["ended by the caller"] += 1
            raise
        counts["answered"] += 1
        return answer(request, context)

    return handle


def add_service(server: Any, wrap: Callable[[Handler], Handler]) -> None:
    service = pb.DESCRIPTOR.services_by_name["LeaseService"].full_name
    handlers = {
        "SettleLease": _handler(wrap(settle), pb.SettleLeaseRequest, pb.SettleLeaseResponse),
        "ExchangeLeases": _handler(wrap(exchange), pb.ExchangeLeasesRequest, pb.ExchangeLeasesResponse),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))


def _handler(handle: Handler, request: Any, response: Any) -> Any:
    return grpc.unary_unary_rpc_method_handler(
        handle, request_deserializer=request.FromString, response_serializer=response.SerializeToString
    )


async def serve_asyncio(wrap: Callable[[Handler], Handler]) -> None:
    server: Any = grpc.aio.server(options=OPTIONS)
    add_service(server, wrap)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.stop(None)


def serve_threads() -> None:
    server: Any = grpc.server(futures.ThreadPoolExecutor(THREADS), options=OPTIONS)
    add_service(server, lambda answer: answer)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    sys.stdin.read()
    server.stop(None)


def main(kind: str) -> None:
    counts = {"came": 0, "ended by the caller": 0, "answered": 0}
    if kind == "threads":
        serve_threads()
    else:
        factory = asyncio.new_event_loop if kind == "asyncio" else uvloop.new_event_loop
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(serve_asyncio(partial(slowly, counts=counts) if kind == "slow" else at_once))
    print(json.dumps(counts), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
