"""What was published and what the handlers did, message by message.

May live here: counting. May not know: clocks, threads, where the events come from. Numbers of published messages are
written by one thread and those of handlers by another; each reads the other's as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .load import DemoMessage, DemoTenant


@dataclass(slots=True)
class TenantJournal:
    """One tenant's messages, numbered from 0. All below `next_sequence` are finished, and those in `beyond`."""

    tenant: DemoTenant
    published: int = 0
    processed: int = 0
    repeated: int = 0
    out_of_order: int = 0
    next_sequence: int = 0
    beyond: set[int] = field(default_factory=set)
    disordered: set[int] = field(default_factory=set)

    @property
    def backlog(self) -> int:
        """Published and not processed."""
        return self.published - self.processed

    def started(self, sequence: int) -> None:
        """A handler run begins. It is out of order when an earlier message of the tenant is not finished."""
        if sequence > self.next_sequence and not self._is_finished(sequence) and sequence not in self.disordered:
            self.disordered.add(sequence)
            self.out_of_order += 1

    def finished(self, sequence: int) -> None:
        """A handler run ended well. Any beyond a message's first is a repeat."""
        if self._is_finished(sequence):
            self.repeated += 1
            return
        self.processed += 1
        self.beyond.add(sequence)
        while self.next_sequence in self.beyond:
            self.beyond.remove(self.next_sequence)
            self.disordered.discard(self.next_sequence)
            self.next_sequence += 1

    def _is_finished(self, sequence: int) -> bool:
        return sequence < self.next_sequence or sequence in self.beyond


class Journal:
    """The journals of all demo tenants."""

    def __init__(self, tenants: Iterable[DemoTenant]) -> None:
        self.tenants = {tenant.tenant: TenantJournal(tenant) for tenant in tenants}
        self.processed = 0
        """Messages processed, each once; kept beside the tenants' because it is asked for all the time."""
        self.published = 0

    def was_published(self, message: DemoMessage) -> None:
        """The broker has the message."""
        self.tenants[message.tenant.tenant].published += 1
        self.published += 1

    def was_started(self, tenant: str, sequence: int) -> None:
        """A handler run of one of our messages begins."""
        self.tenants[tenant].started(sequence)

    def was_finished(self, tenant: str, sequence: int) -> None:
        """A handler run of one of our messages ended well."""
        journal = self.tenants[tenant]
        before = journal.processed
        journal.finished(sequence)
        self.processed += journal.processed - before

    @property
    def repeated(self) -> int:
        """Handler runs beyond the first that ended well."""
        return sum(journal.repeated for journal in self.tenants.values())

    @property
    def out_of_order(self) -> int:
        """Messages that were started before an earlier one of their tenant was finished."""
        return sum(journal.out_of_order for journal in self.tenants.values())

    def backlogged(self, class_id: str) -> list[str]:
        """Tenants of the class with unprocessed messages."""
        return [name for name, one in self.tenants.items() if one.tenant.priority_class == class_id and one.backlog > 0]

    def class_backlog(self, class_id: str) -> int:
        """Unprocessed messages of the class."""
        return sum(one.backlog for one in self.tenants.values() if one.tenant.priority_class == class_id)
