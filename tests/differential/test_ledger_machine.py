"""The Lua library against its specification: the same steps to both, then the same outcomes and the same state.

The bounds of one step are made small here, so that few queues reach them.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import fields, is_dataclass

import pytest
import redis
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from slicelease.control_plane.domain import ledger
from slicelease.control_plane.domain.commands import Command, CreateClass, Touch
from slicelease.control_plane.domain.ledger import LedgerState, leases, run_step, running
from slicelease.control_plane.domain.ledger.audit import faults
from slicelease.control_plane.domain.policy import ClassPolicy, LedgerConfig, TenantPolicy
from slicelease.control_plane.redis_ledger.library import Library
from tests.differential.drawing import USUAL, Commands
from tests.differential.snapshot import dump, state_of, strangers
from tests.differential.sync_store import SyncStore
from tests.servers import Redis, Valkey

pytestmark = pytest.mark.servers

START_US = 1_700_000_000_000_000
CONFIGS = (LedgerConfig(open_when_new=True), LedgerConfig(open_when_restarted=True, lease_ms=9_000, admission_ms=900))
PASSING_MS = (*(0, 0, 1, 20, 300, 1_000) * 4, 2_000, 4_999, 5_000, 9_000, 15_000, 16_000, 60_000, 599_999, -3_000)

FAULTS = (*("none",) * 38, "restart", "loss")
_cells = itertools.count()


class LedgerMachine(RuleBasedStateMachine):
    """Both ledgers, one clock."""

    def __init__(self, client: redis.Redis, functions: Library | None = None) -> None:
        super().__init__()
        self.twin = LedgerState()
        self.now_us, self.run = START_US, 1
        self.history: list[Command] = []
        self.last_n: dict[tuple[str, int], int] = {}
        self.client, self.functions = client, functions

    @initialize(config=st.sampled_from(CONFIGS), ceiling=st.sampled_from((0, 0, 2)), wait_ms=st.sampled_from((10_000, 60_000)))
    def begin(self, config: LedgerConfig, ceiling: int, wait_ms: int) -> None:
        self.config = config
        self.classes = [
            CreateClass("standard", ClassPolicy(10_000, max_leases=ceiling)),
            CreateClass("bulk", ClassPolicy(wait_ms)),
        ]
        self.store = SyncStore(self.client, f"m{next(_cells)}", config, self.functions)
        self.people()

    def people(self) -> None:
        """Two classes and a few queues, so that most commands meet something."""
        policies = {"a": TenantPolicy("standard"), "a-1": TenantPolicy("standard"), "B": TenantPolicy("bulk", 7)}
        self.step([*self.classes, *(Touch(key, policies[key.tenant]) for key in USUAL)])

    @rule(
        data=st.data(),
        fault=st.sampled_from(FAULTS),
        passing_ms=st.sampled_from(PASSING_MS),
        count=st.sampled_from((1, 1, 2, 3, 5)),
    )
    def commands(self, data: st.DataObject, fault: str, passing_ms: int, count: int) -> None:
        self.now_us += passing_ms * 1_000 + 7
        if fault == "restart":
            self.run += 1
        if fault == "loss":
            self.store.lose_everything()
            self.twin = LedgerState()
            self.people()
        drawing = Commands(data.draw, self.twin, self.now_us, self.last_n)
        self.step([drawing.any(self.history) for _ in range(count)])

    def step(self, commands: list[Command]) -> None:
        run_id = f"run-{self.run}"
        expected = run_step(self.twin, commands, self.now_us, self.config, run_id)
        answered = self.store.step_at(self.now_us, commands, run_id)
        for command, wanted, got in zip(commands, expected, answered, strict=True):
            note(f"{self.now_us - START_US:>5} µs  {brief(command)}")
            if got != wanted:
                note(f"          specification: {brief(wanted)}")
                note(f"          library:       {brief(got)}")
        assert answered == expected
        self.history += commands
        entries = dump(self.client, self.store.cell)
        assert strangers(entries) == []
        assert state_of(entries) == self.twin
        assert faults(self.twin, self.config) == []

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.lose_everything()


def brief(value: object) -> str:
    """A command or outcome without what is as by default, for the eye."""
    if not is_dataclass(value):
        return repr(value) if not isinstance(value, tuple) else "/".join(map(str, value))
    told = ((field, getattr(value, field.name)) for field in fields(value))
    return f"{type(value).__name__}({', '.join(f'{field.name}={brief(told)}' for field, told in told if told != field.default)})"


@pytest.fixture
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "STEP_LIMIT", 2)
    monkeypatch.setattr(running, "TOP_UP_LIMIT", 3)
    monkeypatch.setattr(leases, "LAPSED_KEPT", 3)
    monkeypatch.setattr(ledger, "REPORT_LIMIT", 2)


@pytest.fixture(scope="module", params=[Redis, Valkey], ids=["redis", "valkey"])
def client(request: pytest.FixtureRequest) -> Iterator[redis.Redis]:
    with request.param(unix=True) as server, redis.Redis.from_url(server.url, decode_responses=True) as client:
        yield client


def run(client: redis.Redis, examples: int, steps: int) -> None:
    run_state_machine_as_test(
        lambda: LedgerMachine(client),  # type: ignore[arg-type]  # a factory does as well as the class
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[phase for phase in Phase if phase is not Phase.explain],
            print_blob=True,
        ),
    )


@pytest.mark.usefixtures("small_bounds")
def test_every_step_is_that_of_the_specification(client: redis.Redis, request: pytest.FixtureRequest) -> None:
    short = "valkey" in request.node.name
    run(client, examples=30 if short else 120, steps=40)


@pytest.mark.slow
@pytest.mark.usefixtures("small_bounds")
def test_every_step_of_many(client: redis.Redis) -> None:
    run(client, examples=int(os.environ.get("SLICELEASE_MACHINE_EXAMPLES", "2000")), steps=80)
