"""The loops on a real RabbitMQ, over the ledger's specification: what is deleted under them comes back by itself."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime

import aio_pika
import pytest
import pytest_asyncio
from aio_pika.abc import AbstractChannel

from slicelease.control_plane.broker import RabbitBroker
from slicelease.control_plane.domain import names
from slicelease.control_plane.domain.commands import Acquire, CreateClass, EndReason, Settle, SlotRequest, Totals, Touch
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.outcomes import Granted
from slicelease.control_plane.domain.policy import ClassPolicy, LedgerConfig, TenantPolicy
from slicelease.control_plane.loops.announcer import Announcer
from slicelease.control_plane.loops.intake import Intake
from slicelease.control_plane.loops.reconciler import Reconciler
from slicelease.control_plane.memory_ledger import MemoryLedger
from slicelease.control_plane.ports import BrokerUnavailableError, WorkMessage
from tests.servers import wait_for_asyncio
from tests.unit.loops.world import Seen

pytestmark = [pytest.mark.asyncio, pytest.mark.servers]

ACME = QueueKey("acme", "default")
STANDARD = TenantPolicy("standard")


class Running:
    """A control plane without its RPCs: broker, ledger and loops, and a client beside it."""

    def __init__(self, broker: RabbitBroker, ledger: MemoryLedger, seen: Seen, channel: AbstractChannel) -> None:
        self.broker, self.ledger, self.seen, self.channel = broker, ledger, seen, channel
        self._asked = 0

    async def raise_attention(self, body: bytes) -> bool:
        exchange = await self.channel.get_exchange(names.ATTENTION_EXCHANGE, ensure=False)
        try:
            await exchange.publish(aio_pika.Message(body, delivery_mode=2), names.RAISED_KEY)
        except aio_pika.exceptions.PublishError:
            return False
        return True

    async def ticket(self) -> str | None:
        """The announcement id of the next ticket, taken as a worker takes it."""
        try:
            tickets = await self.channel.get_queue("attention.standard", ensure=False)
            message = await tickets.get(fail=False, no_ack=True)
        except aio_pika.exceptions.ChannelNotFoundEntity:
            await self.channel.reopen()
            return None
        return None if message is None else str(json.loads(message.body)["announcement_id"])

    async def next_ticket(self) -> str:
        return await wait_for_asyncio(self.ticket, 20, "a ticket")

    def ask(self, announcement_id: str) -> Granted:
        self._asked += 1
        request = SlotRequest(f"w{self._asked}", 0, 1, "d")
        (outcome,) = self.ledger.step([Acquire(request, ("standard",), "standard", announcement_id)])
        assert isinstance(outcome, Granted)
        return outcome

    def settle_empty(self, granted: Granted) -> None:
        self.ledger.step([Settle(SlotRequest(f"w{self._asked}", 0, 2, "d"), granted.lease, EndReason.EMPTY, Totals())])


async def forever(run_once: Callable[[], Awaitable[bool]], period_s: float) -> None:
    """As the application runs a loop."""
    while True:
        try:
            more = await run_once()
        except BrokerUnavailableError:
            more = False
        if not more:
            await asyncio.sleep(period_s)


@pytest_asyncio.fixture
async def running(amqp_url: str) -> AsyncIterator[Running]:
    config = LedgerConfig(open_when_new=True, claim_ms=500, look_ms=500)
    ledger = MemoryLedger(lambda: time.monotonic_ns() // 1_000, config)
    ledger.step([CreateClass("standard", ClassPolicy(10_000))])
    seen = Seen()
    async with RabbitBroker(amqp_url) as broker, await aio_pika.connect(amqp_url) as connection:
        await broker.declare_topology(["standard"])
        loops = (
            forever(Intake(ledger, broker, seen, STANDARD).run_once, 0.05),
            forever(Announcer(ledger, broker, seen, lambda: datetime.now(UTC)).run_once, 0.05),
            forever(Reconciler(ledger, broker, seen).run_once, 0.3),
        )
        tasks = [asyncio.create_task(loop) for loop in loops]
        yield Running(broker, ledger, seen, await connection.channel(on_return_raises=True))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_raised_attention_becomes_a_ticket_and_an_unknown_tenant_a_queue(running: Running) -> None:
    assert await running.raise_attention(b'{"tenant": "acme", "correlationId": "c-1"}')
    assert running.ask(await running.next_ticket()).lease.of_queue == ACME
    assert await running.broker.message_counts([ACME]) == {ACME: 0}


async def test_junk_is_moved_once_and_holds_nobody_up(running: Running) -> None:
    """A05 (last clause), S07."""
    junk = [b"not JSON", b"x" * 20_000, b'{"a":' * 1_000, b'{"tenant": "amq.acme"}', b'{"tenant": "acme\\n"}']
    for body in [*junk, b'{"tenant": "acme"}']:
        assert await running.raise_attention(body)
    assert running.ask(await running.next_ticket()).lease.of_queue == ACME
    dead = await running.channel.get_queue(names.DEAD_UNSORTED_QUEUE)
    reasons = {}
    for _ in junk:
        letter = await wait_for_asyncio(lambda: dead.get(fail=False, no_ack=True), 10, "a dead letter")
        reasons[letter.body] = letter.headers["x-slicelease-reason"]
    wanted = ["ATTENTION_MALFORMED", "ATTENTION_TOO_LARGE", "ATTENTION_MALFORMED", "INVALID_NAME", "INVALID_NAME"]
    assert reasons == dict(zip(junk, wanted, strict=True))
    assert running.seen.counts["raised"] == len(junk) + 1


async def test_an_attention_queue_deleted_with_its_tickets(running: Running) -> None:
    """A07: nothing is taken for published; the work runs without another publish or touch."""
    running.ledger.step([Touch(ACME, STANDARD)])
    await wait_for_asyncio(lambda: running.seen.counts["published standard"] == 1, 10, "a ticket is out")
    await (await running.channel.get_queue("attention.standard")).delete(if_empty=False)
    assert running.ask(await running.next_ticket()).lease.of_queue == ACME
    assert running.seen.counts["lost standard"] >= 1


async def test_an_attention_binding_deleted_before_a_ticket_is_due(running: Running) -> None:
    """A07."""
    await (await running.channel.get_queue("attention.standard")).unbind(names.ATTENTION_EXCHANGE, "standard")
    running.ledger.step([Touch(ACME, STANDARD)])
    assert running.ask(await running.next_ticket()).lease.of_queue == ACME


async def test_the_queue_of_raised_attention_deleted_under_its_consumer(running: Running) -> None:
    """A10."""
    await (await running.channel.get_queue(names.RAISED_QUEUE)).delete(if_unused=False, if_empty=False)
    await wait_for_asyncio(lambda: running.raise_attention(b'{"tenant": "acme"}'), 10, "attention is routed again")
    assert running.ask(await running.next_ticket()).lease.of_queue == ACME


async def test_work_whose_touch_was_lost_is_found(running: Running) -> None:
    """J03, on the broker: "empty" settled, then work published by somebody who died before the touch."""
    running.ledger.step([Touch(ACME, STANDARD)])
    running.settle_empty(running.ask(await running.next_ticket()))
    await wait_for_asyncio(lambda: _exists(running), 10, "the reconciler has made the queue")
    await running.broker.publish_work(ACME, WorkMessage(b"work", "m-1", "c"))
    assert running.ask(await running.next_ticket()).lease.of_queue == ACME
    assert running.seen.counts["touched"] == 1


async def _exists(running: Running) -> bool:
    return (await running.broker.message_counts([ACME]))[ACME] is not None
