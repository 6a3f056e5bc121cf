"""The broker: topology, publishing and deliveries, each call atomic under one lock.

May live here: what a broker does, synchronously. May not know: event loops, time, the names of our queues. Safe to use
from any thread. Whoever must look again is told through its `notify`, called after the lock is released, in the thread
that caused it; it must return at once and may be called without need.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from enum import Enum

from .channel import Channel, Consumer, Delivery, InHand, QueueInUse
from .queue import Entry, Message, MessageQueue
from .routing import ExchangeKind, Routing


class Fate(Enum):
    """What became of a published message."""

    ROUTED = "routed"
    UNROUTABLE = "unroutable"
    REFUSED = "refused"


class UnknownQueueError(Exception):
    """There is no queue of that name."""


class ArgumentsDifferError(Exception):
    """The queue exists with other arguments; `argument` names the first that differs."""

    def __init__(self, queue: str, argument: str) -> None:
        self.queue, self.argument = queue, argument
        super().__init__(f"queue {queue} exists with another {argument}")


class NotEmptyError(Exception):
    """The queue holds ready messages; `messages` is how many."""

    def __init__(self, queue: str, messages: int) -> None:
        self.queue, self.messages = queue, messages
        super().__init__(f"queue {queue} holds {messages} messages")


class MemoryBroker:
    """A broker of its own; nothing is shared between two of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[str, QueueInUse] = {}
        self._routing = Routing()
        self._notices: list[Callable[[], None]] = []

    # ---- topology

    def declare_exchange(self, name: str, kind: ExchangeKind, alternate: str = "") -> None:
        """Adds an exchange where missing. Raises ExchangeDiffersError."""
        with self._lock:
            self._routing.declare(name, kind, alternate)

    def declare_queue(self, name: str, arguments: Mapping[str, object] | None = None) -> int:
        """Adds a queue where missing; its number of ready messages. Raises ArgumentsDifferError."""
        with self._lock:
            known = self._queues.get(name)
            if known is None:
                known = self._queues[name] = QueueInUse(MessageQueue(name, arguments or {}))
            differing = known.messages.differing_argument(arguments or {})
            if differing is not None:
                raise ArgumentsDifferError(name, differing)
            return len(known.messages)

    def bind(self, queue: str, exchange: str, routing_key: str = "") -> None:
        """Binds a queue to an exchange. Raises UnknownQueueError, UnknownExchangeError."""
        with self._lock:
            self._known(queue)
            self._routing.bind(queue, exchange, routing_key)

    def delete_queue(self, name: str, *, if_empty: bool = False) -> bool:
        """Deletes a queue with all it holds; whether there was one. Raises NotEmptyError with `if_empty`."""
        with self._lock:
            queue = self._queues.get(name)
            if queue is None:
                return False
            if if_empty and len(queue.messages):
                raise NotEmptyError(name, len(queue.messages))
            del self._queues[name]
            queue.deleted = True
            self._routing.forget_queue(name)
            self._end_consumers(queue.consumers)
        self._tell()
        return True

    def purge(self, name: str) -> int:
        """Drops the ready messages of a queue; how many. Raises UnknownQueueError."""
        with self._lock:
            return self._known(name).messages.purge()

    # ---- looking

    def ready_count(self, name: str) -> int | None:
        """Messages ready in a queue, those in hand left out; None where there is no such queue."""
        with self._lock:
            queue = self._queues.get(name)
            return None if queue is None else len(queue.messages)

    def unacked_count(self, name: str) -> int | None:
        """Messages of a queue in hand of channels; None where there is no such queue."""
        with self._lock:
            queue = self._queues.get(name)
            return None if queue is None else queue.unacked

    def queue_names(self) -> list[str]:
        """The names of all queues, sorted."""
        with self._lock:
            return sorted(self._queues)

    def peek(self, name: str) -> list[Message]:
        """The ready messages of a queue from its head on, left where they are. Raises UnknownQueueError."""
        with self._lock:
            return [entry.message for entry in self._known(name).messages]

    # ---- publishing

    def publish(self, exchange: str, routing_key: str, message: Message) -> Fate:
        """Routes a message; the default exchange is `""`. Raises UnknownExchangeError.

        REFUSED when a queue that it was routed to is full and refuses; it may be in others then.
        """
        with self._lock:
            fate = self._route(exchange, routing_key, message)
        self._tell()
        return fate

    def _route(self, exchange: str, routing_key: str, message: Message) -> Fate:
        names = self._routing.queues_for(exchange, routing_key) if exchange else [routing_key]
        queues = [self._queues[name] for name in names if name in self._queues]
        if not queues:
            return Fate.UNROUTABLE
        taken = [self._append(queue, message) for queue in queues]
        return Fate.ROUTED if all(taken) else Fate.REFUSED

    def _append(self, queue: QueueInUse, message: Message) -> bool:
        if queue.messages.full:
            if queue.messages.refuses_when_full:
                return False
            queue.messages.take()
        queue.messages.append(message)
        self._push(queue)
        return True

    def _dead_letter(self, queue: QueueInUse, entry: Entry) -> None:
        arguments = queue.messages.arguments
        exchange = arguments.get("x-dead-letter-exchange")
        if isinstance(exchange, str) and (not exchange or self._routing.knows(exchange)):
            key = arguments.get("x-dead-letter-routing-key", queue.messages.name)
            self._route(exchange, str(key), entry.message)

    # ---- deliveries

    def open_channel(self) -> Channel:
        """A channel, which holds what was delivered over it."""
        return Channel(self)

    def get(self, channel: Channel, name: str) -> Delivery | None:
        """See Channel."""
        with self._lock:
            channel.check_open()
            queue = self._known(name)
            entry = queue.messages.take()
            return None if entry is None else self._deliver(InHand(queue, entry, None), channel)

    def fetch(self, channel: Channel, name: str, most: int) -> list[Delivery]:
        """See Channel."""
        with self._lock:
            channel.check_open()
            queue = self._known(name)
            count = min(most, len(queue.messages))
            entries = [entry for _ in range(count) if (entry := queue.messages.take()) is not None]
            return [self._deliver(InHand(queue, entry, None), channel) for entry in entries]

    def consume(self, channel: Channel, name: str, prefetch: int, notify: Callable[[], None]) -> Consumer:
        """See Channel."""
        with self._lock:
            channel.check_open()
            queue = self._known(name)
            consumer = Consumer(channel, name, prefetch, notify)
            queue.consumers.append(consumer)
            channel.consumers.append(consumer)
            self._push(queue)
        self._tell()
        return consumer

    def cancel(self, consumer: Consumer) -> None:
        """See Channel."""
        with self._lock:
            self._end_consumers([consumer])
            untaken = list(consumer.inbox)
            consumer.inbox.clear()
            self._restore([consumer.channel.release(delivery.tag) for delivery in untaken])
        self._tell()

    def ack(self, channel: Channel, tag: int) -> None:
        """See Channel."""
        with self._lock:
            held = channel.release(tag)
            self._let_go(held)
            self._push(held.queue)
        self._tell()

    def nack(self, channel: Channel, tag: int, *, requeue: bool) -> None:
        """See Channel."""
        with self._lock:
            held = channel.release(tag)
            if requeue:
                self._restore([held])
            else:
                self._let_go(held)
                self._dead_letter(held.queue, held.entry)
                self._push(held.queue)
        self._tell()

    def close(self, channel: Channel) -> None:
        """See Channel."""
        with self._lock:
            self._end_consumers(channel.consumers)
            for consumer in channel.consumers:
                consumer.inbox.clear()
            self._restore(channel.release_all())
        self._tell()

    def _deliver(self, held: InHand, channel: Channel) -> Delivery:
        tag = channel.hold(held)
        held.queue.unacked += 1
        messages, entry = held.queue.messages, held.entry
        return Delivery(messages.name, tag, entry.message, entry.redelivered, len(messages))

    def _push(self, queue: QueueInUse) -> None:
        """Hands ready messages to consumers with credit, in turn."""
        while len(queue.messages) and (consumer := queue.next_with_credit()) is not None:
            entry = queue.messages.take()
            if entry is None:
                return
            consumer.in_hand += 1
            consumer.inbox.append(self._deliver(InHand(queue, entry, consumer), consumer.channel))
            self._notices.append(consumer.notify)

    def _restore(self, held: Iterable[InHand]) -> None:
        """Gives entries back. All are at their places before any is pushed, so that no consumer gets a later one first."""
        queues: dict[int, QueueInUse] = {}
        for one in held:
            self._let_go(one)
            if not one.queue.deleted:
                one.queue.messages.give_back(one.entry)
                queues[id(one.queue)] = one.queue
        for queue in queues.values():
            self._push(queue)

    def _let_go(self, held: InHand) -> None:
        held.queue.unacked -= 1
        if held.consumer is not None:
            held.consumer.in_hand -= 1

    def _end_consumers(self, consumers: Iterable[Consumer]) -> None:
        for consumer in list(consumers):
            consumer.cancelled = True
            self._notices.append(consumer.notify)
            queue = self._queues.get(consumer.queue)
            if queue is not None and consumer in queue.consumers:
                queue.consumers.remove(consumer)

    def _known(self, name: str) -> QueueInUse:
        try:
            return self._queues[name]
        except KeyError:
            raise UnknownQueueError(f"no queue {name!r}") from None

    def _tell(self) -> None:
        if not self._notices:
            return
        with self._lock:
            notices, self._notices = self._notices, []
        for notify in dict.fromkeys(notices):
            notify()
