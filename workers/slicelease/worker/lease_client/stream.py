"""A server stream of gRPC, read under Trio: one daemon thread for as long as the stream lives.

May know gRPC calls, threads and Trio. May not know what the events mean.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol, TypeVar

import grpc
import trio

from .faults import Fault, fault_of_call

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class StreamCall(Protocol[T_co]):
    """A call that answers with a stream."""

    def __iter__(self) -> Iterator[T_co]:
        """Blocks for the next event."""
        ...

    def cancel(self) -> Any:
        """Ends it; the iteration in the thread ends too."""
        ...


@asynccontextmanager
async def events_of(call: StreamCall[T]) -> AsyncIterator[trio.MemoryReceiveChannel[T | Fault]]:
    """The events of the stream, then a Fault if it failed; the channel ends with the stream, the stream with the block."""
    token = trio.lowlevel.current_trio_token()
    # Directives are few and small, and the reader must never wait for the loop.
    send, receive = trio.open_memory_channel[T | Fault](1_000_000)
    reader = threading.Thread(target=_read, args=(call, token, send), name="slicelease-directives", daemon=True)
    reader.start()
    try:
        async with receive:
            yield receive
    finally:
        call.cancel()


def _read(call: StreamCall[T], token: trio.lowlevel.TrioToken, send: trio.MemorySendChannel[T | Fault]) -> None:
    def post(act: Callable[..., object], *arguments: object) -> None:
        with suppress(trio.RunFinishedError):  # nobody is left to hear it
            token.run_sync_soon(act, *arguments)

    def hand_over(event: T | Fault) -> None:
        with suppress(trio.BrokenResourceError, trio.WouldBlock):  # nobody listens any more
            send.send_nowait(event)

    try:
        for event in call:
            post(hand_over, event)
    except (grpc.RpcError, grpc.FutureCancelledError) as error:
        post(hand_over, fault_of_call(error))
    post(send.close)
