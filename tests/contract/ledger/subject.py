"""What the contract suite drives: a ledger with a clock in the test's hands.

An adapter joins the suite by a `Subject` and an entry in conftest.py's table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from slicelease.control_plane.domain.commands import (
    Acquire,
    ClaimAnnouncements,
    Command,
    CreateClass,
    EndReason,
    MarkPublished,
    Settle,
    SlotRequest,
    Totals,
    Touch,
)
from slicelease.control_plane.domain.ledger.audit import faults, unbalanced
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.outcomes import Announcements, Denied, Granted, Outcome, Settled
from slicelease.control_plane.domain.policy import ClassPolicy, LedgerConfig, TenantPolicy
from slicelease.control_plane.memory_ledger import MemoryLedger

START_US = 1_700_000_000_000_000


class Subject(Protocol):
    """A ledger under test."""

    config: LedgerConfig

    def step(self, commands: Sequence[Command]) -> list[Outcome]:
        """One atomic step at the subject's present."""
        ...

    def advance(self, ms: int) -> None:
        """Time passes."""
        ...

    def restart(self) -> None:
        """The store restarts with what it held."""
        ...

    def lose_everything(self) -> None:
        """The store is emptied."""
        ...

    def check(self) -> None:
        """Asserts that the state is sound, where the subject can tell."""
        ...


class TwinSubject:
    """The specification itself."""

    def __init__(self, config: LedgerConfig) -> None:
        self.config = config
        self._now_us = START_US
        self._ledger = MemoryLedger(lambda: self._now_us, config)

    def step(self, commands: Sequence[Command]) -> list[Outcome]:
        outcomes = self._ledger.step(commands)
        self.check()
        if any(isinstance(outcome, Announcements) for outcome in outcomes):
            assert unbalanced(self._ledger.state, self.config) == []
        return outcomes

    def advance(self, ms: int) -> None:
        self._now_us += ms * 1_000

    def restart(self) -> None:
        self._ledger.restart()

    def lose_everything(self) -> None:
        self._ledger.lose_everything()

    def check(self) -> None:
        assert faults(self._ledger.state, self.config) == []


class Driver:
    """Short words for the suite: one slot a session, ids made up as needed."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._n: dict[tuple[str, int], int] = {}

    def do(self, command: Command) -> Outcome:
        """One command, one step."""
        (outcome,) = self.subject.step([command])
        return outcome

    def request(self, session: str = "w", slot: int = 0) -> SlotRequest:
        """The slot's next request."""
        n = self._n[session, slot] = self._n.get((session, slot), 0) + 1
        return SlotRequest(session, slot, n, f"digest-{n}")

    def add_class(self, class_id: str = "standard", target_wait_ms: int = 10_000, max_leases: int = 0) -> None:
        self.do(CreateClass(class_id, ClassPolicy(target_wait_ms, max_leases=max_leases)))

    def touch(self, tenant: str, queue: str = "default", class_id: str = "standard", weight: int = 100) -> Outcome:
        """Touches, creating what is missing."""
        return self.do(Touch(QueueKey(tenant, queue), TenantPolicy(class_id, weight)))

    def ask(self, *classes: str, session: str = "w", slot: int = 0, ticket: tuple[str, str] = ("", "")) -> Granted | Denied:
        outcome = self.do(Acquire(self.request(session, slot), classes or ("standard",), *ticket))
        assert isinstance(outcome, Granted | Denied)
        return outcome

    def grant(self, *classes: str, session: str = "w", slot: int = 0, ticket: tuple[str, str] = ("", "")) -> Granted:
        outcome = self.ask(*classes, session=session, slot=slot, ticket=ticket)
        assert isinstance(outcome, Granted)
        return outcome

    def settle(self, granted: Granted, reason: EndReason, session: str = "w", slot: int = 0, **more: object) -> Outcome:
        command = Settle(self.request(session, slot), granted.lease, reason, Totals())
        return self.do(replace(command, **more))  # type: ignore[arg-type]  # the suite's own keyword arguments

    def settled(self, granted: Granted, reason: EndReason, **more: object) -> Settled:
        outcome = self.settle(granted, reason, **more)  # type: ignore[arg-type]  # as above
        assert isinstance(outcome, Settled)
        return outcome

    def announcements(self) -> list[tuple[str, str]]:
        """Claims and publishes what is owed; (class, id) of each."""
        outcome = self.do(ClaimAnnouncements())
        assert isinstance(outcome, Announcements)
        for class_id, announcement_id in outcome.claimed:
            self.do(MarkPublished(class_id, (announcement_id,)))
        return list(outcome.claimed)
