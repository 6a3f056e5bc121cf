"""Fixtures of the whole suite: one RabbitMQ and one Redis a session, started when a test first asks for them.

Tests share the servers but nothing in them: each has its own vhost (``amqp_url``) and its own hash tag (``cell``). A
test that stops, fills or reconfigures a server starts a private one from ``tests.servers``. Nothing is skipped for a
missing server: the test errors with the line that installs it.
"""

import uuid
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.servers import RabbitMQ, Redis

# On shared cores the time of one example says nothing; what must be fast is measured in benchmarks/.
settings.register_profile("slicelease", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("slicelease")


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that uses a shared server, so that none is forgotten where there are no servers."""
    for item in items:
        if {"rabbitmq", "redis_server"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("servers")


@pytest.fixture(scope="session")
def rabbitmq() -> Iterator[RabbitMQ]:
    """The shared node; leave its users, policies and alarms as they are."""
    with RabbitMQ() as server:
        yield server


@pytest.fixture
def vhost(rabbitmq: RabbitMQ) -> Iterator[str]:
    """The name of a fresh vhost, deleted after the test with everything in it."""
    name = rabbitmq.new_vhost()
    yield name
    rabbitmq.delete_vhost(name)


@pytest.fixture
def amqp_url(rabbitmq: RabbitMQ, vhost: str) -> str:
    """The URL of this test's own vhost on the shared node."""
    return rabbitmq.vhost_url(vhost)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Redis]:
    """The shared Redis; leave its settings, functions of others and keys of other cells as they are."""
    with Redis() as server:
        yield server


@pytest.fixture
def redis_url(redis_server: Redis) -> str:
    """The URL of the shared Redis; a test writes under its own ``cell`` only."""
    return redis_server.url


@pytest.fixture
def cell() -> str:
    """A hash tag that no other test uses."""
    return f"t{uuid.uuid4().hex[:12]}"
