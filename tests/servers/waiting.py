"""Waiting for a condition with a deadline, instead of sleeping and hoping. Real time only; no knowledge of servers."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

import trio

T = TypeVar("T")

_POLL_S = 0.01


class WaitTimeoutError(AssertionError):
    """The condition did not become true before its deadline."""


def wait_for(condition: Callable[[], T | None], deadline_s: float, what: str) -> T:
    """Poll ``condition`` until its value is true and return that value; raise WaitTimeoutError after ``deadline_s``."""
    end_s = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        _check(end_s, deadline_s, what, value)
        time.sleep(_POLL_S)


@overload
async def wait_for_asyncio(condition: Callable[[], Awaitable[T | None]], deadline_s: float, what: str) -> T: ...
@overload
async def wait_for_asyncio(condition: Callable[[], T | None], deadline_s: float, what: str) -> T: ...
async def wait_for_asyncio(condition: Callable[[], T | Awaitable[T | None] | None], deadline_s: float, what: str) -> T:
    """Like ``wait_for``, under asyncio; ``condition`` may be a coroutine function."""
    end_s = time.monotonic() + deadline_s
    while True:
        value = await _resolve(condition())
        if value:
            return value
        _check(end_s, deadline_s, what, value)
        await asyncio.sleep(_POLL_S)


@overload
async def wait_for_trio(condition: Callable[[], Awaitable[T | None]], deadline_s: float, what: str) -> T: ...
@overload
async def wait_for_trio(condition: Callable[[], T | None], deadline_s: float, what: str) -> T: ...
async def wait_for_trio(condition: Callable[[], T | Awaitable[T | None] | None], deadline_s: float, what: str) -> T:
    """Like ``wait_for``, under Trio; ``condition`` may be an async function."""
    end_s = time.monotonic() + deadline_s
    while True:
        value = await _resolve(condition())
        if value:
            return value
        _check(end_s, deadline_s, what, value)
        await trio.sleep(_POLL_S)


async def _resolve(value: T | Awaitable[T | None] | None) -> T | None:
    if inspect.isawaitable(value):
        return await value
    return value


def _check(end_s: float, deadline_s: float, what: str, value: object) -> None:
    if time.monotonic() >= end_s:
        raise WaitTimeoutError(f"not within {deadline_s} s: {what} (last value: {value!r})")
