"""The ledger's state as plain records.

May live here: what is stored, and the look-ups every rule needs. May not know: rules.
Milliseconds of the ledger's clock unless a name says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from slicelease.control_plane.domain.commands import Totals
from slicelease.control_plane.domain.names import LeaseKey, QueueKey
from slicelease.control_plane.domain.outcomes import Outcome, QueueState
from slicelease.control_plane.domain.policy import ClassPolicy, LedgerConfig, QueuePolicy, SliceTerms, TenantPolicy

SCHEMA = 1
"""Version of what is stored; a store with a higher one is refused."""

NO_TOTALS = Totals()


@dataclass(slots=True)
class TenantRecord:
    """A tenant."""

    policy: TenantPolicy
    etag: int
    created_ms: int
    updated_ms: int


@dataclass(slots=True)
class QueueRecord:
    """A queue: its policy, and its state. An IDLE queue's state is all defaults."""

    policy: QueuePolicy
    etag: int
    created_ms: int
    updated_ms: int
    state: QueueState = QueueState.IDLE
    since_ms: int = 0
    due_ms: int = 0
    token: int = 0
    dirty: bool = False
    paused: bool = False
    running_in: str = ""
    """The class in which it competes; empty while it does not."""
    suspect_ms: int = 0
    """Until then the connection of a holder whose lease ended unsettled may still hold messages."""


@dataclass(slots=True)
class Attempt:
    """How often a message's handler was started or failed, and the lease that last started it."""

    count: int
    token: int


@dataclass(slots=True)
class LeaseRecord:
    """A lease, live while `expires_ms` is ahead."""

    key: LeaseKey
    priority_class: str
    session: str
    slot: int
    granted_ms: int
    renewed_ms: int
    expires_ms: int
    waited_ms: int
    terms: SliceTerms
    start_tag: int
    """The tenant's virtual time at the grant."""
    charge_per_ms: int
    carried: int = 0
    revoked: bool = False
    totals: Totals = NO_TOTALS


@dataclass(slots=True)
class ClassRecord:
    """A class: its policy, the queues competing in it, its fair queueing, its balance."""

    policy: ClassPolicy
    etag: int
    created_ms: int
    updated_ms: int
    users: set[str] = field(default_factory=set)
    """Tenants (`t:{id}`) and queues (`q:{member}`) whose policy names this class."""
    virtual_time: int = 0
    tags: dict[str, int] = field(default_factory=dict)
    """Finish tag by tenant: where its service has got to."""
    ready: dict[str, int] = field(default_factory=dict)
    """Start tag by tenant, of tenants with competing queues."""
    turns: dict[str, dict[str, int]] = field(default_factory=dict)
    """By tenant, its competing queues (members) with the time since when they are READY."""
    leases: set[LeaseKey] = field(default_factory=set)
    """Leases granted under this class and not ended; those past their time do not count as live."""
    owed: dict[str, int] = field(default_factory=dict)
    """Announcement ids owed, with the time until which each is claimed (0: unclaimed)."""
    published: set[str] = field(default_factory=set)
    """Announcement ids published and not yet asked with."""
    empty_since_ms: int = 0
    """Since when its attention queue was seen empty at every look; 0: it was not."""

    def competing(self) -> int:
        """How many queues compete."""
        return sum(len(queues) for queues in self.turns.values())


@dataclass(slots=True)
class SlotRecord:
    """The last answer of a slot."""

    n: int
    digest: str
    answer: Outcome
    until_ms: int


@dataclass(slots=True)
class RequestRecord:
    """An idempotent call that is not a lease call: its answer, or for a publish its ids, claim and end."""

    digest: str
    until_ms: int
    answer: Outcome | None = None
    message_id: str = ""
    correlation_id: str = ""
    claimed_ms: int = 0
    done: bool = False


@dataclass(slots=True)
class LedgerState:
    """All of it. Changed in place by one step at a time."""

    run_id: str = ""
    generation: int = 0
    closed_until_ms: int = 0
    last_us: int = 0
    last_token: int = 0
    last_etag: int = 0
    last_announcement: int = 0
    tenants: dict[str, TenantRecord] = field(default_factory=dict)
    queues: dict[QueueKey, QueueRecord] = field(default_factory=dict)
    classes: dict[str, ClassRecord] = field(default_factory=dict)
    leases: dict[LeaseKey, LeaseRecord] = field(default_factory=dict)
    waiting: dict[QueueKey, int] = field(default_factory=dict)
    """Due times of WAITING queues."""
    attempts: dict[QueueKey, dict[str, Attempt]] = field(default_factory=dict)
    slots: dict[tuple[str, int], SlotRecord] = field(default_factory=dict)
    requests: dict[str, RequestRecord] = field(default_factory=dict)
    lapsed: list[tuple[LeaseKey, str]] = field(default_factory=list)
    """Lapses not yet reported, with the lease's class."""


@dataclass(slots=True)
class Step:
    """One atomic step: the state, the instant, and the classes whose balance it may have upset."""

    state: LedgerState
    now_us: int
    config: LedgerConfig
    upset: set[str] = field(default_factory=set)

    @property
    def now_ms(self) -> int:
        """The instant in milliseconds."""
        return self.now_us // 1_000

    def class_of(self, key: QueueKey) -> str:
        """The queue's own class, or its tenant's."""
        own = self.state.queues[key].policy.priority_class
        return own or self.state.tenants[key.tenant].policy.priority_class

    def live(self, key: LeaseKey) -> LeaseRecord | None:
        """The lease, if it has neither ended nor passed its time."""
        lease = self.state.leases.get(key)
        return lease if lease is not None and lease.expires_ms > self.now_ms else None

    def live_in(self, record: ClassRecord) -> int:
        """How many live leases the class has, counted from their entries."""
        return sum(1 for key in record.leases if self.live(key) is not None)

    def next_etag(self) -> int:
        """A new etag, never used before."""
        self.state.last_etag += 1
        return self.state.last_etag
