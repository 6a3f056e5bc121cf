"""What the loops report, for metrics. A protocol only."""

from __future__ import annotations

from typing import Protocol


class LoopObserver(Protocol):
    """Counts events; every method returns at once and never raises."""

    def attention_raised(self, count: int) -> None:
        """Raised attention was taken from the broker."""
        ...

    def attention_duplicate(self, count: int) -> None:
        """Its queue was raised already in the same batch."""
        ...

    def attention_coalesced(self, count: int) -> None:
        """Its queue was known to have work: the touch changed nothing."""
        ...

    def attention_refused(self, reason: str, count: int) -> None:
        """It was moved to the unsorted dead letters."""
        ...

    def tickets_published(self, class_id: str, count: int) -> None:
        """Announcements are sure to be in the attention queue."""
        ...

    def tickets_lost(self, class_id: str, count: int) -> None:
        """Announcements were found lost, and will be made again."""
        ...

    def lease_expired(self, class_id: str) -> None:
        """A lease ran out unsettled."""
        ...

    def reconcile_touched(self, count: int) -> None:
        """Queues had a backlog that the ledger did not know of."""
        ...

    def reconcile_redeclared(self, count: int) -> None:
        """Work queues were missing at the broker, and are there again."""
        ...

    def reconcile_began(self) -> None:
        """A round over all queues begins."""
        ...

    def reconcile_ended(self) -> None:
        """A round has seen every queue."""
        ...
