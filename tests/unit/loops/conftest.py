"""A ledger, a broker and an observer for each test of a loop."""

import pytest

from slicelease.control_plane.domain.commands import CreateClass
from slicelease.control_plane.domain.policy import BUILT_IN_CLASSES
from tests.unit.loops.world import FakeBroker, FakeLedger, Seen


@pytest.fixture
def ledger() -> FakeLedger:
    """With the built-in classes."""
    ledger = FakeLedger()
    for class_id, policy in BUILT_IN_CLASSES.items():
        ledger.do(CreateClass(class_id, policy))
    return ledger


@pytest.fixture
def broker() -> FakeBroker:
    """With an attention queue for each built-in class."""
    broker = FakeBroker()
    broker.tickets = {class_id: [] for class_id in BUILT_IN_CLASSES}
    return broker


@pytest.fixture
def seen() -> Seen:
    return Seen()
