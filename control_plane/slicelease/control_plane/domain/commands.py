"""What can be asked of the ledger: one frozen value a command.

May live here: commands and what each does, in words. May not know: how it is done (ledger.py is the specification).
All times are integers of milliseconds. `now` is never part of a command: the ledger's clock is its store's.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from .names import LeaseKey, QueueKey
from .policy import ClassPolicy, QueuePolicy, TenantPolicy


class EndReason(IntEnum):
    """Why a slice ended; the numbers are those of the wire."""

    MESSAGES = 1
    TIME = 2
    EMPTY = 3
    ERROR = 4
    PAUSED = 5
    REVOKED = 6
    SHUTDOWN = 7
    LEASE_LOST = 8
    UNUSED = 9
    BROKER_LOST = 10


@dataclass(frozen=True, slots=True)
class SlotRequest:
    """Identity of a lease call, `{session}/{slot}/{n}`, and a digest of its content."""

    session: str
    slot: int
    n: int
    digest: str


@dataclass(frozen=True, slots=True)
class RequestKey:
    """Identity of any other idempotent call, and a digest of its content."""

    request_id: str
    digest: str


@dataclass(frozen=True, slots=True)
class Totals:
    """What a slice has done since its grant."""

    messages: int = 0
    failed: int = 0
    dead_lettered: int = 0
    bytes: int = 0
    handler_ms: int = 0


@dataclass(frozen=True, slots=True)
class Touch:
    """The queue may have work. IDLE becomes READY, LEASED becomes dirty, READY and WAITING stay.

    With `create`, an unknown tenant or queue is created with that policy first. With `finishes`, the publish claimed under
    that request is marked done in the same step. Outcome: Touched, or Refused TENANT_NOT_FOUND / QUEUE_NOT_FOUND.
    """

    key: QueueKey
    create: TenantPolicy | None = None
    finishes: RequestKey | None = None


@dataclass(frozen=True, slots=True)
class ClaimPublish:
    """Claims a publish before it is made. Outcome: PublishClaim, or Refused REQUEST_ID_REUSED / REQUEST_IN_PROGRESS.

    The first claim fixes the ids; a claim older than `claim_ms` is taken over with the same ids.
    """

    request: RequestKey
    message_id: str
    correlation_id: str


@dataclass(frozen=True, slots=True)
class ReleasePublish:
    """The claimed publish was surely not made: another may claim it at once. Outcome: Done."""

    request: RequestKey


@dataclass(frozen=True, slots=True)
class ReadAnswer:
    """What a request was answered, before anything is done for it elsewhere. Changes nothing; not for publishes and lease calls.

    Outcome: the stored one, Done where there is none, or Refused REQUEST_ID_REUSED.
    """

    request: RequestKey


@dataclass(frozen=True, slots=True)
class Acquire:
    """Asks for a lease among classes. `ticket_class` and `announcement_id` are empty when asking without a ticket.

    Outcome: Granted, Denied, or Refused REQUEST_ID_REUSED / REQUEST_SUPERSEDED / LEASE_OVER (of a repeated request).
    """

    request: SlotRequest
    classes: tuple[str, ...]
    ticket_class: str = ""
    announcement_id: str = ""


@dataclass(frozen=True, slots=True)
class Renew:
    """Renews a lease and records totals. `starting_id` counts an attempt of that message first.

    Outcome: Renewed, or Refused LEASE_OVER and those of Acquire.
    """

    request: SlotRequest
    lease: LeaseKey
    totals: Totals
    starting_id: str = ""
    finished_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Settle:
    """Ends a lease. With `want_next`, the next lease for the slot is chosen among `classes` in the same step.

    With ERROR, `failed_id` is the message to retry: its attempt is counted unless a Renew of this lease did, and the queue
    rests for the back-off of that count; without one (the queue could not be read) for the initial back-off.
    `returned_ids` that this lease counted are uncounted; counts of `finished_ids` are dropped.
    Outcome: Settled, or Refused LEASE_OVER and those of Acquire.
    """

    request: SlotRequest
    lease: LeaseKey
    end_reason: EndReason
    totals: Totals
    returned_ids: tuple[str, ...] = ()
    finished_ids: tuple[str, ...] = ()
    failed_id: str = ""
    want_next: bool = False
    classes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Ends a granted lease whose caller was seen to be gone, and forgets the slot's stored answer.

    Without effect unless the slot's last request is still `n` and no later reply carried the lease (`carried` as in the
    Granted). Outcome: GivenBack.
    """

    session: str
    slot: int
    n: int
    lease: LeaseKey
    carried: int


@dataclass(frozen=True, slots=True)
class Revoke:
    """Refuses the lease's further renewals; with `force`, ends it at once. Outcome: LeaseView or Refused LEASE_NOT_FOUND."""

    lease: LeaseKey
    force: bool = False
    request: RequestKey | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """Takes the queue out of the running, whatever its state. Outcome: QueueView or Refused *_NOT_FOUND."""

    key: QueueKey
    request: RequestKey | None = None


@dataclass(frozen=True, slots=True)
class Resume:
    """Puts it back; a READY queue is READY from now. Outcome: QueueView or Refused *_NOT_FOUND."""

    key: QueueKey
    request: RequestKey | None = None


# ---- policy -------------------------------------------------------------------------------------------------------------
# `expect_etag` empty: any. `validate_only`: everything is checked, nothing written, and the outcome shows the given policy.


@dataclass(frozen=True, slots=True)
class CreateTenant:
    """With its queue `default`, of the class's queue type. Outcome: TenantView, or Refused EXISTS / CLASS_NOT_FOUND."""

    tenant: str
    policy: TenantPolicy
    validate_only: bool = False
    request: RequestKey | None = None


@dataclass(frozen=True, slots=True)
class UpdateTenant:
    """Replaces the policy; READY queues move to the new class in the same step. Outcome: TenantView or Refused."""

    tenant: str
    policy: TenantPolicy
    expect_etag: str = ""
    validate_only: bool = False
    request: RequestKey | None = None


@dataclass(frozen=True, slots=True)
class DeleteTenant:
    """Outcome: Deleted, or Refused IN_USE while it has any queue but `default`. A live lease on `default` ends."""

    tenant: str
    expect_etag: str = ""
    validate_only: bool = False
    request: RequestKey | None = None


@dataclass(frozen=True, slots=True)
class CreateQueue:
    """The type INHERIT is resolved to the class's here. Outcome: QueueView, or Refused EXISTS / *_NOT_FOUND.

    A new queue is READY: the broker may hold work of that name already.
    """

    key: QueueKey
    policy: QueuePolicy
    validate_only: bool = False
    request: RequestKey | None = None


@dataclass(frozen=True, slots=True)
class UpdateQueue:
    """Replaces the policy but for the type, which stays. Outcome: QueueView or Refused."""

    key: QueueKey
    policy: QueuePolicy
    expect_etag: str = ""
    validate_only: bool = False
    request: RequestKey | None = None


@dataclass(frozen=True, slots=True)
class DeleteQueue:
    """A live lease ends. Outcome: Deleted, or Refused *_NOT_FOUND / ETAG_MISMATCH, or RESOURCE_IN_USE for `default`."""

    key: QueueKey
    expect_etag: str = ""
    validate_only: bool = False
    request: RequestKey | None = None


@dataclass(frozen=True, slots=True)
class CreateClass:
    """Outcome: ClassView or Refused EXISTS."""

    class_id: str
    policy: ClassPolicy
    validate_only: bool = False
    request: RequestKey | None = None


@dataclass(frozen=True, slots=True)
class UpdateClass:
    """Outcome: ClassView or Refused."""

    class_id: str
    policy: ClassPolicy
    expect_etag: str = ""
    validate_only: bool = False
    request: RequestKey | None = None


@dataclass(frozen=True, slots=True)
class DeleteClass:
    """Outcome: Deleted, or Refused IN_USE while a tenant or queue names it."""

    class_id: str
    expect_etag: str = ""
    validate_only: bool = False
    request: RequestKey | None = None


# ---- reading ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GetTenant:
    """Outcome: TenantView or Refused TENANT_NOT_FOUND."""

    tenant: str


@dataclass(frozen=True, slots=True)
class GetQueue:
    """Outcome: QueueView or Refused *_NOT_FOUND."""

    key: QueueKey


@dataclass(frozen=True, slots=True)
class GetClass:
    """Outcome: ClassView or Refused CLASS_NOT_FOUND."""

    class_id: str


@dataclass(frozen=True, slots=True)
class GetLease:
    """Outcome: LeaseView or Refused LEASE_NOT_FOUND."""

    lease: LeaseKey


@dataclass(frozen=True, slots=True)
class ListTenants:
    """In the byte order of ids, those after `after`, at most `limit`. Outcome: Page of TenantView."""

    after: str = ""
    limit: int = 100


@dataclass(frozen=True, slots=True)
class ListQueues:
    """In the byte order of `tenant/queue`; `tenant` empty: all. `after` is such a member. Outcome: Page of QueueView."""

    tenant: str = ""
    after: str = ""
    limit: int = 100


@dataclass(frozen=True, slots=True)
class ListClasses:
    """Outcome: Page of ClassView."""

    after: str = ""
    limit: int = 100


@dataclass(frozen=True, slots=True)
class ListLeases:
    """Live leases in the byte order of `tenant/queue`: all, of a tenant, or of its `queue`. Outcome: Page of LeaseView.

    A page may hold fewer than `limit` and still not be the last; `next_after` says.
    """

    tenant: str = ""
    queue: str = ""
    after: str = ""
    limit: int = 100


# ---- loops --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExpireLapsed:
    """Ends leases whose time is over, oldest first, at most `limit`, and reports lapses not reported yet. Outcome: Expired."""

    limit: int = 128


@dataclass(frozen=True, slots=True)
class WakeDue:
    """Makes WAITING queues whose time has come READY, at most `limit`. Outcome: Woken."""

    limit: int = 128


@dataclass(frozen=True, slots=True)
class ClaimAnnouncements:
    """Tops up every class, strikes owed ids that are no longer needed, and claims owed ids. Outcome: Announcements."""

    limit: int = 128


@dataclass(frozen=True, slots=True)
class MarkPublished:
    """Those still owed become published. Outcome: Done."""

    class_id: str
    announcement_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ObserveAttention:
    """Reports how many messages the attention queue of a class was seen to hold. Outcome: Observed.

    Seen empty for `look_ms`, with nothing owed, queues grantable and no live id asked with: the tickets were lost.
    """

    class_id: str
    messages: int


@dataclass(frozen=True, slots=True)
class ReadStats:
    """Outcome: Stats."""


@dataclass(frozen=True, slots=True)
class Ping:
    """A real step that changes nothing. Outcome: Pong."""


Command = (
    Touch
    | ClaimPublish
    | ReleasePublish
    | ReadAnswer
    | Acquire
    | Renew
    | Settle
    | GiveBack
    | Revoke
    | Pause
    | Resume
    | CreateTenant
    | UpdateTenant
    | DeleteTenant
    | CreateQueue
    | UpdateQueue
    | DeleteQueue
    | CreateClass
    | UpdateClass
    | DeleteClass
    | GetTenant
    | GetQueue
    | GetClass
    | GetLease
    | ListTenants
    | ListQueues
    | ListClasses
    | ListLeases
    | ExpireLapsed
    | WakeDue
    | ClaimAnnouncements
    | MarkPublished
    | ObserveAttention
    | ReadStats
    | Ping
)
