"""The in-memory broker's core: routing, order, credit, and what closing gives back."""

from collections.abc import Callable

import pytest

from slicelease.cli.memory_broker.channel import ClosedChannelError, UnknownTagError
from slicelease.cli.memory_broker.core import (
    ArgumentsDifferError,
    Fate,
    MemoryBroker,
    NotEmptyError,
    UnknownQueueError,
)
from slicelease.cli.memory_broker.queue import Message
from slicelease.cli.memory_broker.routing import ExchangeDiffersError, ExchangeKind, UnknownExchangeError


def nothing() -> None:
    """For consumers that are looked at by hand."""


def filled(*bodies: bytes, **arguments: object) -> MemoryBroker:
    """A broker with a queue `q` that holds these bodies."""
    broker = MemoryBroker()
    broker.declare_queue("q", {name.replace("_", "-"): value for name, value in arguments.items()})
    for body in bodies:
        assert broker.publish("", "q", Message(body)) is Fate.ROUTED
    return broker


def drained(broker: MemoryBroker, queue: str = "q") -> list[tuple[bytes, bool]]:
    """Body and redelivered flag of all that is ready, taken for good."""
    channel, taken = broker.open_channel(), []
    while (delivery := channel.get(queue)) is not None:
        taken.append((delivery.message.body, delivery.redelivered))
        channel.ack(delivery.tag)
    return taken


def bodies(broker: MemoryBroker, queue: str = "q") -> list[bytes]:
    return [message.body for message in broker.peek(queue)]


class Bell:
    """Counts how often it was rung."""

    def __init__(self) -> None:
        self.rung = 0

    def __call__(self) -> None:
        self.rung += 1


def test_messages_come_in_the_order_published() -> None:
    assert drained(filled(b"1", b"2", b"3")) == [(b"1", False), (b"2", False), (b"3", False)]


def test_a_publish_that_reaches_no_queue_says_so() -> None:
    broker = filled()
    broker.declare_exchange("x", ExchangeKind.DIRECT)
    assert broker.publish("", "missing", Message(b"")) is Fate.UNROUTABLE
    assert broker.publish("x", "unbound", Message(b"")) is Fate.UNROUTABLE
    with pytest.raises(UnknownExchangeError, match="nowhere"):
        broker.publish("nowhere", "q", Message(b""))


def test_direct_takes_the_key_and_fanout_takes_all() -> None:
    broker = filled()
    broker.declare_queue("r")
    broker.declare_exchange("direct", ExchangeKind.DIRECT)
    broker.declare_exchange("fanout", ExchangeKind.FANOUT)
    for queue in ("q", "r"):
        broker.bind(queue, "direct", queue)
        broker.bind(queue, "fanout")
        broker.bind(queue, "fanout", "again")
    broker.publish("direct", "r", Message(b"one"))
    broker.publish("fanout", "any", Message(b"all"))
    assert (bodies(broker), bodies(broker, "r")) == ([b"all"], [b"one", b"all"])


def test_the_alternate_exchange_gets_what_reaches_no_queue() -> None:
    broker = filled()
    broker.declare_exchange("spare", ExchangeKind.FANOUT, alternate="main")
    broker.declare_exchange("main", ExchangeKind.DIRECT, alternate="spare")
    assert broker.publish("main", "k", Message(b"")) is Fate.UNROUTABLE, "a ring of alternates ends"
    broker.bind("q", "spare")
    assert broker.publish("main", "k", Message(b"")) is Fate.ROUTED


def test_an_exchange_that_exists_otherwise_is_an_error() -> None:
    broker = MemoryBroker()
    broker.declare_exchange("x", ExchangeKind.DIRECT)
    broker.declare_exchange("x", ExchangeKind.DIRECT)
    with pytest.raises(ExchangeDiffersError):
        broker.declare_exchange("x", ExchangeKind.FANOUT)


def test_a_queue_that_exists_otherwise_is_an_error_that_names_the_argument() -> None:
    broker = filled(b"1", x_max_length=3)
    assert broker.declare_queue("q", {"x-max-length": 3}) == 1
    with pytest.raises(ArgumentsDifferError) as refused:
        broker.declare_queue("q", {"x-max-length": 4})
    assert refused.value.argument == "x-max-length"


def test_a_full_queue_refuses_or_drops_its_head() -> None:
    refusing = filled(b"1", b"2", x_max_length=2, x_overflow="reject-publish")
    assert refusing.publish("", "q", Message(b"3")) is Fate.REFUSED
    assert bodies(refusing) == [b"1", b"2"]
    assert bodies(filled(b"1", b"2", b"3", x_max_length=2)) == [b"2", b"3"]


def test_nack_returns_a_message_to_its_place() -> None:
    broker = filled(b"1", b"2", b"3", b"4")
    channel = broker.open_channel()
    first, second, third = (channel.get("q") for _ in range(3))
    assert first is not None
    assert second is not None
    assert third is not None
    channel.nack(third.tag)
    channel.nack(first.tag)
    assert bodies(broker) == [b"1", b"3", b"4"]
    channel.close()
    assert drained(broker) == [(b"1", True), (b"2", True), (b"3", True), (b"4", False)]


def test_closing_gives_back_in_order_what_several_channels_held() -> None:
    broker = filled(b"1", b"2", b"3", b"4", b"5")
    left, right = broker.open_channel(), broker.open_channel()
    for channel in (left, right, right, left):
        channel.get("q")
    right.close()
    assert bodies(broker) == [b"2", b"3", b"5"]
    left.close()
    assert bodies(broker) == [b"1", b"2", b"3", b"4", b"5"]
    with pytest.raises(ClosedChannelError):
        left.get("q")
    with pytest.raises(ClosedChannelError):
        left.ack(1)
    left.close()


def test_a_tag_can_be_settled_once() -> None:
    broker = filled(b"1")
    channel = broker.open_channel()
    delivery = channel.get("q")
    assert delivery is not None
    channel.ack(delivery.tag)
    for settle in (channel.ack, channel.nack):
        with pytest.raises(UnknownTagError):
            settle(delivery.tag)


def test_counts_leave_out_what_is_in_hand() -> None:
    broker = filled(b"1", b"2")
    channel = broker.open_channel()
    delivery = channel.get("q")
    assert delivery is not None
    assert delivery.left_ready == 1
    assert (broker.ready_count("q"), broker.unacked_count("q")) == (1, 1)
    channel.ack(delivery.tag)
    assert (broker.ready_count("q"), broker.unacked_count("q")) == (1, 0)
    assert (broker.ready_count("none"), broker.unacked_count("none")) == (None, None)


def test_a_rejected_message_goes_to_the_dead_letter_exchange() -> None:
    broker = filled(b"1", x_dead_letter_exchange="dead", x_dead_letter_routing_key="t")
    broker.declare_exchange("dead", ExchangeKind.DIRECT)
    broker.declare_queue("graves")
    broker.bind("graves", "dead", "t")
    channel = broker.open_channel()
    delivery = channel.get("q")
    assert delivery is not None
    channel.nack(delivery.tag, requeue=False)
    assert (bodies(broker), bodies(broker, "graves")) == ([], [b"1"])


def test_a_consumer_gets_no_more_than_its_prefetch() -> None:
    broker, bell = filled(b"1", b"2", b"3"), Bell()
    channel = broker.open_channel()
    consumer = channel.consume("q", 2, bell)
    assert bell.rung == 1
    first, second, none = consumer.take(), consumer.take(), consumer.take()
    assert first is not None
    assert second is not None
    assert none is None
    assert (broker.ready_count("q"), broker.unacked_count("q")) == (1, 2)
    channel.ack(second.tag)
    third = consumer.take()
    assert third is not None
    assert third.message.body == b"3"
    assert bell.rung == 2


def test_consumers_take_turns_and_a_full_one_is_passed_over() -> None:
    broker = filled()
    channel = broker.open_channel()
    one, two = channel.consume("q", 1, nothing), channel.consume("q", 0, nothing)
    for body in (b"1", b"2", b"3", b"4"):
        broker.publish("", "q", Message(body))
    assert [delivery.message.body for delivery in one.inbox] == [b"1"]
    assert [delivery.message.body for delivery in two.inbox] == [b"2", b"3", b"4"]


def test_cancelling_gives_back_what_the_consumer_had_not_taken() -> None:
    broker = filled(b"1", b"2", b"3")
    channel = broker.open_channel()
    consumer = channel.consume("q", 2, nothing)
    taken = consumer.take()
    channel.cancel(consumer)
    assert taken is not None
    assert consumer.cancelled
    assert consumer.take() is None
    assert bodies(broker) == [b"2", b"3"]
    channel.nack(taken.tag)
    assert drained(broker) == [(b"1", True), (b"2", True), (b"3", False)]


def test_closing_a_consumer_passes_its_messages_on_in_order() -> None:
    broker = filled(b"1", b"2", b"3")
    leaving, staying = broker.open_channel(), broker.open_channel()
    leaving.consume("q", 0, nothing)
    heir = staying.consume("q", 0, nothing)
    assert not heir.inbox
    leaving.close()
    assert [(delivery.message.body, delivery.redelivered) for delivery in heir.inbox] == [
        (b"1", True),
        (b"2", True),
        (b"3", True),
    ]


def test_a_deleted_queue_ends_its_consumers_and_drops_what_comes_back() -> None:
    broker, bell = filled(b"1", b"2"), Bell()
    channel = broker.open_channel()
    held = channel.get("q")
    consumer = channel.consume("q", 1, bell)
    assert broker.delete_queue("q")
    assert not broker.delete_queue("q")
    assert consumer.cancelled
    assert bell.rung == 2
    broker.declare_queue("q")
    assert held is not None
    channel.nack(held.tag)
    assert bodies(broker) == [], "the new queue of the same name is another queue"


def test_a_queue_that_holds_messages_is_not_deleted_if_empty() -> None:
    broker = filled(b"1")
    with pytest.raises(NotEmptyError) as refused:
        broker.delete_queue("q", if_empty=True)
    assert refused.value.messages == 1
    assert broker.purge("q") == 1
    assert broker.delete_queue("q", if_empty=True)


@pytest.mark.parametrize(
    "call",
    [
        lambda broker: broker.open_channel().get("none"),
        lambda broker: broker.open_channel().consume("none", 1, nothing),
        lambda broker: broker.peek("none"),
        lambda broker: broker.bind("none", "x"),
    ],
)
def test_an_unknown_queue_is_named(call: Callable[[MemoryBroker], object]) -> None:
    with pytest.raises(UnknownQueueError, match="none"):
        call(MemoryBroker())


def test_a_listener_may_call_the_broker() -> None:
    broker, seen = MemoryBroker(), []
    broker.declare_queue("q")
    channel = broker.open_channel()
    broker_calls = lambda: seen.append(broker.unacked_count("q"))  # noqa: E731
    channel.consume("q", 0, broker_calls)
    broker.publish("", "q", Message(b"1"))
    assert seen == [1]
