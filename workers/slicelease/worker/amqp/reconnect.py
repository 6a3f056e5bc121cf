"""Stay connected: dial again after a loss, spread over time.

The delay is a pure function of the attempt and a random number, so that a hundred workers whose broker restarted come
back one after another (field trial A22). Clock and randomness are arguments.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

import trio

from slicelease.worker.amqp.errors import AmqpError, ConnectionLost, LoginRefused
from slicelease.worker.amqp.transport import Connection


@dataclass(frozen=True, slots=True)
class Backoff:
    """Full-jitter exponential back-off, after "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015), with a
    floor: attempt n waits a random time between `first_s` / 2 and min(`cap_s`, `first_s` × `factor` ** n).
    """

    first_s: float = 0.5
    factor: float = 2.0
    cap_s: float = 15.0

    def __post_init__(self) -> None:
        if not 0 < self.first_s <= self.cap_s or self.factor < 1:
            raise ValueError("a back-off needs 0 < first_s <= cap_s and factor >= 1")

    def ceiling_s(self, attempt: int) -> float:
        """The longest delay before dial `attempt` (from 0), in seconds: never falls, never above the cap."""
        exponent = min(attempt, 64)  # beyond it the cap has long been reached, and a float would overflow
        return min(self.cap_s, self.first_s * self.factor**exponent)

    def delay_s(self, attempt: int, random_number: float) -> float:
        """The delay for a `random_number` in [0, 1)."""
        floor_s = self.first_s / 2
        return floor_s + (self.ceiling_s(attempt) - floor_s) * random_number


@dataclass(frozen=True, slots=True)
class Connected:
    """The connection stands."""


@dataclass(frozen=True, slots=True)
class Disconnected:
    """It does not: why, and in how many seconds the next dial comes (`attempt` counts from 0 since the last success)."""

    reason: AmqpError
    attempt: int
    retry_in_s: float


async def keep_connected(
    dial: Callable[[], AbstractAsyncContextManager[Connection]],
    use: Callable[[Connection], Awaitable[None]],
    *,
    random_number: Callable[[], float],
    backoff: Backoff | None = None,
    on_state: Callable[[Connected | Disconnected], None] | None = None,
    steady_after_s: float = 5.0,
) -> None:
    """Run `use(connection)` on one connection after another until it returns.

    `dial` opens one (`lambda: open_connection(url, ...)`); `random_number` is `random.random` or a test's. When the
    connection is lost, `use` is cancelled and the next dial waits for its back-off; the count of attempts starts anew
    once a connection stood for `steady_after_s`. A refused login and an unusable URL are raised as long as there never
    was a connection (they are settings to mend), and retried after (a broker that starts may refuse). Whatever else
    `use` raises is raised.
    """
    backoff = backoff or Backoff()
    tell = on_state or (lambda _: None)
    attempt, ever = 0, False
    while True:
        connected_at: float | None = None
        try:
            async with dial() as connection:
                connected_at, ever = trio.current_time(), True
                tell(Connected())
                if await _use_until_lost(connection, use):
                    return
                reason = connection.closed or ConnectionLost("lost")
        except (ConnectionLost, LoginRefused) as error:
            if isinstance(error, LoginRefused) and not ever:
                raise
            reason = error
        if connected_at is not None and trio.current_time() - connected_at >= steady_after_s:
            attempt = 0
        delay_s = backoff.delay_s(attempt, random_number())
        tell(Disconnected(reason, attempt, delay_s))
        attempt += 1
        await trio.sleep(delay_s)


async def _use_until_lost(connection: Connection, use: Callable[[Connection], Awaitable[None]]) -> bool:
    """Whether `use` returned by itself. Its own ConnectionLost counts as the loss that it is."""
    outcome: list[BaseException | None] = []

    async def run() -> None:
        try:
            await use(connection)
            outcome.append(None)
        except Exception as error:  # noqa: BLE001  raised below: through the nursery it would arrive as a group
            outcome.append(error)
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await connection.wait_closed()
        nursery.cancel_scope.cancel()
    if not outcome or (outcome[0] is not None and connection.closed is not None and _is_loss(outcome[0])):
        return False
    if outcome[0] is not None:
        raise outcome[0]
    return True


def _is_loss(error: BaseException) -> bool:
    """Also of a group in which every member is one, as nurseries inside `use` raise it."""
    if isinstance(error, BaseExceptionGroup):
        return all(_is_loss(member) for member in error.exceptions)
    return isinstance(error, ConnectionLost)
