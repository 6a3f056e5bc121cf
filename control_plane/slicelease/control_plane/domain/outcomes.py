"""What the ledger answers: one frozen value an outcome.

May live here: outcomes and their meaning. May not know: gRPC codes (rpc/status.py has the one table).
Times are milliseconds of the ledger's clock, durations milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from .commands import EndReason, Totals
from .names import LeaseKey, QueueKey
from .policy import ClassPolicy, QueuePolicy, SliceTerms, TenantPolicy


class QueueState(IntEnum):
    """The state of a queue; the numbers are those of the wire."""

    IDLE = 1
    READY = 2
    LEASED = 3
    WAITING = 4


class DenialReason(IntEnum):
    """Why no lease was granted; the numbers are those of the wire."""

    NO_READY_QUEUE = 1
    ADMISSION_CLOSED = 2
    CLASS_FULL = 3
    DRAINING = 4


class RefusalReason(StrEnum):
    """Why a command was refused. A refusal has changed nothing."""

    TENANT_NOT_FOUND = "TENANT_NOT_FOUND"
    QUEUE_NOT_FOUND = "QUEUE_NOT_FOUND"
    PRIORITY_CLASS_NOT_FOUND = "PRIORITY_CLASS_NOT_FOUND"
    LEASE_NOT_FOUND = "LEASE_NOT_FOUND"
    RESOURCE_EXISTS = "RESOURCE_EXISTS"
    ETAG_MISMATCH = "ETAG_MISMATCH"
    RESOURCE_IN_USE = "RESOURCE_IN_USE"
    REQUEST_ID_REUSED = "REQUEST_ID_REUSED"
    REQUEST_SUPERSEDED = "REQUEST_SUPERSEDED"
    REQUEST_IN_PROGRESS = "REQUEST_IN_PROGRESS"
    LEASE_OVER = "LEASE_OVER"


@dataclass(frozen=True, slots=True)
class Refused:
    """The command was refused; `subject` is the id, member or request that the reason speaks of."""

    reason: RefusalReason
    subject: str
    retry_after_ms: int = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """The store broke at this command, and only at it; `cause` is for the log. Never an answer of the specification."""

    cause: str


@dataclass(frozen=True, slots=True)
class Touched:
    """`coalesced`: it was known to have work already. `created`: the queue did not exist before."""

    coalesced: bool
    created: bool


@dataclass(frozen=True, slots=True)
class PublishClaim:
    """`done`: it was published before, answer with these ids. Otherwise publish with them."""

    message_id: str
    correlation_id: str
    done: bool


@dataclass(frozen=True, slots=True)
class Granted:
    """A lease. `valid_ms` is what remains of its validity; `waited_ms` how long the queue was READY.

    `carried` counts the replies that carried this lease, from 1.
    """

    lease: LeaseKey
    priority_class: str
    valid_ms: int
    waited_ms: int
    granted_ms: int
    terms: SliceTerms
    carried: int


@dataclass(frozen=True, slots=True)
class Denied:
    """No lease; `retry_after_ms` 0 means: when the next ticket comes."""

    reason: DenialReason
    retry_after_ms: int


@dataclass(frozen=True, slots=True)
class Renewed:
    """`stop` says with which reason to end at the next message boundary; then `valid_ms` is what remains or was renewed.

    `attempt` is the number of the attempt counted for `starting_id`, else 0.
    """

    valid_ms: int
    stop: EndReason | None
    attempt: int


@dataclass(frozen=True, slots=True)
class Settled:
    """`slot_ms` is the time the lease was held; `waits_ms` is set with WAITING. `lease_class` is that of the ended lease."""

    state: QueueState
    waits_ms: int
    slot_ms: int
    lease_class: str
    next: Granted | None


@dataclass(frozen=True, slots=True)
class GivenBack:
    """Whether the lease was ended."""

    ended: bool


@dataclass(frozen=True, slots=True)
class Deleted:
    """It is gone (or would be, with validate_only)."""


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing to tell."""


@dataclass(frozen=True, slots=True)
class TenantView:
    """A tenant as stored."""

    tenant: str
    policy: TenantPolicy
    etag: str
    created_ms: int
    updated_ms: int


@dataclass(frozen=True, slots=True)
class QueueView:
    """A queue as stored.

    `since_ms` is when it became READY, WAITING or LEASED, else 0; `token` is that of the live lease, else 0.
    """

    key: QueueKey
    policy: QueuePolicy
    effective_class: str
    state: QueueState
    paused: bool
    since_ms: int
    due_ms: int
    token: int
    etag: str
    created_ms: int
    updated_ms: int


@dataclass(frozen=True, slots=True)
class ClassView:
    """A class as stored."""

    class_id: str
    policy: ClassPolicy
    etag: str
    created_ms: int
    updated_ms: int


@dataclass(frozen=True, slots=True)
class LeaseView:
    """A live lease (with a forced revocation: one that has just ended)."""

    lease: LeaseKey
    priority_class: str
    session: str
    slot: int
    granted_ms: int
    expires_ms: int
    waited_ms: int
    revoked: bool
    totals: Totals


@dataclass(frozen=True, slots=True)
class Page:
    """A page of views; `next_after` empty: the last."""

    items: tuple[TenantView | QueueView | ClassView | LeaseView, ...]
    next_after: str


@dataclass(frozen=True, slots=True)
class Expired:
    """Leases that ended for lapse of time since the last report, with their classes; each is reported once, to one replica.

    `more`: ask again, there is more to expire or to report.
    """

    leases: tuple[tuple[LeaseKey, str], ...]
    more: bool


@dataclass(frozen=True, slots=True)
class Woken:
    """How many queues became READY by this command; `more`: others are due."""

    queues: int
    more: bool


@dataclass(frozen=True, slots=True)
class Announcements:
    """Claimed ids with their classes: publish each, then MarkPublished."""

    claimed: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Observed:
    """How many published ids were dropped as lost, to be announced again."""

    dropped: int


@dataclass(frozen=True, slots=True)
class ClassStats:
    """Counts of one class. `oldest_ready_ms` is the longest wait among its READY queues."""

    class_id: str
    ready: int
    leases: int
    owed: int
    published: int
    oldest_ready_ms: int


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts of the ledger, cheap to take."""

    classes: tuple[ClassStats, ...]
    waiting: int
    tenants: int
    queues: int
    closed_ms: int


@dataclass(frozen=True, slots=True)
class Pong:
    """`closed_ms`: how long admission stays closed; `generation` rises with each loss or restart of the store."""

    now_ms: int
    closed_ms: int
    generation: int


Outcome = (
    Refused
    | Failed
    | Touched
    | PublishClaim
    | Granted
    | Denied
    | Renewed
    | Settled
    | GivenBack
    | Deleted
    | Done
    | TenantView
    | QueueView
    | ClassView
    | LeaseView
    | Page
    | Expired
    | Woken
    | Announcements
    | Observed
    | Stats
    | Pong
)
