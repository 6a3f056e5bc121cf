"""The ledger in memory: the specification behind the port, for tests, simulation and one-process use.

May live here: the twin and a clock given by the caller. May not know: any store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .domain.commands import Command
from .domain.ledger import LedgerState, run_step
from .domain.outcomes import Outcome
from .domain.policy import LedgerConfig


class MemoryLedger:
    """Implements ports.Ledger for one thread; `clock_us` gives microseconds and need not be monotonic."""

    def __init__(self, clock_us: Callable[[], int], config: LedgerConfig) -> None:
        self.state = LedgerState()
        self.config = config
        self._clock_us = clock_us
        self._run = 1

    async def execute(self, commands: Sequence[Command]) -> list[Outcome]:
        """One atomic step."""
        return self.step(commands)

    def step(self, commands: Sequence[Command]) -> list[Outcome]:
        """The same for callers without an event loop."""
        return run_step(self.state, commands, self._clock_us(), self.config, f"run-{self._run}")

    def restart(self) -> None:
        """The store restarts with what it held."""
        self._run += 1

    def lose_everything(self) -> None:
        """The store is emptied."""
        self.state = LedgerState()
