"""The in-memory broker against a model: a list of places for each queue, and what each channel holds."""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from slicelease.cli.memory_broker.channel import Channel, Consumer
from slicelease.cli.memory_broker.core import Fate, MemoryBroker
from slicelease.cli.memory_broker.queue import Message

QUEUES = ("a", "b")
CHANNELS = 3


@dataclass
class Held:
    """What the model knows of a delivery."""

    queue: str
    body: bytes


@dataclass
class Model:
    """Ready bodies by queue, in order; bodies are numbers that rise, so their order is that of their places."""

    ready: dict[str, list[bytes]] = field(default_factory=lambda: {queue: [] for queue in QUEUES})
    seen: set[bytes] = field(default_factory=set)
    held: list[dict[int, Held]] = field(default_factory=lambda: [{} for _ in range(CHANNELS)])

    def give_back(self, one: Held) -> None:
        self.ready[one.queue] = sorted([*self.ready[one.queue], one.body])


class BrokerMachine(RuleBasedStateMachine):
    """Publishes, gets, settles and closes at random over three channels."""

    def __init__(self) -> None:
        super().__init__()
        self.broker = MemoryBroker()
        for queue in QUEUES:
            self.broker.declare_queue(queue)
        self.channels: list[Channel] = [self.broker.open_channel() for _ in range(CHANNELS)]
        self.model = Model()
        self.published = 0

    @rule(queue=st.sampled_from(QUEUES))
    def publish(self, queue: str) -> None:
        body = b"%06d" % self.published
        self.published += 1
        assert self.broker.publish("", queue, Message(body)) is Fate.ROUTED
        self.model.ready[queue].append(body)

    @rule(channel=st.integers(0, CHANNELS - 1), queue=st.sampled_from(QUEUES))
    def get(self, channel: int, queue: str) -> None:
        delivery = self.channels[channel].get(queue)
        ready = self.model.ready[queue]
        if delivery is None:
            assert not ready
            return
        body = ready.pop(0)
        assert (delivery.message.body, delivery.left_ready) == (body, len(ready))
        assert delivery.redelivered is (body in self.model.seen)
        self.model.seen.add(body)
        self.model.held[channel][delivery.tag] = Held(queue, body)

    def holding(self) -> list[int]:
        return [number for number, held in enumerate(self.model.held) if held]

    @precondition(lambda self: any(self.model.held))
    @rule(data=st.data(), requeue=st.booleans())
    def settle(self, data: st.DataObject, requeue: bool) -> None:
        channel = data.draw(st.sampled_from(self.holding()))
        tag = data.draw(st.sampled_from(sorted(self.model.held[channel])))
        one = self.model.held[channel].pop(tag)
        if requeue:
            self.channels[channel].nack(tag)
            self.model.give_back(one)
        else:
            self.channels[channel].ack(tag)

    @rule(channel=st.integers(0, CHANNELS - 1))
    def close(self, channel: int) -> None:
        self.channels[channel].close()
        self.channels[channel] = self.broker.open_channel()
        for one in self.model.held[channel].values():
            self.model.give_back(one)
        self.model.held[channel] = {}

    @invariant()
    def same_queues(self) -> None:
        for queue in QUEUES:
            held = sum(one.queue == queue for channel in self.model.held for one in channel.values())
            assert [message.body for message in self.broker.peek(queue)] == self.model.ready[queue]
            assert self.broker.ready_count(queue) == len(self.model.ready[queue])
            assert self.broker.unacked_count(queue) == held


class ConsumerMachine(RuleBasedStateMachine):
    """Consumers that come and go: nothing is lost, and none holds more than its prefetch."""

    def __init__(self) -> None:
        super().__init__()
        self.broker = MemoryBroker()
        self.broker.declare_queue("q")
        self.consumers = [self.new_consumer(prefetch) for prefetch in (1, 2, 3)]
        self.open_bodies: set[bytes] = set()
        self.published = 0

    def new_consumer(self, prefetch: int) -> Consumer:
        return self.broker.open_channel().consume("q", prefetch, lambda: None)

    @rule()
    def publish(self) -> None:
        body = b"%d" % self.published
        self.published += 1
        self.open_bodies.add(body)
        self.broker.publish("", "q", Message(body))

    @rule(which=st.integers(0, 2), ack=st.booleans())
    def take(self, which: int, ack: bool) -> None:
        consumer = self.consumers[which]
        delivery = consumer.take()
        if delivery is None:
            return
        assert delivery.message.body in self.open_bodies
        if ack:
            consumer.channel.ack(delivery.tag)
            self.open_bodies.remove(delivery.message.body)
        else:
            consumer.channel.nack(delivery.tag)

    @rule(which=st.integers(0, 2), cancel_first=st.booleans())
    def leave(self, which: int, cancel_first: bool) -> None:
        consumer = self.consumers[which]
        if cancel_first:
            consumer.channel.cancel(consumer)
        consumer.channel.close()
        self.consumers[which] = self.new_consumer(which + 1)

    @invariant()
    def nothing_is_lost(self) -> None:
        pushed = [delivery.message.body for consumer in self.consumers for delivery in consumer.inbox]
        ready = [message.body for message in self.broker.peek("q")]
        assert sorted(pushed + ready) == sorted(self.open_bodies)

    @invariant()
    def credit_is_used_and_kept(self) -> None:
        for consumer in self.consumers:
            assert consumer.in_hand == len(consumer.inbox) <= consumer.prefetch
        if any(consumer.has_credit for consumer in self.consumers):
            assert self.broker.ready_count("q") == 0


TestBrokerMachine = BrokerMachine.TestCase
TestConsumerMachine = ConsumerMachine.TestCase
for machine in (TestBrokerMachine, TestConsumerMachine):
    machine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
