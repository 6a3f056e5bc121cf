"""What the worker's runtime needs of the outside: the broker and the lease service.

May live here: protocols, their values and errors. May not know: AMQP, gRPC, protobuf. Everything runs under Trio; methods
without `async` never block. The AMQP adapter and the in-memory broker of `slicelease dev` implement the same protocols.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, runtime_checkable

import trio

from .leases import Denial, Directive, Grant, ProgressReport, Renewal, Settlement, SliceEnd, Ticket, Welcome

# ---- the broker ---------------------------------------------------------------------------------------------------------


class BrokerLostError(Exception):
    """The link to the broker is gone, or there is none now. What was unacked on it goes back when the broker notices."""


class QueueUnreadableError(Exception):
    """The broker closed the channel: the queue is missing or refused, or a delivery was held too long.

    The link is sound, and what was unacked on the channel has gone back in order.
    """


class DeadLetterError(Exception):
    """The broker did not confirm the dead letter in time, or refused it. The original must not be acked."""


class MalformedMessageError(Exception):
    """The properties of a message cannot be read. Trying again does not help."""


class MessageProperties(Protocol):
    """What the publisher said of the message; None where it said nothing."""

    @property
    def correlation_id(self) -> str | None:
        """Follows the work through logs."""
        ...

    @property
    def type(self) -> str | None:
        """Chooses the handler."""
        ...

    @property
    def content_type(self) -> str | None:
        """Of the body."""
        ...

    @property
    def headers(self) -> Mapping[str, Any] | None:
        """The header table."""
        ...


class Delivery(Protocol):
    """A message of work in hand: fetched, not acked."""

    @property
    def body(self) -> bytes:
        """The publisher's bytes."""
        ...

    @property
    def redelivered(self) -> bool:
        """Whether the broker delivered it before, to anyone."""
        ...

    @property
    def message_id(self) -> str:
        """The publisher's, or one derived from queue, properties and body: the same at each delivery. At most 255 bytes."""
        ...

    @property
    def properties(self) -> MessageProperties:
        """Read when first asked for. Raises MalformedMessageError."""
        ...


class WorkChannel(Protocol):
    """The means of one slot to take work. One fetch, barrier or close at a time.

    Every method raises BrokerLostError, or QueueUnreadableError when the broker closed the channel alone; either ends the
    channel. A cancelled fetch may still have taken messages: then only `close` is left.
    """

    @property
    def is_open(self) -> bool:
        """Whether it can be used, as far as is known: a slot that was idle sees so that its link is a new one."""
        ...

    async def fetch(self, amqp_queue: str, most: int) -> Sequence[Delivery]:
        """Takes up to `most` messages, in the queue's order, by gets sent in one write.

        Fewer than `most` mean that the queue was seen empty (a get was answered so).
        """
        ...

    def ack(self, delivery: Delivery) -> None:
        """Queues the ack of a message that this channel fetched; it goes out with whatever is queued."""
        ...

    async def barrier(self, amqp_queue: str) -> None:
        """Returns when the broker has processed every ack queued before: a synchronous reply on this channel says so."""
        ...

    async def close(self) -> None:
        """Gives back everything unacked, in order, and returns when the broker has done it. Acks queued before count."""
        ...


class TicketDelivery(Protocol):
    """A ticket in hand."""

    @property
    def body(self) -> bytes:
        """As announced: JSON with an `announcement_id`."""
        ...

    def ack(self) -> None:
        """The ledger has answered. Raises BrokerLostError when its link or channel is gone: then it has gone back."""
        ...

    def nack(self) -> None:
        """Back to the attention queue. Raises BrokerLostError."""
        ...

    async def refuse(self, reason: str) -> None:
        """It is no ticket: moves it to the unsorted dead letters with the reason, confirmed.

        Raises BrokerLostError, DeadLetterError: then it is in hand still, or gone back.
        """
        ...


class TicketStream(Protocol):
    """Tickets of one class, as they are delivered.

    Iterating ends by itself after `stop`. It raises BrokerLostError when the link is gone, QueueUnreadableError when the
    attention queue is (missing, deleted).
    """

    def __aiter__(self) -> AsyncIterator[TicketDelivery]:
        """Deliveries in order."""
        ...

    async def stop(self) -> None:
        """No more deliveries. Tickets in hand stay in hand until the stream's context ends."""
        ...


class WorkerBroker(Protocol):
    """The message broker as a worker uses it."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Connects, stays connected with jittered back-off, and serves the other methods until cancelled.

        Started at once, connected or not. Raises for settings that no retry can mend (a refused login at the start).
        """
        ...

    def unready_reason(self) -> str | None:
        """Why the broker cannot be used now, or None."""
        ...

    async def wait_connected(self) -> None:
        """Returns while there is a link."""
        ...

    def consume_tickets(self, class_id: str, prefetch: int) -> AbstractAsyncContextManager[TicketStream]:
        """Consumes `attention.<class>` for the time of the block; at most `prefetch` tickets are in hand.

        Leaving the block gives back every ticket in hand. Entering raises BrokerLostError, or QueueUnreadableError when the
        queue does not exist.
        """
        ...

    async def open_work_channel(self) -> WorkChannel:
        """A channel to take work with. Raises BrokerLostError."""
        ...

    async def dead_letter(self, tenant: str, delivery: Delivery, headers: Mapping[str, str]) -> None:
        """Puts a copy into `dead.<tenant>`: same body, properties and message id, `headers` added; confirmed.

        Declares and binds that queue on first use. The original stays in hand. Raises DeadLetterError, BrokerLostError.
        """
        ...


# ---- the lease service --------------------------------------------------------------------------------------------------


class LeaseOverError(Exception):
    """The ledger says that the lease has ended: expired, settled, forced off, or its record lost."""


class LeaseServiceUnavailableError(Exception):
    """No answer in the given time. Whether the request took effect is unknown."""


class RequestRefusedError(Exception):
    """The lease service refused the request for good: a fault of this worker or of its settings; the text says which."""


class ProtocolUnsupportedError(Exception):
    """This worker and the installation cannot work together; the text says what to change."""


@runtime_checkable
class LeaseClient(Protocol):
    """The lease service as a worker uses it, for one session.

    Requests of one slot go one at a time, others wait; a request is repeated under the same id until it is answered or
    `within_s` is over (LeaseServiceUnavailableError). Cancelling a call abandons it: a grant that arrives late is given
    back. Every call raises RequestRefusedError besides what it names.
    """

    async def run(
        self,
        on_directive: Callable[[Directive], None],
        *,
        task_status: trio.TaskStatus[Welcome] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Opens the session, stays connected, and serves the other methods until cancelled.

        Started with the first welcome, however long the service is away before. Later losses of the stream cost latency
        only. Raises ProtocolUnsupportedError.
        """
        ...

    def unready_reason(self) -> str | None:
        """Why the lease service cannot be used now, or None."""
        ...

    async def acquire(self, slot: int, classes: Sequence[str], ticket: Ticket | None, *, within_s: float) -> Grant | Denial:
        """Asks for a lease. A control plane that is shutting down counts as no answer. Raises LeaseOverError when a repeated
        request is answered with a lease that has ended.
        """
        ...

    async def progress(self, slot: int, report: ProgressReport, *, within_s: float) -> Renewal:
        """Renews a lease. Raises LeaseOverError."""
        ...

    async def settle(self, slot: int, end: SliceEnd, *, next_among: Sequence[str], within_s: float) -> Settlement:
        """Ends a lease; with `next_among` not empty, asks for the slot's next one among these classes in the same step.

        Call it only when the broker has processed the slice's last ack. Raises LeaseOverError.
        """
        ...
