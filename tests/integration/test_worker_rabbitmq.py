"""The worker on a real RabbitMQ, with the twin ledger for a control plane: order, retries, dead letters, outages, shutdown."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest
import trio

from slicelease.control_plane.domain import commands, outcomes
from slicelease.worker import Reject, SliceWorker, Work, amqp
from slicelease.worker.amqp_broker import AmqpBroker
from slicelease.worker.app import work
from slicelease.worker.config import WorkerSettings
from slicelease.worker.leases import EndReason
from slicelease.worker.ports import BrokerLostError, QueueUnreadableError, WorkerBroker
from slicelease.worker.runtime import Runtime
from tests.servers import RabbitMQ, wait_for_trio
from tests.unit.worker.world import CLASSES, World

pytestmark = [pytest.mark.trio, pytest.mark.servers]
QUEUE_TYPES = ("classic", "quorum")


@dataclass
class Site:
    """A vhost with our topology, the twin behind it, and what the control plane does meanwhile."""

    url: str
    queue_type: str = "classic"
    world: World = field(default_factory=World)

    async def declare(self) -> None:
        async with amqp.open_connection(self.url) as connection:
            channel = await connection.open_channel()
            await channel.declare_exchange("dead.unsorted", "fanout")
            await channel.declare_exchange("dead.exchange", "direct", arguments={"alternate-exchange": "dead.unsorted"})
            for queue in ("dead.unsorted", *(f"attention.{class_id}" for class_id in CLASSES)):
                await channel.declare_queue(queue, arguments={"x-queue-type": "classic"})
            await channel.bind_queue("dead.unsorted", "dead.unsorted")

    async def create(self, tenant: str, **terms: int) -> None:
        self.world.create(tenant, "standard", **terms)
        async with amqp.open_connection(self.url) as connection:
            channel = await connection.open_channel()
            await channel.declare_queue(f"work.{tenant}", arguments={"x-queue-type": self.queue_type})

    async def publish(self, queue: str, *bodies: bytes, touch: str = "", **properties: object) -> None:
        async with amqp.open_connection(self.url) as connection:
            channel = await connection.open_channel()
            for number, body in enumerate(bodies, start=1):
                given: dict[str, object] = {"message_id": f"m{number}", "delivery_mode": 2, **properties}
                await channel.publish("", queue, body, amqp.Properties(**given))  # type: ignore[arg-type]
        if touch:
            self.world.touch(touch)

    async def take_all(self, queue: str) -> list[amqp.Message]:
        """The ready messages of a queue; they go back."""
        async with amqp.open_connection(self.url) as connection:
            channel = await connection.open_channel()
            return await channel.get_many(queue, 50)

    async def bodies(self, queue: str) -> list[bytes]:
        return [message.body for message in await self.take_all(queue)]

    async def loops(self) -> None:
        """Expires, wakes, announces; through connections that may break."""
        while True:
            try:
                async with amqp.open_connection(self.url, connect_timeout_s=2) as connection:
                    await self._announce(await connection.open_channel())
            except amqp.AmqpError:
                await trio.sleep(0.1)

    async def _announce(self, channel: amqp.Channel) -> None:
        ledger = self.world.ledger
        while True:
            ledger.step([commands.ExpireLapsed(), commands.WakeDue()])
            (owed,) = ledger.step([commands.ClaimAnnouncements()])
            assert isinstance(owed, outcomes.Announcements)
            for class_id, announcement in owed.claimed:
                await channel.publish("", f"attention.{class_id}", b'{"announcement_id":"%s"}' % announcement.encode())
                ledger.step([commands.MarkPublished(class_id, (announcement,))])
            await trio.sleep(0.02)

    @asynccontextmanager
    async def worker(self, app: SliceWorker, stop: trio.Event | None = None, **settings: object) -> AsyncIterator[Runtime]:
        made = WorkerSettings(amqp_url=self.url, **{"slots": 3, **settings})  # type: ignore[arg-type]
        ending = trio.Event() if stop is None else stop
        async with trio.open_nursery() as around:
            around.start_soon(self.loops)
            async with trio.open_nursery() as nursery:
                yield await nursery.start(partial(work, made, app, leases=self.world.leases, stop=ending))
                ending.set()
            around.cancel_scope.cancel()

    def state(self, tenant: str) -> str:
        return self.world.state(tenant).state.name


@pytest.fixture
async def site(amqp_url: str) -> Site:
    made = Site(amqp_url)
    await made.declare()
    return made


@pytest.mark.parametrize("queue_type", QUEUE_TYPES)
async def test_retries_keep_the_order_and_end_in_the_dead_letters(site: Site, queue_type: str) -> None:
    """A14: jobs 1 to 5, the second fails: the promised order is the same on both types of queue."""
    site.queue_type = queue_type
    app, runs = SliceWorker(), list[tuple[bytes, int]]()

    @app.handler
    async def handle(work: Work) -> None:
        runs.append((work.payload, work.attempt))
        if work.payload == b"2":
            raise ValueError("boom")
        if work.payload == b"4":
            raise Reject("never")

    await site.create("acme", max_attempts=2, backoff_ms=100)
    headers = {"trace": "t", "CC": ["work.other"]}
    await site.publish("work.acme", b"1", b"2", b"3", b"4", b"5", touch="acme", type="job", correlation_id="c", headers=headers)
    async with site.worker(app):
        await wait_for_trio(lambda: site.state("acme") == "IDLE", 20, "all done")
    assert runs == [(b"1", 1), (b"2", 1), (b"2", 2), (b"3", 1), (b"4", 1), (b"5", 1)]
    assert await site.bodies("work.acme") == []
    first, second = await site.take_all("dead.acme")
    assert (first.body, first.properties.message_id, first.properties.correlation_id) == (b"2", "m2", "c")
    assert first.properties.delivery_mode == amqp.PERSISTENT
    assert dict(first.headers) == {
        "trace": "t",
        "x-slicelease-reason": "max_attempts",
        "x-slicelease-tenant": "acme",
        "x-slicelease-queue": "default",
        "x-slicelease-attempts": "2",
        "x-slicelease-error": "ValueError: boom",
    }
    assert (second.body, second.headers["x-slicelease-reason"]) == (b"4", "never")


@pytest.mark.parametrize("queue_type", QUEUE_TYPES)
async def test_what_was_not_started_goes_back_in_order(site: Site, queue_type: str) -> None:
    site.queue_type = queue_type
    app, done, stop = SliceWorker(), list[bytes](), trio.Event()

    @app.handler
    async def handle(work: Work) -> None:
        done.append(work.payload)
        if len(done) == 3:
            stop.set()
            await trio.sleep(0.1)

    await site.create("acme")
    await site.publish("work.acme", *(b"%d" % number for number in range(8)), touch="acme")
    async with site.worker(app, stop):
        await stop.wait()
    assert done == [b"0", b"1", b"2"]
    assert site.world.leases.ends()[0].reason is EndReason.SHUTDOWN
    assert site.state("acme") == "READY"
    assert await site.bodies("work.acme") == [b"3", b"4", b"5", b"6", b"7"]


async def test_a_message_without_an_id_keeps_the_derived_one(site: Site) -> None:
    app, ids = SliceWorker(), list[tuple[bytes, str]]()

    @app.handler
    async def handle(work: Work) -> None:
        ids.append((work.payload, work.message_id))
        if len(ids) < 3:
            raise ValueError("again")

    await site.create("acme", backoff_ms=50)
    await site.publish("work.acme", b"1", b"2", touch="acme", message_id=None)
    async with site.worker(app):
        await wait_for_trio(lambda: site.state("acme") == "IDLE", 20, "all done")
    assert [body for body, _ in ids] == [b"1", b"1", b"1", b"2"]
    assert len({number for _, number in ids}) == 2
    assert ids[0][1] == ids[2][1]
    assert ids[0][1].startswith("derived-")


async def test_a_ticket_that_is_none_goes_to_the_unsorted(site: Site) -> None:
    await site.publish("attention.bulk", b"not json")
    async with site.worker(idle_app()):

        async def moved() -> bool:
            return await site.bodies("dead.unsorted") == [b"not json"]

        await wait_for_trio(moved, 10, "dead letter")
    assert await site.bodies("attention.bulk") == []


def idle_app() -> SliceWorker:
    app = SliceWorker()

    @app.handler
    async def handle(work: Work) -> None: ...

    return app


async def test_a_dead_queue_with_other_arguments_is_used_as_it_is(site: Site) -> None:
    app = SliceWorker()

    @app.handler
    async def handle(work: Work) -> None:
        raise Reject("bad")

    await site.create("acme")
    async with amqp.open_connection(site.url) as connection:
        channel = await connection.open_channel()
        await channel.declare_queue("dead.acme", arguments={"x-queue-type": "quorum"})
    await site.publish("work.acme", b"1", b"2", touch="acme")
    async with site.worker(app):
        await wait_for_trio(lambda: site.state("acme") == "IDLE", 20, "all done")
    assert await site.bodies("dead.acme") == [b"1", b"2"]


async def test_connections_cut_under_load_lose_nothing(site: Site, rabbitmq: RabbitMQ, vhost: str) -> None:
    """A03, A04: consumers come back, late acks are dropped, each message is handled, repeats only where a cut explains them."""
    app, done = SliceWorker(), list[bytes]()

    @app.handler
    async def handle(work: Work) -> None:
        await trio.sleep(0.02)
        done.append(work.payload)

    site.world.ledger.config = site.world.config.__class__(open_when_new=True, quarantine_ms=500)
    tenants = [f"t{number}" for number in range(4)]
    for tenant in tenants:
        await site.create(tenant)
        await site.publish(f"work.{tenant}", *(f"{tenant}-{number}".encode() for number in range(40)), touch=tenant)
    async with site.worker(app) as runtime:
        for cut in (10, 40):
            await wait_for_trio(lambda cut=cut: len(done) >= cut, 20, "some done")  # type: ignore[misc]
            await trio.to_thread.run_sync(rabbitmq.close_connections, vhost)
        await wait_for_trio(lambda: all(site.state(tenant) == "IDLE" for tenant in tenants), 40, "all done")
        reconnects = runtime.metrics.registry.get_sample_value("slicelease_worker_broker_connections_total", {"purpose": "take"})
        assert reconnects is not None
        assert reconnects >= 3
        assert runtime.unready_reasons() == []
    assert set(done) == {f"{tenant}-{number}".encode() for tenant in tenants for number in range(40)}
    cuts, slots = 2, 3
    in_flight = 2  # of a slot: the message at work, and the one before it, whose ack was on its way when the broker hung up
    assert len(done) - len(set(done)) <= cuts * slots * in_flight
    for tenant in tenants:
        firsts = list(dict.fromkeys(body for body in done if body.startswith(f"{tenant}-".encode())))
        assert firsts == [f"{tenant}-{number}".encode() for number in range(40)]


async def test_the_broker_port_says_what_is_wrong(site: Site) -> None:
    broker = AmqpBroker(amqp.ConnectionParameters.from_url(site.url), heartbeat_s=5, name="test", random_number=lambda: 0.5)
    port: WorkerBroker = broker
    assert port.unready_reason()
    with pytest.raises(BrokerLostError):
        await port.open_work_channel()
    async with trio.open_nursery() as nursery:
        await nursery.start(broker.run)
        await port.wait_connected()
        assert port.unready_reason() is None
        channel = await port.open_work_channel()
        with pytest.raises(QueueUnreadableError):
            await channel.fetch("work.nobody", 5)
        with pytest.raises(QueueUnreadableError):
            async with port.consume_tickets("nobody", 1):
                pass
        nursery.cancel_scope.cancel()


async def test_a_refused_login_is_fatal_at_the_start(rabbitmq: RabbitMQ, site: Site) -> None:
    wrong = site.url.replace("guest:guest@", "guest:hunter22@")
    assert wrong != site.url
    with pytest.raises(ExceptionGroup) as caught:
        async with Site(wrong, world=site.world).worker(idle_app()):
            await trio.sleep(10)
    refused, others = caught.value.split(amqp.LoginRefused)
    assert refused is not None
    assert others is None
    assert "hunter22" not in repr(caught.value)
