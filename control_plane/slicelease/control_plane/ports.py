"""What the control plane needs of the outside: the ledger's store, the broker.

May live here: protocols, their values and errors. May not know: Redis, AMQP, gRPC, asyncio.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from .domain.commands import Command, EndReason
from .domain.names import LeaseKey, QueueKey
from .domain.outcomes import Outcome
from .domain.policy import QueueType


class LedgerUnavailableError(Exception):
    """The store did not answer, or not as a ledger. Whether the commands took effect is unknown: ask again with the same ids."""


class LedgerVersionError(Exception):
    """The store holds a ledger of a newer schema than this software knows."""


class BrokerUnavailableError(Exception):
    """The broker did not answer or confirm in time, or blocks publishers. The fate of what was sent is unknown."""


class QueueFullError(Exception):
    """The broker refused the message: the queue is at its length limit."""


class QueueGoneError(Exception):
    """The message was returned as unroutable: the broker has no such queue."""


class QueueArgumentsDifferError(Exception):
    """The broker has the queue with other arguments; `argument` names the first that differs."""

    def __init__(self, queue: str, argument: str) -> None:
        self.queue = queue
        self.argument = argument
        super().__init__(f"queue {queue} exists at the broker with another {argument}")


class QueueNotEmptyError(Exception):
    """The queue still holds messages; `messages` is how many were ready."""

    def __init__(self, queue: str, messages: int) -> None:
        self.queue = queue
        self.messages = messages
        super().__init__(f"queue {queue} holds {messages} messages")


class Ledger(Protocol):
    """The state machine of all queues, as one atomic step for a list of commands."""

    async def execute(self, commands: Sequence[Command]) -> list[Outcome]:
        """One outcome for each command, in order, all at one instant of the ledger's clock.

        Each command is validated before its first write and isolated: a refused one changes nothing and leaves the others
        alone. Raises LedgerUnavailableError, LedgerVersionError.
        """
        ...


@dataclass(frozen=True, slots=True)
class WorkMessage:
    """One message of work, as it goes to the broker."""

    payload: bytes
    message_id: str
    correlation_id: str
    content_type: str = ""
    type: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RaisedAttention:
    """A message of `attention.work`, in hand until it is acked. `handle` belongs to the broker's adapter."""

    body: bytes
    handle: object


class Broker(Protocol):
    """The message broker as the control plane uses it. Every call ends within the adapter's own timeout.

    Every method raises BrokerUnavailableError; further errors are named.
    """

    def unready_reason(self) -> str | None:
        """Why the broker cannot be used now, or None."""
        ...

    async def declare_topology(self, classes: Sequence[str]) -> None:
        """Declares exchanges, `attention.work`, `attention.<class>` and the unsorted dead letters, where missing.

        An attention queue that exists with other arguments is used as it is, with a warning. Remembers nothing: called
        again whenever one of them was found missing.
        """
        ...

    async def announce(self, class_id: str, bodies: Sequence[bytes]) -> int:
        """Publishes tickets, confirmed and mandatory; the number of leading ones that are sure to be in the queue."""
        ...

    async def declare_work_queue(self, key: QueueKey, queue_type: QueueType) -> None:
        """Declares the work queue with its dead-letter target, where this process has not done so before.

        Raises QueueArgumentsDifferError.
        """
        ...

    async def publish_work(self, key: QueueKey, message: WorkMessage) -> None:
        """Publishes, persistent and mandatory, and waits for the confirm. Raises QueueGoneError, QueueFullError."""
        ...

    async def message_counts(self, keys: Sequence[QueueKey]) -> dict[QueueKey, int | None]:
        """Messages ready in each queue; None where the broker has none of that name."""
        ...

    async def attention_count(self, class_id: str) -> int | None:
        """Messages ready in `attention.<class>`; None where it is missing."""
        ...

    async def delete_work_queue(self, key: QueueKey, *, if_empty: bool) -> None:
        """Deletes the queue; none of that name is no error. Raises QueueNotEmptyError with `if_empty`."""
        ...

    async def take_raised(self, limit: int) -> list[RaisedAttention]:
        """Waits for raised attention and returns what is there, 1 to `limit`."""
        ...

    # Each raised attention is answered once: by ack, return or refusal. A second answer is without effect, and so is one
    # for a broken connection, whose messages the broker delivers again.

    async def ack_raised(self, raised: Sequence[RaisedAttention]) -> None:
        """They are recorded."""
        ...

    async def return_raised(self, raised: Sequence[RaisedAttention]) -> None:
        """They could not be recorded now: back to the queue."""
        ...

    async def refuse_raised(self, raised: Sequence[RaisedAttention], reason: str) -> None:
        """Moves them to the unsorted dead letters with the reason, and acks each once its copy is confirmed.

        After an error those that were not moved are still in hand.
        """
        ...


@dataclass(frozen=True, slots=True)
class StopHint:
    """The holder of a lease, a worker's session, should stop at its next message boundary and settle with `reason`."""

    session: str
    lease: LeaseKey
    reason: EndReason


class DirectiveBus(Protocol):
    """Carries hints to the replica that has the session's stream. A lost hint costs latency only: progress answers say it too."""

    async def publish(self, hint: StopHint) -> None:
        """Sends the hint to every replica, this one included. Never raises for a bus that is away: the hint is lost then."""
        ...

    async def run(self, deliver: Callable[[StopHint], None]) -> None:
        """Delivers the hints of all replicas until it is cancelled; comes back by itself when the bus was away."""
        ...
