"""The words that worker and lease service exchange, as plain values.

May live here: frozen values and enums, pure. May not know: protobuf, gRPC, AMQP, clocks. Durations are float seconds, for
they are counted on Trio's monotonic clock; numbers of the enums are those of the wire.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class EndReason(IntEnum):
    """Why a slice ended."""

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


class DenialReason(IntEnum):
    """Why no lease was granted."""

    NO_READY_QUEUE = 1
    ADMISSION_CLOSED = 2
    CLASS_FULL = 3
    DRAINING = 4


class Disposition(IntEnum):
    """What became of the queue of a settled lease."""

    IDLE = 1
    READY = 2
    WAITING = 3


@dataclass(frozen=True, slots=True)
class Ticket:
    """A turn to ask: the class of the attention queue that it came from, and its announcement id."""

    class_id: str
    announcement_id: str


@dataclass(frozen=True, slots=True)
class Grant:
    """A slice lease and the terms of its slice. `valid_s` counts from before the request for it was first sent."""

    lease: str
    tenant: str
    queue: str
    amqp_queue: str
    priority_class: str
    fencing_token: int
    valid_s: float
    max_messages: int
    max_duration_s: float
    max_attempts: int


@dataclass(frozen=True, slots=True)
class Denial:
    """No lease now; `retry_after_s` 0: when the next ticket comes."""

    reason: DenialReason
    retry_after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class SliceTotals:
    """What a slice has done since its grant, in totals.

    `messages` were handled and acked, `failed` are handler runs to be retried, `bytes` and `handler_us` count bodies
    handled and the time of handlers, whatever their end.
    """

    messages: int = 0
    failed: int = 0
    dead_lettered: int = 0
    bytes: int = 0
    handler_us: int = 0


@dataclass(frozen=True, slots=True)
class ProgressReport:
    """Renews a lease. With `starting_id`, an attempt of that message is counted first."""

    grant: Grant
    totals: SliceTotals
    starting_id: str = ""
    finished_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Renewal:
    """The answer. `valid_s` is None when the lease was not renewed; `stop` is the reason to end with at the next message
    boundary, `attempt` the number of the attempt counted for `starting_id`, else 0.
    """

    valid_s: float | None
    stop: EndReason | None = None
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class SliceEnd:
    """The end of a slice, as the ledger is told. `returned_ids` went back without a finished run, `finished_ids` had been
    counted with a progress report and are done, `failed_id` (with ERROR) is to be retried.
    """

    grant: Grant
    reason: EndReason
    totals: SliceTotals
    returned_ids: tuple[str, ...] = ()
    finished_ids: tuple[str, ...] = ()
    failed_id: str = ""


@dataclass(frozen=True, slots=True)
class Settlement:
    """The ledger's answer to the end of a slice, and the next lease if one was wanted and could be had."""

    disposition: Disposition
    next_grant: Grant | None = None


@dataclass(frozen=True, slots=True)
class Directive:
    """Pushed to the holder of a lease: stop at the next message boundary with this reason."""

    lease: str
    stop: EndReason


@dataclass(frozen=True, slots=True)
class Welcome:
    """What the installation says when a worker's session opens."""

    max_amqp_heartbeat_s: float
    lease_length_s: float
    server_version: str = ""


@dataclass(frozen=True, slots=True)
class CallStatistics:
    """What a lease client has sent so far, repeats included, and the grants that came too late."""

    calls: int = 0
    exchanges: int = 0
    late_grants: int = 0
