"""The adapters that keep the ledger's contract."""

from __future__ import annotations

import pytest

from slicelease.control_plane.domain.policy import LedgerConfig
from tests.contract.ledger.subject import Driver, Subject, TwinSubject


@pytest.fixture(params=["twin"])
def subject(request: pytest.FixtureRequest) -> Subject:
    return TwinSubject(LedgerConfig(open_when_new=True))


@pytest.fixture
def ledger(subject: Subject) -> Driver:
    driver = Driver(subject)
    driver.add_class()
    return driver
