"""The ways in which a Trio task can make a unary call with grpcio, as context managers that give `ask(request)`.

May live here: the ways, as short as they can be written. May not know: what is measured.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import grpc
import outcome
import trio

from slicelease.v1 import lease_service_pb2 as pb
from slicelease.v1 import lease_service_pb2_grpc as pb_grpc
from slicelease.worker.lease_client.exchange import Exchanges

Ask = Callable[[pb.SettleLeaseRequest], Awaitable[object]]
Way = Callable[[str], AbstractAsyncContextManager[Ask]]

TIMEOUT_S = 10.0
"""Of each call."""
MAX_THREADS = 128


@asynccontextmanager
async def batcher(address: str) -> AsyncIterator[Ask]:
    """The workers' own: what is asked while exchanges are in flight rides the next."""
    async with trio.open_nursery() as nursery:
        with grpc.insecure_channel(address) as channel:
            exchanges = Exchanges(pb_grpc.LeaseServiceStub(channel).ExchangeLeases.future, lambda _call, _answer: None)
            nursery.start_soon(exchanges.run)
            yield lambda request: exchanges.ask(pb.LeaseCall(settle=request))
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def bridge(address: str) -> AsyncIterator[Ask]:
    """The same bridge without lists: a future of the synchronous API for each call."""
    with grpc.insecure_channel(address) as channel:
        yield partial(_bridged, pb_grpc.LeaseServiceStub(channel).SettleLease.future)


async def _bridged(start: Any, request: pb.SettleLeaseRequest) -> object:
    await trio.lowlevel.checkpoint_if_cancelled()
    task, token = trio.lowlevel.current_task(), trio.lowlevel.current_trio_token()
    waiting = True
    future = start(request, timeout=TIMEOUT_S)

    def arrived() -> None:
        if waiting:
            trio.lowlevel.reschedule(task, outcome.capture(future.result))

    def abort(_: object) -> trio.lowlevel.Abort:
        nonlocal waiting
        waiting = False
        future.cancel()
        return trio.lowlevel.Abort.SUCCEEDED

    future.add_done_callback(lambda _: token.run_sync_soon(arrived))
    answer: object = await trio.lowlevel.wait_task_rescheduled(abort)
    return answer


@asynccontextmanager
async def threads(address: str) -> AsyncIterator[Ask]:
    """A thread for each call; a scope that ends leaves the thread behind."""
    limiter = trio.CapacityLimiter(MAX_THREADS)
    with grpc.insecure_channel(address) as channel:
        settle = partial(pb_grpc.LeaseServiceStub(channel).SettleLease, timeout=TIMEOUT_S)
        yield lambda request: trio.to_thread.run_sync(settle, request, abandon_on_cancel=True, limiter=limiter)


@asynccontextmanager
async def trio_asyncio_loop(address: str) -> AsyncIterator[Ask]:
    """grpc.aio in an asyncio loop inside the Trio run."""
    import trio_asyncio  # here, for it puts its own event loops in the place of asyncio's

    async def call(stub: Any, request: pb.SettleLeaseRequest) -> object:
        return await stub.SettleLease(request, timeout=TIMEOUT_S)

    async with trio_asyncio.open_loop():
        channel = grpc.aio.insecure_channel(address)
        yield partial(trio_asyncio.aio_as_trio(call), pb_grpc.LeaseServiceStub(channel))
        await trio_asyncio.aio_as_trio(channel.close)()


WAYS: dict[str, Way] = {"batcher": batcher, "bridge": bridge, "threads": threads, "trio-asyncio": trio_asyncio_loop}
