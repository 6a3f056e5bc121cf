"""Runs an application's handler on one message and says how it ended.

May know Trio and the app. May not know leases, the broker, or what becomes of the message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import structlog
import trio

from .handlers import ANY_TYPE, Reject, SliceWorker, Work, handler_name, is_async
from .ports import MalformedMessageError

_log = structlog.get_logger(__name__)

MAX_REASON_BYTES = 255
NO_HANDLER = "no_handler"
MALFORMED = "malformed"


@dataclass(frozen=True, slots=True)
class Rejection:
    """The message will never succeed: `reason` for the dead letter, `error` more of it, or empty."""

    reason: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """The handler raised `cause`; `error` is short text for a header."""

    error: str
    handler: str
    cause: BaseException


class HandlerRunner:
    """Calls handlers, async ones in the caller's task, ordinary ones in threads, at most `threads` at once.

    A thread that was abandoned counts until it ends.
    """

    def __init__(self, app: SliceWorker, threads: int) -> None:
        self._app = app
        self._limiter = trio.CapacityLimiter(threads)
        self._only = None if app.needs_type else app.handler_for("")
        self._is_async: dict[int, bool] = {}  # by identity: handlers live as long as the app, and names may repeat
        self._only_is_async = self._only is not None and is_async(self._only)

    async def run(self, work: Work) -> Rejection | Failure | None:
        """None when the handler ended well. Only Cancelled and KeyboardInterrupt leave."""
        handler = self._only
        try:
            if handler is None:
                handler = self._app.handler_for(work.type)
                if handler is None:
                    return Rejection(NO_HANDLER, f"no handler for type {work.type!r}")
                await self._call(handler, work)
            elif self._only_is_async:
                await handler(work)
            else:
                await self._call_in_thread(handler, work)
        except (trio.Cancelled, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001  whatever a handler raises is judged, SystemExit too
            return _judge(error, handler, work)
        return None

    async def _call(self, handler: Callable[[Work], Any], work: Work) -> None:
        key = id(handler)
        if key not in self._is_async:
            self._is_async[key] = is_async(handler)
        if self._is_async[key]:
            await handler(work)
        else:
            await self._call_in_thread(handler, work)

    async def _call_in_thread(self, handler: Callable[[Work], Any], work: Work) -> None:
        # A function that returns a coroutine after all is a TypeError of Trio's, and so a failure.
        await trio.to_thread.run_sync(handler, work, abandon_on_cancel=True, limiter=self._limiter)


def _judge(error: BaseException, handler: Callable[[Work], Any] | None, work: Work) -> Rejection | Failure:
    """One verdict for an exception, alone or in groups; raises the Cancelled and KeyboardInterrupt among its leaves."""
    leaves = list(_leaves(error))
    name = ANY_TYPE if handler is None else handler_name(handler)
    if isinstance(error, BaseExceptionGroup):
        _raise_outsiders(error, leaves, name, work)
    if all(isinstance(leaf, Reject) for leaf in leaves):
        return Rejection(_cut("; ".join(dict.fromkeys(_said(leaf) for leaf in leaves))) or "rejected")
    if all(isinstance(leaf, Reject | MalformedMessageError) for leaf in leaves):
        return Rejection(MALFORMED, _text(error))
    return Failure(_text(leaves[0]), name, error)


def _raise_outsiders(group: BaseExceptionGroup[BaseException], leaves: list[BaseException], name: str, work: Work) -> None:
    """Cancelled belongs to the scope around; what else the handler raised while it was cancelled is only logged."""
    if any(isinstance(leaf, KeyboardInterrupt) for leaf in leaves):
        raise group
    cancelled, others = group.split(trio.Cancelled)
    if cancelled is not None:
        _log.warning("handler raised while it was cancelled", tenant=work.tenant, handler=name, exc_info=others)
        raise cancelled


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions:
            yield from _leaves(member)
    else:
        yield error


def _text(error: BaseException) -> str:
    name, said = type(error).__name__, _said(error)
    return _cut(f"{name}: {said}" if said else name)


def _said(error: BaseException) -> str:
    """What it says of itself: the application's own code, which may fail too and must not take the process with it."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001  whatever it is, the first exception is the one to judge
        return "its text cannot be had"


def _cut(text: str) -> str:
    """At most 255 bytes of it, in whole characters."""
    return text.encode(errors="replace")[:MAX_REASON_BYTES].decode(errors="ignore")
