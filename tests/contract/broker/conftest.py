"""Every test of the suite runs once for each adapter of ports.Broker."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.contract.broker.memory_world import memory_world
from tests.contract.broker.rabbit_world import rabbit_world
from tests.contract.broker.world import World
from tests.servers import wait_for_asyncio


@pytest_asyncio.fixture(params=["memory", pytest.param("rabbitmq", marks=pytest.mark.servers)])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """A broker that is ready, with the topology of the class `standard`."""
    opened = memory_world() if request.param == "memory" else rabbit_world(request.getfixturevalue("amqp_url"))
    async with opened as world:
        await world.broker.declare_topology(["standard"])
        await wait_for_asyncio(lambda: world.broker.unready_reason() is None, 20, "the broker is ready")
        yield world
