"""A cancellation is ours to obey, also where the driver has swallowed it; and the driver's own is none of ours."""

from __future__ import annotations

import asyncio

import aio_pika
import pytest
from yarl import URL

from slicelease.control_plane.broker import link
from slicelease.control_plane.broker.errors import BrokerCall
from slicelease.control_plane.ports import BrokerUnavailableError


async def fail_when_cancelled(*_: object, **__: object) -> None:
    """What `asyncio.wait_for` of Python 3.11 makes of a cancellation that meets a failure."""
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        raise ConnectionResetError from None


async def cancelled_in_time(task: asyncio.Task[None]) -> bool:
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task], timeout=5)
    return task.done() and task.cancelled()


@pytest.mark.asyncio
async def test_a_call_whose_cancellation_was_swallowed_is_cancelled() -> None:
    async def ask() -> None:
        with BrokerCall("answer"):
            await fail_when_cancelled()

    assert await cancelled_in_time(asyncio.create_task(ask()))


@pytest.mark.asyncio
async def test_the_drivers_own_cancellation_is_a_lost_connection() -> None:
    with pytest.raises(BrokerUnavailableError), BrokerCall("answer"):
        raise asyncio.CancelledError


@pytest.mark.asyncio
async def test_a_link_cancelled_while_it_fails_to_connect_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aio_pika, "connect", fail_when_cancelled)
    dialling = link.Link(URL("amqp://127.0.0.1"), lambda: 0.5)
    assert await cancelled_in_time(asyncio.create_task(dialling.run()))
