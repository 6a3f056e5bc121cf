"""Channels and consumers: who holds what, until it is settled.

May live here: deliveries in hand and the credit of consumers. May not know: routing, event loops. Everything here that
changes is changed under the broker's lock; the public methods take it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .queue import Entry, Message, MessageQueue

if TYPE_CHECKING:
    from .core import MemoryBroker


class UnknownTagError(Exception):
    """The channel has no unacked delivery of that tag."""


class ClosedChannelError(Exception):
    """The channel is closed; what it held went back to the queues."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message in hand of a channel until its tag is acked or nacked. `left_ready` is how many were ready behind it."""

    queue: str
    tag: int
    message: Message
    redelivered: bool
    left_ready: int


class Consumer:
    """A standing consumer: deliveries are pushed to it while it has credit (`prefetch` less its unacked ones).

    `notify` is called after a push, and when it gets nothing more; see `core` for what it may do.
    """

    __slots__ = ("cancelled", "channel", "in_hand", "inbox", "notify", "prefetch", "queue")

    def __init__(self, channel: Channel, queue: str, prefetch: int, notify: Callable[[], None]) -> None:
        self.channel = channel
        self.queue = queue
        self.prefetch = prefetch
        self.notify = notify
        self.inbox: deque[Delivery] = deque()
        self.in_hand = 0
        self.cancelled = False

    @property
    def has_credit(self) -> bool:
        """Whether it may be given one more; prefetch 0 means no limit."""
        return not self.cancelled and (self.prefetch == 0 or self.in_hand < self.prefetch)

    def take(self) -> Delivery | None:
        """The next delivery pushed to it, or None."""
        try:
            return self.inbox.popleft()
        except IndexError:
            return None


@dataclass(slots=True)
class QueueInUse:
    """A queue with those who wait for its messages, and how many are in hand of channels."""

    messages: MessageQueue
    consumers: deque[Consumer] = field(default_factory=deque)
    unacked: int = 0
    deleted: bool = False

    def next_with_credit(self) -> Consumer | None:
        """The next consumer in turn that may be given a message; it goes to the end of the row."""
        for _ in range(len(self.consumers)):
            consumer = self.consumers[0]
            self.consumers.rotate(-1)
            if consumer.has_credit:
                return consumer
        return None


@dataclass(slots=True)
class InHand:
    """An entry out of its queue, and the consumer whose credit it uses, if any."""

    queue: QueueInUse
    entry: Entry
    consumer: Consumer | None


class Channel:
    """Holds deliveries until they are settled; closing it gives back what is left."""

    __slots__ = ("_broker", "_in_hand", "_last_tag", "closed", "consumers")

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        self._in_hand: dict[int, InHand] = {}
        self._last_tag = 0
        self.consumers: list[Consumer] = []
        self.closed = False

    def get(self, queue: str) -> Delivery | None:
        """Fetches the head of a queue, or None when nothing is ready. Raises UnknownQueueError, ClosedChannelError."""
        return self._broker.get(self, queue)

    def fetch(self, queue: str, most: int) -> list[Delivery]:
        """Fetches up to `most` from the head in one step. Raises like `get`."""
        return self._broker.fetch(self, queue, most)

    def consume(self, queue: str, prefetch: int, notify: Callable[[], None]) -> Consumer:
        """Begins a consumer. Raises UnknownQueueError, ClosedChannelError."""
        return self._broker.consume(self, queue, prefetch, notify)

    def cancel(self, consumer: Consumer) -> None:
        """Ends a consumer; what it had not taken yet goes back."""
        self._broker.cancel(consumer)

    def ack(self, tag: int) -> None:
        """Settles a delivery for good. Raises UnknownTagError, ClosedChannelError."""
        self._broker.ack(self, tag)

    def nack(self, tag: int, *, requeue: bool = True) -> None:
        """Gives a delivery back to its place, or dead-letters it. Raises like `ack`."""
        self._broker.nack(self, tag, requeue=requeue)

    def close(self) -> None:
        """Ends its consumers and gives back everything in hand; harmless when done twice."""
        self._broker.close(self)

    # For the broker, under its lock.

    def check_open(self) -> None:
        """Raises ClosedChannelError when it is closed."""
        if self.closed:
            raise ClosedChannelError("the channel is closed")

    def hold(self, held: InHand) -> int:
        """Takes a delivery in hand; its tag."""
        self._last_tag += 1
        self._in_hand[self._last_tag] = held
        return self._last_tag

    def release(self, tag: int) -> InHand:
        """Lets go of a delivery. Raises UnknownTagError, ClosedChannelError."""
        self.check_open()
        try:
            return self._in_hand.pop(tag)
        except KeyError:
            raise UnknownTagError(f"no unacked delivery {tag} on this channel") from None

    def release_all(self) -> list[InHand]:
        """Lets go of everything and closes."""
        self.closed = True
        held, self._in_hand = list(self._in_hand.values()), {}
        return held
