"""The Lua library driven without an event loop and at a time of the caller's: what the machine and the contract suite use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import redis

from slicelease.control_plane.domain import ledger
from slicelease.control_plane.domain.commands import Command
from slicelease.control_plane.domain.ledger import leases, running
from slicelease.control_plane.domain.names import DEFAULT_QUEUE
from slicelease.control_plane.domain.outcomes import Outcome
from slicelease.control_plane.domain.policy import LedgerConfig
from slicelease.control_plane.redis_ledger.codec import Value, command_arguments, config_arguments, outcome_of
from slicelease.control_plane.redis_ledger.keys import ATTEMPTS_TTL_MS, prefix
from slicelease.control_plane.redis_ledger.library import Library, library

_DROP = "for _, key in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', key) end"


class Limits(NamedTuple):
    """The specification's bounds on one step's work, as they are when the step is taken."""

    step: int
    top_up: int
    lapsed_kept: int
    report: int

    @classmethod
    def of_the_twin(cls) -> Limits:
        return cls(leases.STEP_LIMIT, running.TOP_UP_LIMIT, leases.LAPSED_KEPT, ledger.REPORT_LIMIT)


class SyncStore:
    """One cell in a Redis."""

    def __init__(self, client: redis.Redis, cell: str, config: LedgerConfig, functions: Library | None = None) -> None:
        self.client, self.cell, self.config = client, cell, config
        self.functions = functions or library()
        self._load()

    def _load(self) -> None:
        try:
            self.client.function_load(self.functions.text)
        except redis.ResponseError as error:
            if "already exists" not in str(error):
                raise

    def call(self, function: str, now_us: int, commands: Sequence[Command], run_id: str) -> Any:
        """The raw reply of a step."""
        limits = Limits.of_the_twin()
        arguments: list[Value] = [run_id, now_us, *config_arguments(self.config), *limits, ATTEMPTS_TTL_MS, DEFAULT_QUEUE]
        arguments.append(len(commands))
        for command in commands:
            command_arguments(arguments, command)
        return self.client.fcall(function, 1, prefix(self.cell), *arguments)

    def step_at(self, now_us: int, commands: Sequence[Command], run_id: str) -> list[Outcome]:
        """One atomic step at that instant."""
        word, *answers = self.call(self.functions.step_at, now_us, commands, run_id)
        assert word == "STEP", word
        return [outcome_of(answer) for answer in answers]

    def lose_everything(self) -> None:
        """What FLUSHALL does, to this cell alone."""
        self.client.eval(_DROP, 0, prefix(self.cell).replace("{", "[{]") + "*")
