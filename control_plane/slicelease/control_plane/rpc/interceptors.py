"""Around every call of our services: the shutdown's gate, errors by the one table, metrics, the request log.

May live here: what is the same for all calls. May not know: what a call does. No payloads and no request fields are logged.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from time import perf_counter
from typing import Any

import grpc
import structlog

from slicelease.control_plane.metrics import Metrics

from .gate import DeadlinePassedError, Gate
from .refusals import from_exception, unexpected
from .status import DETAILS_KEY, CallError, shutting_down

OUR_SERVICES = "/slicelease.v1."
_QUIET = "/slicelease.v1.LeaseService/"
"""Calls that come by the thousand a second: their ends are logged at debug level, good and bad."""

_log = structlog.get_logger("slicelease.rpc")


class CallInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # generic in the stubs only
    """Wraps the methods of our services; health, reflection and channelz pass as they are."""

    def __init__(self, gate: Gate, metrics: Metrics) -> None:
        self._gate = gate
        self._metrics = metrics
        self._wrapped: dict[str, Any] = {}

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any) -> Any:
        """The handler of the method, wrapped once and remembered."""
        method = handler_call_details.method
        wrapped = self._wrapped.get(method)
        if wrapped is not None:
            return wrapped
        handler = await continuation(handler_call_details)
        if handler is None or not method.startswith(OUR_SERVICES):
            return handler
        wrapped = self._wrapped[method] = self._wrap(method, handler)
        return wrapped

    def _wrap(self, method: str, handler: Any) -> Any:
        codec = {"request_deserializer": handler.request_deserializer, "response_serializer": handler.response_serializer}
        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(self._stream(method, handler.unary_stream), **codec)
        return grpc.unary_unary_rpc_method_handler(self._unary(method, handler.unary_unary), **codec)

    def _unary(self, method: str, run: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[Any]]:
        async def call(request: Any, context: Any) -> Any:
            watch = _Watch(self._gate, self._metrics, method, context)
            try:
                watch.check_open()
                return await run(request, context)
            except BaseException as error:  # cancellation too has a status to send when it is ours
                await watch.failed(error)
                raise
            finally:
                watch.ended()

        return call

    def _stream(self, method: str, run: Callable[[Any, Any], AsyncIterator[Any]]) -> Callable[[Any, Any], AsyncIterator[Any]]:
        async def call(request: Any, context: Any) -> AsyncIterator[Any]:
            watch = _Watch(self._gate, self._metrics, method, context)
            try:
                watch.check_open()
                async for response in run(request, context):
                    yield response
            except BaseException as error:  # as above
                await watch.failed(error)
                raise
            finally:
                watch.ended()

        return call


class _Watch:
    """One call from its begin to its end."""

    __slots__ = ("_begin", "_code", "_context", "_gate", "_method", "_metrics", "_task")

    def __init__(self, gate: Gate, metrics: Metrics, method: str, context: Any) -> None:
        self._gate, self._metrics, self._method, self._context = gate, metrics, method, context
        self._begin = perf_counter()
        self._code = grpc.StatusCode.OK
        task = asyncio.current_task()
        assert task is not None, "a handler runs in a task"  # noqa: S101  # narrows for mypy
        self._task = task
        gate.enter(task)

    def check_open(self) -> None:
        if self._gate.closed:
            raise shutting_down()

    async def failed(self, error: BaseException) -> None:
        """Sends the status of the error; returns only for a cancellation that the client asked for."""
        if isinstance(error, asyncio.CancelledError):
            if not self._gate.forced:
                self._code = grpc.StatusCode.CANCELLED
                return
            error = shutting_down()
        elif isinstance(error, DeadlinePassedError):
            self._code = grpc.StatusCode.DEADLINE_EXCEEDED
            await self._context.abort(self._code, "the deadline has passed")
        elif not isinstance(error, Exception):
            return
        known = from_exception(error) or unexpected("a call failed", method=self._method, exc_info=error)
        self._code = known.code
        self._note(known)
        await self._context.abort(known.code, known.fault.text, ((DETAILS_KEY, known.status().SerializeToString()),))

    def _note(self, known: CallError) -> None:
        self._say()(
            "call refused",
            method=self._method,
            code=known.code.name,
            reason=known.fault.reason.value,
            text=known.fault.text,
            peer=self._context.peer(),
        )

    def ended(self) -> None:
        self._gate.leave(self._task)
        seconds = perf_counter() - self._begin
        self._metrics.observe("rpc_seconds", seconds, self._method, self._code.name)
        if self._code is grpc.StatusCode.OK:
            self._say()("call answered", method=self._method, ms=round(seconds * 1_000, 3))

    def _say(self) -> Callable[..., Any]:
        say: Callable[..., Any] = _log.debug if self._method.startswith(_QUIET) else _log.info
        return say
