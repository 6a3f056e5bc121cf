"""The adapters that keep the ledger's contract."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from slicelease.control_plane.domain.policy import LedgerConfig
from tests.contract.ledger.redis_subject import RedisSubject
from tests.contract.ledger.subject import Driver, Subject, TwinSubject


@pytest.fixture(params=["twin", pytest.param("redis", marks=pytest.mark.servers)])
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    config = LedgerConfig(open_when_new=True)
    if request.param == "twin":
        yield TwinSubject(config)
        return
    with redis.Redis.from_url(request.getfixturevalue("redis_url"), decode_responses=True) as client:
        yield RedisSubject(client, request.getfixturevalue("cell"), config)


@pytest.fixture
def ledger(subject: Subject) -> Driver:
    driver = Driver(subject)
    driver.add_class()
    return driver
