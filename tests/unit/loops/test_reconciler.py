"""What was lost is found, in bounded pieces."""

import json

import pytest

from slicelease.control_plane.domain.commands import (
    Acquire,
    CreateTenant,
    DeleteTenant,
    EndReason,
    ListQueues,
    Settle,
    SlotRequest,
    Totals,
    Touch,
)
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.outcomes import Granted, Outcome, QueueState
from slicelease.control_plane.domain.policy import TenantPolicy
from slicelease.control_plane.loops.announcer import Announcer
from slicelease.control_plane.loops.reconciler import Reconciler
from slicelease.control_plane.ports import BrokerUnavailableError
from tests.unit.loops.world import NOW, FakeBroker, FakeLedger, Seen

pytestmark = pytest.mark.trio

STANDARD = TenantPolicy("standard")


def make_idle(ledger: FakeLedger, tenant: str) -> QueueKey:
    """A tenant whose queue was found empty by a slice."""
    ledger.do(CreateTenant(tenant, STANDARD))
    key = QueueKey(tenant, "default")
    if ledger.state_of(key) is not QueueState.IDLE:
        granted = ledger.do(Acquire(SlotRequest(tenant, 0, 1, "d"), ("standard",)))
        assert isinstance(granted, Granted)
        ledger.do(Settle(SlotRequest(tenant, 0, 2, "d"), granted.lease, EndReason.EMPTY, Totals()))
    assert ledger.state_of(key) is QueueState.IDLE
    return key


async def test_a_backlog_that_nobody_told_of_is_found(ledger: FakeLedger, broker: FakeBroker, seen: Seen) -> None:
    """J03 in its plainest form: work published, its touch lost."""
    lost, empty = make_idle(ledger, "acme"), make_idle(ledger, "beta")
    broker.work = {lost: 3, empty: 0}
    assert not await Reconciler(ledger, broker, seen).run_once()
    assert ledger.state_of(lost) is QueueState.READY
    assert ledger.state_of(empty) is QueueState.IDLE
    assert seen.counts["touched"] == 1


async def test_queues_that_will_have_a_slice_are_not_counted(ledger: FakeLedger, broker: FakeBroker, seen: Seen) -> None:
    ledger.do(Touch(QueueKey("acme", "default"), STANDARD))
    await Reconciler(ledger, broker, seen).run_once()
    assert broker.counted == []


async def test_a_touch_that_came_first_is_not_called_lost(ledger: FakeLedger, broker: FakeBroker, seen: Seen) -> None:
    key = make_idle(ledger, "acme")
    touched: list[Outcome] = []
    broker.work = {key: 1}
    broker.on_count = lambda: touched.append(ledger.do(Touch(key)))
    await Reconciler(ledger, broker, seen).run_once()
    assert len(touched) == 1
    assert seen.counts["touched"] == 0


async def test_a_round_is_bounded_pages_and_a_failed_page_is_tried_again(
    ledger: FakeLedger, broker: FakeBroker, seen: Seen
) -> None:
    """A20."""
    keys = [make_idle(ledger, f"t{n:04}") for n in range(1_200)]
    broker.work = dict.fromkeys(keys, 0) | {keys[-1]: 5}
    reconciler = Reconciler(ledger, broker, seen)
    assert await reconciler.run_once()
    broker.away = lambda call: call == "message_counts"
    with pytest.raises(BrokerUnavailableError):
        await reconciler.run_once()
    broker.away = lambda _: False
    assert await reconciler.run_once()
    assert not await reconciler.run_once()
    assert broker.counted == [500, 500, 200]
    assert ledger.state_of(keys[-1]) is QueueState.READY
    assert (seen.counts["rounds began"], seen.counts["rounds ended"]) == (1, 1)
    assert max(command.limit for step in ledger.steps for command in step if isinstance(command, ListQueues)) == 500


async def test_a_queue_that_the_broker_lost_is_made_again(ledger: FakeLedger, broker: FakeBroker, seen: Seen) -> None:
    here, gone, other = (make_idle(ledger, tenant) for tenant in ("acme", "beta", "gamma"))
    broker.work = {here: 0}
    broker.differing = {other}
    await Reconciler(ledger, broker, seen).run_once()
    assert broker.work == {here: 0, gone: 0}
    assert seen.counts["redeclared"] == 2


@pytest.mark.parametrize("published", [0, 1])
async def test_a_queue_deleted_meanwhile_does_not_come_back(
    ledger: FakeLedger, broker: FakeBroker, seen: Seen, published: int
) -> None:
    """Unless somebody has put work into it already: that is never thrown away."""
    key = make_idle(ledger, "acme")

    def deleted() -> None:
        ledger.do(DeleteTenant("acme"))
        broker.on_count = lambda: None

    broker.on_count = deleted
    declare = broker.declare_work_queue

    async def declare_and_publish(*args: object) -> None:
        await declare(*args)  # type: ignore[arg-type]
        broker.work[key] = published

    broker.declare_work_queue = declare_and_publish  # type: ignore[method-assign,assignment]
    await Reconciler(ledger, broker, seen).run_once()
    assert (key in broker.work) == bool(published)


async def test_lost_tickets_are_announced_again(ledger: FakeLedger, broker: FakeBroker, seen: Seen) -> None:
    """A07: the attention queue goes with its tickets; the work runs without another publish."""
    ledger.do(Touch(QueueKey("acme", "default"), STANDARD))
    announcer, reconciler = Announcer(ledger, broker, seen, lambda: NOW), Reconciler(ledger, broker, seen)
    await announcer.run_once()
    del broker.tickets["standard"]
    await reconciler.run_once()
    assert broker.tickets["standard"] == []  # made again
    await announcer.run_once()
    assert broker.tickets["standard"] == []  # not yet known to be lost
    ledger.advance(10_000)
    await reconciler.run_once()
    assert seen.counts["lost standard"] == 1
    await announcer.run_once()
    (ticket,) = broker.tickets["standard"]
    asked = Acquire(SlotRequest("w", 0, 1, "d"), ("standard",), "standard", json.loads(ticket)["announcement_id"])
    assert isinstance(ledger.do(asked), Granted)


async def test_tickets_that_lie_in_their_queue_are_not_lost(ledger: FakeLedger, broker: FakeBroker, seen: Seen) -> None:
    ledger.do(Touch(QueueKey("acme", "default"), STANDARD))
    announcer, reconciler = Announcer(ledger, broker, seen, lambda: NOW), Reconciler(ledger, broker, seen)
    for _ in range(5):
        await announcer.run_once()
        await reconciler.run_once()
        ledger.advance(10_000)
    assert len(broker.tickets["standard"]) == 1
    assert seen.counts["lost standard"] == 0
