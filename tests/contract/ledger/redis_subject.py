"""The Lua library as a subject of the contract suite: a cell of its own, a clock in the test's hands."""

from __future__ import annotations

from collections.abc import Sequence

import redis

from slicelease.control_plane.domain.commands import Command
from slicelease.control_plane.domain.ledger.audit import faults, unbalanced
from slicelease.control_plane.domain.outcomes import Announcements, Outcome
from slicelease.control_plane.domain.policy import LedgerConfig
from tests.contract.ledger.subject import START_US
from tests.differential.snapshot import dump, state_of, strangers
from tests.differential.sync_store import SyncStore


class RedisSubject:
    """The functions of the library, called without an event loop."""

    def __init__(self, client: redis.Redis, cell: str, config: LedgerConfig) -> None:
        self.config = config
        self._store = SyncStore(client, cell, config)
        self._now_us, self._run = START_US, 1
        self._unchecked = 0

    def step(self, commands: Sequence[Command]) -> list[Outcome]:
        outcomes = self._store.step_at(self._now_us, commands, f"run-{self._run}")
        self._check_now_and_then()
        if any(isinstance(outcome, Announcements) for outcome in outcomes):
            assert unbalanced(state_of(dump(self._store.client, self._store.cell)), self.config) == []
        return outcomes

    def advance(self, ms: int) -> None:
        self._now_us += ms * 1_000

    def restart(self) -> None:
        self._run += 1

    def lose_everything(self) -> None:
        self._store.lose_everything()

    def _check_now_and_then(self) -> None:
        """Every step of a small state, fewer of a big one: a check reads all of it."""
        self._unchecked -= 1
        if self._unchecked <= 0:
            self.check()

    def check(self) -> None:
        entries = dump(self._store.client, self._store.cell)
        assert strangers(entries) == []
        assert faults(state_of(entries), self.config) == []
        self._unchecked = len(entries) // 50
