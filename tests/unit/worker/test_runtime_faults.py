"""The runtime when leases, links, the control plane or handlers fail, and when it is told to stop."""

import logging
import threading
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from slicelease.cli.memory_broker.trio_adapter import MemoryWorkChannel, TrioBroker
from slicelease.control_plane.domain import commands
from slicelease.worker import Reject, SliceWorker, Work
from slicelease.worker.leases import EndReason
from slicelease.worker.ports import BrokerLostError, DeadLetterError, LeaseServiceUnavailableError
from tests.servers import wait_for_trio
from tests.unit.worker.world import Worker, World, no_hold, until

pytestmark = pytest.mark.trio


def metric(worker: Worker, name: str, **labels: str) -> float:
    return worker.runtime.metrics.registry.get_sample_value(f"slicelease_worker_{name}", labels) or 0.0


def slow_app(seconds: float, started: list[bytes], done: list[bytes]) -> SliceWorker:
    app = SliceWorker()

    @app.handler
    async def handle(work: Work) -> None:
        started.append(work.payload)
        await trio.sleep(seconds)
        done.append(work.payload)

    return app


def blocks(blocked: str) -> Callable[[str], Awaitable[None]]:
    """A hold that never answers calls of this kind."""

    async def hold(kind: str) -> None:
        if kind == blocked:
            await trio.sleep_forever()

    return hold


# ---- leases -------------------------------------------------------------------------------------------------------------


async def test_j04_the_worker_stops_by_its_own_clock_when_renewals_hang(autojump_clock: trio.testing.MockClock) -> None:
    world, started, done = World(), list[bytes](), list[bytes]()
    cancelled_at: list[float] = []
    app = SliceWorker()

    @app.handler
    async def handle(work: Work) -> None:
        started.append(work.payload)
        try:
            await trio.sleep(30)
        except trio.Cancelled:
            cancelled_at.append(trio.current_time())
            raise
        done.append(work.payload)

    world.create("acme")
    world.publish("acme", b"1", b"2")
    world.leases.hold = blocks("progress")
    async with world.worker(app, slots=1) as worker:
        await until(lambda: cancelled_at)
        assert cancelled_at[0] - world.leases.times("acquire")[0] == pytest.approx(4.75, abs=0.01)
        await until(lambda: world.leases.ends())
        assert world.leases.ends()[0].reason is EndReason.LEASE_LOST
        assert world.leases.ends()[0].returned_ids == ("m1", "m2")
        assert world.in_hand("work.acme") == 0
        assert metric(worker, "slices_total", reason="LEASE_LOST") == 1
        worker.scope.cancel()
    assert done == []


async def test_a_lease_that_the_ledger_ended_ends_the_slice_at_once(autojump_clock: trio.testing.MockClock) -> None:
    world, started, done = World(), list[bytes](), list[bytes]()
    world.create("acme")
    world.publish("acme", b"1", b"2")
    async with world.worker(slow_app(20, started, done), slots=1):
        await until(lambda: started)
        world.ledger.step([commands.Revoke(world.live_leases()[0], force=True)])
        await until(lambda: world.leases.ends(), 6)
        assert world.leases.ends()[0].reason is EndReason.LEASE_LOST
        assert world.leases.ends()[0].totals.messages == 0
        # A queue in order rests until the old holder's connection is surely gone, then all runs.
        await until(lambda: done == [b"1", b"2"], 100)
    assert started == [b"1", b"1", b"2"]


async def test_a_worker_frozen_past_its_lease_acks_nothing(mock_clock: trio.testing.MockClock) -> None:
    """R09: the handler ends well without a checkpoint, and the first thing seen is the deadline."""
    world, app, started = World(), SliceWorker(), list[bytes]()

    @app.handler
    async def handle(work: Work) -> None:
        started.append(work.payload)
        if len(started) == 1:
            mock_clock.jump(10)

    world.create("acme")
    world.publish("acme", b"1", b"2")
    mock_clock.autojump_threshold = 0
    async with world.worker(app, slots=1) as worker:
        await until(lambda: world.state("acme").state.name == "IDLE", 100)
        assert metric(worker, "late_acks_total") == 1
    assert started == [b"1", b"1", b"2"]
    assert world.leases.ends()[0].reason is EndReason.LEASE_LOST
    assert world.leases.ends()[0].totals.messages == 0


async def test_a_thread_outlives_its_lease_and_its_late_result_is_dropped() -> None:
    world, app = World(), SliceWorker()
    started, release, ended = threading.Event(), threading.Event(), threading.Event()

    @app.handler
    def handle(work: Work) -> None:
        started.set()
        release.wait(20)
        ended.set()

    world.create("acme")
    world.publish("acme", b"1")
    world.leases.hold = blocks("progress")
    async with world.worker(app, slots=1) as worker:
        await wait_for_trio(started.is_set, 10, "the thread runs")
        held = next(iter(worker.runtime._keeper._held.values()))
        held.scope.lose()
        await wait_for_trio(lambda: world.leases.ends(), 10, "end")
        assert not ended.is_set()
        assert world.leases.ends()[0].reason is EndReason.LEASE_LOST
        assert world.in_hand("work.acme") == 0
        release.set()
        await wait_for_trio(ended.is_set, 10, "thread")
        worker.scope.cancel()
    assert world.ready("work.acme") == [b"1"]


@pytest.mark.parametrize("shape", ["alone", "grouped", "nested"])
async def test_t01_a_handler_error_and_a_lost_lease_at_once(autojump_clock: trio.testing.MockClock, shape: str) -> None:
    """The same classification alone, together or nested; given back once."""
    world, app, closes = World(), SliceWorker(), list[int]()

    async def fails_when_cancelled() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("while cancelled")

    async def in_nursery(depth: int) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            if depth == 1:
                nursery.start_soon(fails_when_cancelled)
            else:
                nursery.start_soon(in_nursery, depth - 1)

    @app.handler
    async def handle(work: Work) -> None:
        await (fails_when_cancelled() if shape == "alone" else in_nursery(1 if shape == "grouped" else 3))

    class Counting(TrioBroker):
        async def open_work_channel(self) -> MemoryWorkChannel:
            channel = await super().open_work_channel()
            close = channel.close

            async def counted() -> None:
                closes.append(1)
                await close()

            channel.close = counted  # type: ignore[method-assign]
            return channel

    world.create("acme")
    world.publish("acme", b"1", b"2")
    world.leases.hold = blocks("progress")
    async with world.worker(app, broker=Counting(world.core), slots=1) as worker:
        await until(lambda: world.leases.ends(), 20)
        worker.scope.cancel()
    (end, *_) = world.leases.ends()
    assert (end.reason, end.totals.failed, end.returned_ids) == (EndReason.LEASE_LOST, 0, ("m1", "m2"))
    assert closes == [1]


# ---- handlers -----------------------------------------------------------------------------------------------------------


async def raise_group(*errors: Exception) -> None:
    raise ExceptionGroup("several", [errors[0], ExceptionGroup("more", errors[1:])] if len(errors) > 1 else list(errors))


@pytest.mark.parametrize(
    ("errors", "reason", "attempts"),
    [
        ((Reject("bad"),), "bad", "1"),
        ((Reject("bad"), Reject("worse")), "bad; worse", "1"),
        ((Reject("bad"), ValueError("boom")), "max_attempts", "1"),
        ((SystemExit(3),), "max_attempts", "1"),
    ],
)
async def test_groups_of_errors_have_one_verdict(
    autojump_clock: trio.testing.MockClock, errors: tuple[Exception, ...], reason: str, attempts: str
) -> None:
    world, app = World(), SliceWorker()

    @app.handler
    async def handle(work: Work) -> None:
        if isinstance(errors[0], SystemExit):
            raise errors[0]
        await raise_group(*errors)

    world.create("acme", max_attempts=1)
    world.publish("acme", b"1")
    async with world.worker(app):
        await until(lambda: world.state("acme").state.name == "IDLE")
    (dead,) = world.core.peek("dead.acme")
    assert (dead.headers["x-slicelease-reason"], dead.headers["x-slicelease-attempts"]) == (reason, attempts)


async def test_a_function_that_returns_a_coroutine_fails_instead_of_doing_nothing() -> None:
    world, app = World(), SliceWorker()

    async def really(work: Work) -> None: ...

    @app.handler
    def handle(work: Work) -> object:
        return really(work)

    world.create("acme", max_attempts=1)
    world.publish("acme", b"1")
    async with world.worker(app):
        await wait_for_trio(lambda: world.ready("dead.acme"), 10, "dead letter")
    assert "appears to be asynchronous" in str(world.core.peek("dead.acme")[0].headers["x-slicelease-error"])


# ---- the broker ---------------------------------------------------------------------------------------------------------


class FragileBroker(TrioBroker):
    """Its dead letters fail while `refuses` is set, its acks while `deaf` is."""

    refuses = False
    deaf = False

    async def dead_letter(self, tenant: str, delivery: object, headers: object) -> None:
        if self.refuses:
            raise DeadLetterError("no confirm")
        await super().dead_letter(tenant, delivery, headers)  # type: ignore[arg-type]

    async def open_work_channel(self) -> MemoryWorkChannel:
        channel = await super().open_work_channel()
        ack = channel.ack

        def lossy(delivery: object) -> None:
            if self.deaf:
                self.deaf = False
                channel._channel.close()
                raise BrokerLostError("cut")
            ack(delivery)  # type: ignore[arg-type]

        channel.ack = lossy  # type: ignore[method-assign]
        return channel


async def test_a_dead_letter_that_cannot_be_published_keeps_its_original(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world, app = World(), SliceWorker()

    @app.handler
    async def handle(work: Work) -> None:
        raise Reject("bad")

    world.create("acme")
    world.publish("acme", b"1")
    broker = FragileBroker(world.core)
    broker.refuses = True
    async with world.worker(app, broker=broker):
        await until(lambda: len(world.leases.ends()) == 2)
        assert [end.reason for end in world.leases.ends()] == [EndReason.ERROR, EndReason.ERROR]
        times = world.leases.times("settle")
        assert times[1] - times[0] >= 0.99  # it rests, nothing loops hot
        assert world.ready("work.acme") == [b"1"]
        broker.refuses = False
        await until(lambda: world.ready("dead.acme") == [b"1"])
        await until(lambda: world.state("acme").state.name == "IDLE")


async def test_a03_a_link_cut_between_handler_and_ack(autojump_clock: trio.testing.MockClock) -> None:
    world, app, seen = World(), SliceWorker(), list[tuple[bytes, bool]]()

    @app.handler
    async def handle(work: Work) -> None:
        seen.append((work.payload, work.redelivered))

    world.create("acme")
    world.publish("acme", b"1", b"2")
    broker = FragileBroker(world.core)
    broker.deaf = True
    async with world.worker(app, broker=broker, slots=1) as worker:
        await until(lambda: world.leases.ends())
        end = world.leases.ends()[0]
        assert (end.reason, end.totals.messages) == (EndReason.BROKER_LOST, 0)
        assert metric(worker, "late_acks_total") == 1
        await until(lambda: world.state("acme").state.name == "IDLE", 100)
    assert seen == [(b"1", False), (b"1", True), (b"2", True)]


async def test_an_idle_slot_sees_that_its_link_is_a_new_one(autojump_clock: trio.testing.MockClock) -> None:
    """Else its next slice would end as BROKER_LOST, and a queue in order would rest for nothing."""
    world, started, done = World(), list[bytes](), list[bytes]()
    world.create("acme")
    world.publish("acme", b"1")
    async with world.worker(slow_app(0.1, started, done), slots=1) as worker:
        await until(lambda: world.state("acme").state.name == "IDLE")
        kept = worker.runtime.slots[0].channel
        assert isinstance(kept, MemoryWorkChannel)
        kept._channel.close()
        world.publish("acme", b"2")
        await until(lambda: done == [b"1", b"2"], 2)
        await until(lambda: not world.live_leases())
    assert [end.reason for end in world.leases.ends()] == [EndReason.EMPTY, EndReason.EMPTY]


async def test_a10_only_the_slice_of_a_deleted_queue_ends(autojump_clock: trio.testing.MockClock) -> None:
    world, started, done = World(), list[bytes](), list[bytes]()
    for tenant in ("gone", "acme"):
        world.create(tenant)
        world.publish(tenant, f"{tenant}1".encode(), f"{tenant}2".encode())
    async with world.worker(slow_app(1, started, done), slots=2):
        await until(lambda: len(started) == 2)
        world.core.delete_queue("work.gone")
        await until(lambda: b"acme2" in done)
        await until(lambda: any(end.grant.tenant == "gone" for end in world.leases.ends()))
        end = next(end for end in world.leases.ends() if end.grant.tenant == "gone")
        assert end.reason is EndReason.ERROR
        assert world.state("gone").state.name == "WAITING"


async def test_a10_a_deleted_attention_queue_is_consumed_again(autojump_clock: trio.testing.MockClock) -> None:
    world, started, done = World(), list[bytes](), list[bytes]()
    world.create("acme")
    async with world.worker(slow_app(0.1, started, done)):
        await until(lambda: world.state("acme").state.name == "IDLE")
        world.core.delete_queue("attention.standard")
        await trio.sleep(3)
        world.core.declare_queue("attention.standard")
        await trio.sleep(3)
        world.publish("acme", b"1")
        await until(lambda: done == [b"1"], 5)


# ---- the control plane --------------------------------------------------------------------------------------------------


async def test_a_ticket_without_an_answer_goes_back(autojump_clock: trio.testing.MockClock) -> None:
    world, started, done = World(), list[bytes](), list[bytes]()
    world.create("acme")
    world.publish("acme", b"1")
    world.leases.hold = blocks("acquire")
    async with world.worker(slow_app(0.1, started, done), slots=1) as worker:
        await until(lambda: metric(worker, "tickets_total", outcome="returned") == 2)
        assert trio.current_time() >= 10  # 5 s of asking each time, and a moment held back
        assert metric(worker, "tickets_total", outcome="acked") == 0
        world.leases.hold = no_hold
        await until(lambda: done == [b"1"])


async def test_a_settle_without_an_answer_gives_the_ticket_back(autojump_clock: trio.testing.MockClock) -> None:
    world, started, done = World(), list[bytes](), list[bytes]()
    world.create("acme")
    world.publish("acme", b"1")

    async def hold(kind: str) -> None:
        if kind == "settle" and len(world.leases.times("settle")) == 1:
            raise LeaseServiceUnavailableError("away")

    world.leases.hold = hold
    async with world.worker(slow_app(0.1, started, done), slots=1) as worker:
        await until(lambda: metric(worker, "tickets_total", outcome="returned") == 1)
        await until(lambda: world.state("acme").state.name == "IDLE", 100)
    assert done == [b"1"]


async def test_attention_is_not_consumed_before_the_session_is_open(autojump_clock: trio.testing.MockClock) -> None:
    world, started, done = World(), list[bytes](), list[bytes]()
    world.create("acme")
    world.publish("acme", b"1")
    world.leases.opens_after_s = 7.0
    async with world.worker(slow_app(0.1, started, done)) as worker:
        await trio.sleep(6.9)
        assert world.in_hand("attention.standard") == 0
        assert worker.runtime.unready_reasons() == ["no session yet"]
        await until(lambda: done)
        assert worker.runtime.unready_reasons() == []


# ---- shutdown -----------------------------------------------------------------------------------------------------------


async def test_t04_shutdown_during_the_start_ends_at_once(autojump_clock: trio.testing.MockClock) -> None:
    world = World()
    world.leases.opens_after_s = 1_000.0
    async with world.worker(slow_app(1, [], [])) as worker:
        await trio.sleep(1)
        worker.stop.set()
        await worker.ended.wait()
        assert trio.current_time() < 1.1
    assert world.leases.calls == []


async def test_shutdown_lets_the_message_end_and_gives_back_the_rest(autojump_clock: trio.testing.MockClock) -> None:
    world, started, done = World(), list[bytes](), list[bytes]()
    world.create("acme")
    world.publish("acme", *(str(number).encode() for number in range(5)))
    async with world.worker(slow_app(3, started, done), slots=1) as worker:
        await until(lambda: len(started) == 1)
        began = trio.current_time()
        worker.stop.set()
        await worker.ended.wait()
        assert 2.5 < trio.current_time() - began < 3.5
    assert (started, done) == ([b"0"], [b"0"])
    (end,) = world.leases.ends()
    assert (end.reason, end.totals.messages, end.returned_ids) == (EndReason.SHUTDOWN, 1, ("m2", "m3", "m4", "m5"))
    assert world.ready("work.acme") == [b"1", b"2", b"3", b"4"]
    assert world.state("acme").state.name == "READY"
    assert world.in_hand("attention.standard") == 0
    assert not world.live_leases()


async def test_shutdown_cancels_what_outlasts_the_grace_and_settles_it(autojump_clock: trio.testing.MockClock) -> None:
    world, started, done = World(), list[bytes](), list[bytes]()
    world.create("acme")
    world.publish("acme", b"0", b"1")
    async with world.worker(slow_app(1_000, started, done), slots=1, shutdown_grace_s=4.0) as worker:
        await until(lambda: len(started) == 1)
        began = trio.current_time()
        worker.stop.set()
        await worker.ended.wait()
        assert 4.0 <= trio.current_time() - began < 4.5
    (end,) = world.leases.ends()
    assert (end.reason, end.returned_ids) == (EndReason.SHUTDOWN, ("m1", "m2"))
    assert world.ready("work.acme") == [b"0", b"1"]
    assert world.state("acme").state.name == "READY"
    assert not world.ledger.state.attempts


async def test_a_grant_that_arrives_during_shutdown_is_given_back_unused(autojump_clock: trio.testing.MockClock) -> None:
    world, started, done = World(), list[bytes](), list[bytes]()
    world.create("acme")
    world.publish("acme", b"0")
    stop = trio.Event()

    async def hold(kind: str) -> None:
        if kind == "acquire":
            stop.set()
            await trio.sleep(0.5)

    world.leases.hold = hold
    async with world.worker(slow_app(1, started, done), stop=stop) as worker:
        await worker.ended.wait()
    assert started == []
    assert [end.reason for end in world.leases.ends()] == [EndReason.UNUSED]
    assert world.state("acme").state.name == "READY"


async def test_shutdown_gives_back_the_ticket_of_an_ask_without_an_answer(autojump_clock: trio.testing.MockClock) -> None:
    world, started, done = World(), list[bytes](), list[bytes]()
    world.create("acme")
    world.publish("acme", b"0")
    world.leases.hold = blocks("acquire")
    async with world.worker(slow_app(1, started, done)) as worker:
        await until(lambda: world.leases.times("acquire"))
        began = trio.current_time()
        worker.stop.set()
        await worker.ended.wait()
        assert trio.current_time() - began < 1.5
    assert len(world.ready("attention.standard")) == 1
    assert started == []


async def test_a_second_signal_ends_at_once_and_loses_nothing(autojump_clock: trio.testing.MockClock) -> None:
    world, started, done = World(), list[bytes](), list[bytes]()
    world.create("acme")
    world.publish("acme", b"0", b"1")
    async with world.worker(slow_app(1_000, started, done), slots=1) as worker:
        await until(lambda: len(started) == 1)
        worker.stop.set()
        await trio.sleep(0.1)
        began = trio.current_time()
        worker.scope.cancel()
        await worker.ended.wait()
        assert trio.current_time() - began < 0.1
    assert world.ready("work.acme") == [b"0", b"1"]
    assert world.leases.ends() == []
    async with world.worker(slow_app(0.1, started, done)):
        await until(lambda: done == [b"0", b"1"], 100)


async def test_an_idle_worker_shuts_down_at_once(autojump_clock: trio.testing.MockClock) -> None:
    world = World()
    async with world.worker(slow_app(1, [], [])) as worker:
        await until(lambda: worker.runtime.unready_reasons() == [])
        began = trio.current_time()
        worker.stop.set()
        await worker.ended.wait()
        assert trio.current_time() - began < 0.1


async def test_what_a_handler_raised_is_logged_without_the_payload(
    autojump_clock: trio.testing.MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    from slicelease.worker.logs import configure_logs

    handlers, level = logging.getLogger().handlers[:], logging.getLogger().level
    try:
        configure_logs("json", "info", password="hunter22")
        world, app = World(), SliceWorker()

        @app.handler
        async def handle(work: Work) -> None:
            raise ValueError("amqp://me:hunter22@host and hunter22")

        world.create("acme", max_attempts=1)
        world.publish("acme", b"TOP SECRET")
        async with world.worker(app):
            await until(lambda: world.ready("dead.acme"))
    finally:
        import structlog

        structlog.reset_defaults()
        logging.getLogger().handlers[:], logging.getLogger().level = handlers, level
    written = capsys.readouterr().err
    assert '"handler failed"' in written
    assert '"tenant": "acme"' in written
    assert "TOP SECRET" not in written
    assert "hunter22" not in written
