"""Raised attention: recorded before it is acked, refused when it never can be."""

import pytest

from slicelease.control_plane.domain.commands import Command, CreateClass, CreateTenant, GetQueue, Touch
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.outcomes import QueueState
from slicelease.control_plane.domain.policy import ClassPolicy, QueueType, TenantPolicy
from slicelease.control_plane.loops.intake import Intake
from slicelease.control_plane.ports import BrokerUnavailableError, LedgerUnavailableError
from tests.unit.loops.world import FakeBroker, FakeLedger, Seen

pytestmark = pytest.mark.trio

STANDARD = TenantPolicy("standard")
ACME, BETA = QueueKey("acme", "default"), QueueKey("beta", "default")
FOR_ACME, FOR_BETA = b'{"tenant": "acme"}', b'{"tenant": "beta"}'


async def test_a_touch_is_recorded_and_the_message_acked(ledger: FakeLedger, broker: FakeBroker, seen: Seen) -> None:
    ledger.do(CreateTenant("acme", STANDARD))
    broker.raise_all(FOR_ACME)
    assert await Intake(ledger, broker, seen, None).run_once()
    assert ledger.state_of(ACME) is QueueState.READY
    assert broker.acked == [FOR_ACME]


async def test_a_batch_is_one_step_with_one_touch_a_queue(ledger: FakeLedger, broker: FakeBroker, seen: Seen) -> None:
    for tenant in ("acme", "beta"):
        ledger.do(CreateTenant(tenant, STANDARD))
    broker.raise_all(FOR_ACME, FOR_BETA, FOR_ACME, b'{"tenant": "acme", "queue": "default"}')
    intake = Intake(ledger, broker, seen, None)
    await intake.run_once()
    assert ledger.steps == [[Touch(ACME), Touch(BETA)]]
    assert len(broker.acked) == 4
    broker.raise_all(FOR_ACME)
    await intake.run_once()
    assert seen.counts == {"raised": 5, "duplicate": 2, "coalesced": seen.counts["coalesced"]}
    assert seen.counts["coalesced"] >= 1


async def test_while_the_ledger_is_away_nothing_is_acked(ledger: FakeLedger, broker: FakeBroker, seen: Seen) -> None:
    ledger.away = lambda _: True
    broker.raise_all(FOR_ACME, b"junk", FOR_BETA)
    with pytest.raises(LedgerUnavailableError):
        await Intake(ledger, broker, seen, STANDARD).run_once()
    assert broker.acked == []
    assert sorted(broker.returned) == sorted([FOR_ACME, b"junk", FOR_BETA])


async def test_where_the_store_breaks_at_one_touch_only_its_messages_go_back(
    ledger: FakeLedger, broker: FakeBroker, seen: Seen
) -> None:
    ledger.breaks_at = lambda command: command == Touch(BETA, STANDARD)
    broker.raise_all(FOR_ACME, FOR_BETA, b"junk")
    with pytest.raises(LedgerUnavailableError):
        await Intake(ledger, broker, seen, STANDARD).run_once()
    assert (broker.acked, broker.returned) == ([FOR_ACME], [FOR_BETA])
    assert broker.dead == {"ATTENTION_MALFORMED": [b"junk"]}


async def test_unknown_tenants_are_refused_with_the_reason(ledger: FakeLedger, broker: FakeBroker, seen: Seen) -> None:
    ledger.do(CreateTenant("acme", STANDARD))
    other = b'{"tenant": "acme", "queue": "other"}'
    broker.raise_all(FOR_ACME, FOR_BETA, other)
    await Intake(ledger, broker, seen, None).run_once()
    assert broker.acked == [FOR_ACME]
    assert broker.dead == {"TENANT_NOT_FOUND": [FOR_BETA], "QUEUE_NOT_FOUND": [other]}
    assert broker.returned == []


async def test_what_is_no_attention_goes_to_the_dead_letters_and_disturbs_nobody(
    ledger: FakeLedger, broker: FakeBroker, seen: Seen
) -> None:
    """A05 (last clause), S01, S07."""
    bad = {
        "ATTENTION_MALFORMED": [b"not JSON", b"["],
        "INVALID_NAME": [b'{"tenant": "amq.acme"}'],
        "ATTENTION_TOO_LARGE": [b"x" * 9_000],
    }
    ledger.do(CreateTenant("acme", STANDARD))
    broker.raise_all(*(body for bodies in bad.values() for body in bodies), FOR_ACME)
    await Intake(ledger, broker, seen, None).run_once()
    assert broker.dead == bad
    assert broker.acked == [FOR_ACME]
    assert seen.counts["refused ATTENTION_MALFORMED"] == 2


async def test_a_batch_of_junk_asks_nothing_of_the_ledger(ledger: FakeLedger, broker: FakeBroker, seen: Seen) -> None:
    broker.raise_all(b"junk", b"more junk")
    await Intake(ledger, broker, seen, STANDARD).run_once()
    assert ledger.steps == []
    assert len(broker.dead["ATTENTION_MALFORMED"]) == 2


async def test_unknown_tenants_are_created_where_that_is_the_setting(ledger: FakeLedger, broker: FakeBroker, seen: Seen) -> None:
    ledger.do(CreateClass("careful", ClassPolicy(1_000, queue_type=QueueType.QUORUM)))
    broker.raise_all(FOR_ACME, b'{"tenant": "acme", "queue": "mail"}')
    await Intake(ledger, broker, seen, TenantPolicy("careful")).run_once()
    assert ledger.state_of(ACME) is QueueState.READY
    assert ledger.state_of(QueueKey("acme", "mail")) is QueueState.READY
    assert broker.types == {ACME: QueueType.QUORUM, QueueKey("acme", "mail"): QueueType.QUORUM}
    assert len(broker.acked) == 2
    broker.types.clear()
    broker.raise_all(FOR_ACME)
    await Intake(ledger, broker, seen, TenantPolicy("careful")).run_once()
    assert broker.types == {}  # declared when it was created, not with each touch


async def test_a_queue_that_exists_otherwise_is_adopted(ledger: FakeLedger, broker: FakeBroker, seen: Seen) -> None:
    broker.differing = {ACME}
    broker.raise_all(FOR_ACME)
    await Intake(ledger, broker, seen, STANDARD).run_once()
    assert ledger.state_of(ACME) is QueueState.READY
    assert broker.acked == [FOR_ACME]


async def test_a_declare_that_fails_now_is_left_to_the_reconciler(ledger: FakeLedger, broker: FakeBroker, seen: Seen) -> None:
    broker.away = lambda call: call == "declare_work_queue"
    broker.raise_all(FOR_ACME)
    await Intake(ledger, broker, seen, STANDARD).run_once()
    assert ledger.state_of(ACME) is QueueState.READY
    assert broker.acked == [FOR_ACME]


async def test_a_refusal_that_fails_gives_back_what_is_not_answered(ledger: FakeLedger, broker: FakeBroker, seen: Seen) -> None:
    ledger.do(CreateTenant("acme", STANDARD))
    broker.away = lambda call: call == "refuse TENANT_NOT_FOUND"
    broker.raise_all(b"junk", FOR_ACME, FOR_BETA)
    with pytest.raises(BrokerUnavailableError):
        await Intake(ledger, broker, seen, None).run_once()
    assert broker.dead == {"ATTENTION_MALFORMED": [b"junk"]}
    assert broker.acked == [FOR_ACME]
    assert broker.returned == [FOR_BETA]


async def test_a_ledger_that_goes_away_after_the_touches_costs_a_touch_more(
    ledger: FakeLedger, broker: FakeBroker, seen: Seen
) -> None:
    def looks_up(command: Command) -> bool:
        return isinstance(command, GetQueue)

    ledger.away = looks_up
    broker.raise_all(FOR_ACME)
    intake = Intake(ledger, broker, seen, STANDARD)
    with pytest.raises(LedgerUnavailableError):
        await intake.run_once()
    assert broker.returned == [FOR_ACME]
    ledger.away = lambda _: False
    broker.raise_all(FOR_ACME)
    await intake.run_once()
    assert broker.acked == [FOR_ACME]
