"""Staying connected, on a mock clock with memory streams: when it dials again, when it gives up, what it tells."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
from pamqp import commands
from trio.testing import MockClock, memory_stream_pair

from slicelease.worker.amqp import (
    AmqpError,
    Backoff,
    CannotConnect,
    Connected,
    Connection,
    ConnectionClosed,
    Disconnected,
    LoginRefused,
    keep_connected,
    open_connection_on,
)
from tests.unit.amqp.fake_broker import HANDSHAKE, FakeBroker, serve, wire


class Dialler:
    """Dials one broker after another; an error in the list is raised instead."""

    def __init__(self, nursery: trio.Nursery, *answers: FakeBroker | AmqpError) -> None:
        self.nursery, self.answers, self.times = nursery, list(answers), list[float]()

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[Connection]:
        self.times.append(trio.current_time())
        answer = self.answers.pop(0)
        if isinstance(answer, AmqpError):
            raise answer
        ours, theirs = memory_stream_pair()
        self.nursery.start_soon(serve, answer, theirs)
        async with open_connection_on(ours, HANDSHAKE) as connection:
            yield connection


def bye() -> bytes:
    return wire(0, commands.Connection.Close(320, "CONNECTION_FORCED", 0, 0))


def always(number: float) -> Callable[[], float]:
    return lambda: number


@pytest.mark.trio
async def test_it_dials_again_with_growing_delays_and_starts_anew_after_a_steady_time(autojump_clock: MockClock) -> None:
    told: list[Connected | Disconnected] = []
    brokers = [FakeBroker(), FakeBroker(), FakeBroker()]
    used: list[int] = []

    async def use(connection: Connection) -> None:
        used.append(len(used))
        if len(used) == 3:
            return
        await trio.sleep(60 if len(used) == 2 else 1)
        brokers[len(used) - 1].out += bye()
        await trio.sleep_forever()

    down = CannotConnect("down")
    async with trio.open_nursery() as nursery:
        dialler = Dialler(nursery, down, down, brokers[0], down, brokers[1], down, brokers[2])
        await keep_connected(
            dialler, use, random_number=always(1.0), backoff=Backoff(1, 2, 10), on_state=told.append, steady_after_s=30
        )
        nursery.cancel_scope.cancel()
    assert used == [0, 1, 2]
    waits = [state.retry_in_s for state in told if isinstance(state, Disconnected)]
    assert waits == [1, 2, 4, 8, 1, 2]  # the connection of 60 s was steady, the one of 1 s was not
    reasons = [type(state.reason) for state in told if isinstance(state, Disconnected)]
    assert reasons == [CannotConnect, CannotConnect, ConnectionClosed, CannotConnect, ConnectionClosed, CannotConnect]
    assert sum(isinstance(state, Connected) for state in told) == 3


@pytest.mark.trio
async def test_a_refused_login_is_raised_first_and_waited_out_later(autojump_clock: MockClock) -> None:
    refused = LoginRefused(403, "ACCESS_REFUSED")
    first, last = FakeBroker(), FakeBroker()
    uses: list[Connection] = []

    async def use(connection: Connection) -> None:
        uses.append(connection)
        if len(uses) == 1:
            first.out += bye()
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        with pytest.raises(LoginRefused):
            await keep_connected(Dialler(nursery, refused), use, random_number=always(0))
        await keep_connected(Dialler(nursery, first, refused, last), use, random_number=always(0))
        nursery.cancel_scope.cancel()
    assert len(uses) == 2


@pytest.mark.trio
async def test_what_use_raises_is_raised_as_it_is(autojump_clock: MockClock) -> None:
    async def use(connection: Connection) -> None:
        raise ZeroDivisionError

    async with trio.open_nursery() as nursery:
        with pytest.raises(ZeroDivisionError):
            await keep_connected(Dialler(nursery, FakeBroker()), use, random_number=always(0))
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_a_group_of_losses_out_of_use_is_a_loss(autojump_clock: MockClock) -> None:
    first, second = FakeBroker(), FakeBroker()
    uses = 0

    async def use(connection: Connection) -> None:
        nonlocal uses
        uses += 1
        if uses == 2:
            return
        channel = await connection.open_channel()
        first.held = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(channel.get, "q")
            nursery.start_soon(channel.qos, 1)
            await trio.sleep(1)
            first.out += bye()

    async with trio.open_nursery() as nursery:
        await keep_connected(Dialler(nursery, first, second), use, random_number=always(0))
        nursery.cancel_scope.cancel()
    assert uses == 2


@pytest.mark.trio
async def test_it_can_be_cancelled_at_any_time(autojump_clock: MockClock) -> None:
    async def use(connection: Connection) -> None:
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        for answers in ([FakeBroker()], [CannotConnect("down")] * 99):
            with trio.move_on_after(20) as scope:
                await keep_connected(Dialler(nursery, *answers), use, random_number=always(0.5))
            assert scope.cancelled_caught
        nursery.cancel_scope.cancel()
