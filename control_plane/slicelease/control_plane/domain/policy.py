"""What operators decide, as values in integers, and how a slice's terms are resolved from it.

May live here: policy records, their bounds and defaults. May not know: state, clocks, wire forms.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

CHARGE_SCALE = 100_000
"""Virtual time per millisecond of slot time at weight 1; divisible by the default weight, so 2^53 lasts for centuries."""

DEFAULT_WEIGHT = 100
MAX_WEIGHT = 1_000


class Ordering(IntEnum):
    """What is promised about the order of a queue's messages; the numbers are those of the wire."""

    INHERIT = 0
    STRICT = 1
    NONE = 2


class QueueType(IntEnum):
    """How the broker stores a queue; the numbers are those of the wire."""

    INHERIT = 0
    CLASSIC = 1
    QUORUM = 2


@dataclass(frozen=True, slots=True)
class SliceTerms:
    """Bounds of a slice and its retries. On a queue or a class, 0 means inherited."""

    slice_messages: int = 0
    slice_ms: int = 0
    max_attempts: int = 0
    backoff_ms: int = 0
    backoff_cap_ms: int = 0
    ordering: Ordering = Ordering.INHERIT

    def over(self, inherited: SliceTerms) -> SliceTerms:
        """Each field of self, or where it is 0 that of `inherited`."""
        return SliceTerms(
            self.slice_messages or inherited.slice_messages,
            self.slice_ms or inherited.slice_ms,
            self.max_attempts or inherited.max_attempts,
            self.backoff_ms or inherited.backoff_ms,
            self.backoff_cap_ms or inherited.backoff_cap_ms,
            self.ordering or inherited.ordering,
        )


INSTALLATION_TERMS = SliceTerms(20, 5_000, 5, 1_000, 60_000, Ordering.STRICT)
"""What holds where neither queue nor class says otherwise."""


@dataclass(frozen=True, slots=True)
class TenantPolicy:
    """Policy of a tenant."""

    priority_class: str
    weight: int = DEFAULT_WEIGHT
    display_name: str = ""

    @property
    def charge_per_ms(self) -> int:
        """Virtual time that a millisecond of slot time costs: the scale over the weight, never below 1.

        Start-time fair queueing charges cost divided by weight (Goyal, Vin, Cheng 1996); dividing once, here, leaves the
        ledger a multiplication.
        """
        return max(1, CHARGE_SCALE // self.weight)


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """Policy of a queue. An empty class means the tenant's. The type is resolved when the queue is created."""

    priority_class: str = ""
    queue_type: QueueType = QueueType.INHERIT
    terms: SliceTerms = SliceTerms()


@dataclass(frozen=True, slots=True)
class ClassPolicy:
    """Policy of a priority class. `max_leases` 0 means no ceiling."""

    target_wait_ms: int
    terms: SliceTerms = SliceTerms()
    queue_type: QueueType = QueueType.CLASSIC
    max_leases: int = 0


BUILT_IN_CLASSES = {
    "interactive": ClassPolicy(target_wait_ms=1_000),
    "standard": ClassPolicy(target_wait_ms=10_000),
    "bulk": ClassPolicy(target_wait_ms=300_000),
}
"""Created in a new installation; they may be changed and, when unused, deleted."""


@dataclass(frozen=True, slots=True)
class LedgerConfig:
    """Durations and defaults that one control plane hands to every ledger step. Milliseconds unless a name says otherwise."""

    lease_ms: int = 15_000
    """Validity after a renewal."""
    first_lease_ms: int = 5_000
    """Validity of a grant until its first renewal."""
    admission_ms: int = 31_000
    """How long admission closes when the store is new or restarted: the longest lease it may have lost, and its quarantine."""
    quarantine_ms: int = 16_000
    """How long after the end of its lease a lost holder's connection may still hold messages: 3 heartbeats + 1 s."""
    claim_ms: int = 5_000
    """How long a claimed announcement or publish is left to its claimant."""
    look_ms: int = 5_000
    """How long an attention queue must be seen empty before its tickets are taken for lost."""
    request_ttl_ms: int = 600_000
    """How long the answer to a request_id is kept."""
    terms: SliceTerms = INSTALLATION_TERMS
    """What holds where neither queue nor class says otherwise."""
    open_when_new: bool = False
    """A store without a ledger opens at once."""
    open_when_restarted: bool = False
    """A restarted store opens at once: only where all its workers ended with it."""
