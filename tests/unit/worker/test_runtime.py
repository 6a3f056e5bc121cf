"""The runtime against the twin ledger and the in-memory broker, on a mock clock: what a slice does when all is well."""

from itertools import pairwise

import pytest
import trio
import trio.testing

from slicelease.worker import Reject, SliceWorker, Work
from slicelease.worker.leases import EndReason
from tests.unit.worker.world import World, until

pytestmark = pytest.mark.trio


def recorder() -> tuple[SliceWorker, list[Work]]:
    app, seen = SliceWorker(), list[Work]()

    @app.handler
    async def handle(work: Work) -> None:
        seen.append(work)

    return app, seen


async def test_work_is_handled_in_order_and_acked(autojump_clock: trio.testing.MockClock) -> None:
    world, (app, seen) = World(), recorder()
    world.create("acme", slice_messages=3)
    world.publish("acme", *(str(number).encode() for number in range(10)), type="invoice.created", headers={"k": "v"})
    async with world.worker(app):
        await until(lambda: len(seen) == 10)
        await until(lambda: not world.live_leases())
    assert [work.payload for work in seen] == [str(number).encode() for number in range(10)]
    first = seen[0]
    assert (first.tenant, first.queue, first.message_id, first.type) == ("acme", "default", "m1", "invoice.created")
    assert (first.attempt, first.redelivered, dict(first.headers)) == (1, False, {"k": "v"})
    assert first.fencing_token == world.leases.grants[0].fencing_token
    assert world.ready("work.acme") == []
    assert world.in_hand("work.acme") == 0
    assert [end.reason for end in world.leases.ends()] == [*[EndReason.MESSAGES] * 3, EndReason.EMPTY]
    assert world.state("acme").state.name == "IDLE"


async def test_slices_chain_under_one_ticket(autojump_clock: trio.testing.MockClock) -> None:
    world, (app, seen) = World(), recorder()
    world.create("acme", slice_messages=1)
    world.publish("acme", *[b"x"] * 20)
    async with world.worker(app, slots=1):
        await until(lambda: len(seen) == 20)
        await until(lambda: not world.live_leases())
    assert len(world.leases.times("acquire")) <= 2
    assert len(world.leases.ends()) == 21


async def test_a_ticket_is_held_no_longer_than_agreed(autojump_clock: trio.testing.MockClock) -> None:
    world, app = World(), SliceWorker()

    @app.handler
    async def handle(work: Work) -> None:
        await trio.sleep(1)

    world.create("acme", slice_messages=1)
    world.publish("acme", *[b"x"] * 10)
    async with world.worker(app, slots=1, ticket_hold_s=3.0):
        await until(lambda: world.state("acme").state.name == "IDLE")
    assert len(world.leases.times("acquire")) in (3, 4)


async def test_a_long_handler_keeps_its_lease(autojump_clock: trio.testing.MockClock) -> None:
    world, app, done = World(), SliceWorker(), list[bytes]()

    @app.handler
    async def handle(work: Work) -> None:
        await trio.sleep(100)
        done.append(work.payload)

    world.create("acme")
    world.publish("acme", b"slow")
    async with world.worker(app):
        await until(lambda: done, 200)
        await until(lambda: world.state("acme").state.name == "IDLE")
    renewals = world.leases.times("progress")
    assert 5 / 3 - 0.1 < renewals[0] - world.leases.times("acquire")[0] < 5 / 3 + 0.1
    assert all(4.9 < after - before < 5.1 for before, after in pairwise(renewals))
    assert len(world.leases.ends()) == 1


async def test_a_slice_ends_by_its_time_and_gives_back_the_rest(autojump_clock: trio.testing.MockClock) -> None:
    world, app, done = World(), SliceWorker(), list[bytes]()

    @app.handler
    async def handle(work: Work) -> None:
        await trio.sleep(0.4)
        done.append(work.payload)

    world.create("acme", slice_ms=1_000)
    world.publish("acme", *(str(number).encode() for number in range(7)))
    async with world.worker(app):
        await until(lambda: len(done) == 7)
        await until(lambda: not world.live_leases())
    assert done == [str(number).encode() for number in range(7)]
    ends = world.leases.ends()
    assert [end.reason for end in ends] == [EndReason.TIME, EndReason.TIME, EndReason.EMPTY]
    assert ends[0].returned_ids == ("m4", "m5", "m6", "m7")
    # Given back unstarted, so never charged an attempt (their counts are dropped when they are done).
    assert not world.ledger.state.attempts


async def test_a_failing_message_is_retried_in_order_and_then_dead_lettered(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world, app = World(), SliceWorker()
    runs: list[tuple[bytes, int, bool, float]] = []

    @app.handler
    async def handle(work: Work) -> None:
        runs.append((work.payload, work.attempt, work.redelivered, trio.current_time()))
        if work.payload == b"bad":
            raise ValueError("boom")

    world.create("acme", max_attempts=3)
    world.publish("acme", b"a", b"bad", b"b")
    async with world.worker(app):
        await until(lambda: world.state("acme").state.name == "IDLE")
    assert [(body, attempt) for body, attempt, _, _ in runs] == [(b"a", 1), (b"bad", 1), (b"bad", 2), (b"bad", 3), (b"b", 1)]
    assert [redelivered for _, _, redelivered, _ in runs] == [False, False, True, True, True]
    times = [at for body, _, _, at in runs if body == b"bad"]
    assert times[1] - times[0] == pytest.approx(1.0, abs=0.1)
    assert times[2] - times[1] == pytest.approx(2.0, abs=0.1)
    (dead,) = world.core.peek("dead.acme")
    assert (dead.body, dead.message_id) == (b"bad", "m2")
    assert dead.headers["x-slicelease-reason"] == "max_attempts"
    assert dead.headers["x-slicelease-error"] == "ValueError: boom"
    assert dead.headers["x-slicelease-attempts"] == "3"
    assert (dead.headers["x-slicelease-tenant"], dead.headers["x-slicelease-queue"]) == ("acme", "default")
    assert world.in_hand("work.acme") == 0
    assert not world.ledger.state.attempts


async def test_reject_dead_letters_at_once_and_the_slice_goes_on(autojump_clock: trio.testing.MockClock) -> None:
    world, app, done = World(), SliceWorker(), list[bytes]()

    @app.handler
    async def handle(work: Work) -> None:
        if work.payload == b"bad":
            raise Reject("no such customer")
        done.append(work.payload)

    world.create("acme")
    world.publish("acme", b"a", b"bad", b"b")
    async with world.worker(app):
        await until(lambda: world.state("acme").state.name == "IDLE")
    assert done == [b"a", b"b"]
    (dead,) = world.core.peek("dead.acme")
    assert dead.headers["x-slicelease-reason"] == "no such customer"
    (end,) = world.leases.ends()
    assert (end.totals.messages, end.totals.dead_lettered, end.totals.failed) == (2, 1, 0)


async def test_a_message_that_no_handler_takes_is_dead_lettered(autojump_clock: trio.testing.MockClock) -> None:
    world, app, done = World(), SliceWorker(), list[bytes]()

    @app.handler(type="invoice.*")
    async def handle(work: Work) -> None:
        done.append(work.payload)

    world.create("acme")
    world.publish("acme", b"a", type="invoice.created")
    world.publish("acme", b"b", type="order.created")
    world.publish("acme", b"c", type="invoice.paid")
    async with world.worker(app):
        await until(lambda: world.state("acme").state.name == "IDLE")
    assert done == [b"a", b"c"]
    (dead,) = world.core.peek("dead.acme")
    assert (dead.body, dead.headers["x-slicelease-reason"]) == (b"b", "no_handler")


async def test_ordinary_functions_run_in_threads() -> None:
    import threading

    world, app, threads = World(), SliceWorker(), set[int]()

    @app.handler
    def handle(work: Work) -> None:
        threads.add(threading.get_ident())
        if work.payload == b"bad":
            raise Reject("bad")

    world.create("acme")
    world.publish("acme", b"a", b"bad")
    async with world.worker(app):
        await until(lambda: world.state("acme").state.name == "IDLE")
    assert threads
    assert threading.get_ident() not in threads
    assert world.ready("dead.acme") == [b"bad"]


async def test_a_message_that_kills_its_worker_ends_and_its_neighbours_do_not(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A05: redelivered, it is counted before its handler starts, alone; what was only in hand with it is not."""
    world, app, runs = World(), SliceWorker(), list[tuple[bytes, int]]()

    @app.handler
    async def handle(work: Work) -> None:
        runs.append((work.payload, work.attempt))
        if work.payload == b"killer":
            await trio.sleep_forever()

    world.create("acme", max_attempts=2)
    world.publish("acme", b"killer", b"innocent")
    for kills in (1, 2, 3):
        async with world.worker(app, slots=1) as worker:
            await until(lambda kills=kills: len(runs) == kills, 100)  # type: ignore[misc]
            assert world.in_hand("work.acme") == 2
            worker.scope.cancel()
    async with world.worker(app, slots=1):
        await until(lambda: world.state("acme").state.name == "IDLE", 100)
    assert runs == [(b"killer", 1), (b"killer", 1), (b"killer", 2), (b"innocent", 1)]
    assert world.ready("dead.acme") == [b"killer"]
    assert world.core.peek("dead.acme")[0].headers["x-slicelease-attempts"] == "2"
    assert not world.ledger.state.attempts


async def test_pause_and_revoke_stop_at_the_next_message(autojump_clock: trio.testing.MockClock) -> None:
    from slicelease.control_plane.domain import commands
    from slicelease.control_plane.domain.names import QueueKey
    from slicelease.worker.leases import Directive

    world, app, done = World(), SliceWorker(), list[bytes]()

    @app.handler
    async def handle(work: Work) -> None:
        await trio.sleep(1)
        done.append(work.payload)

    world.create("acme", slice_ms=60_000)
    world.publish("acme", *(str(number).encode() for number in range(10)))
    async with world.worker(app, slots=1):
        await until(lambda: len(done) == 1)
        world.ledger.step([commands.Pause(QueueKey("acme", "default"))])
        assert world.leases.on_directive is not None
        world.leases.on_directive(Directive(world.leases.grants[-1].lease, EndReason.PAUSED))
        await until(lambda: world.leases.ends())
        assert len(done) == 2
        assert world.leases.ends()[0].reason is EndReason.PAUSED
        await trio.sleep(5)
        assert len(done) == 2
        world.ledger.step([commands.Resume(QueueKey("acme", "default"))])
        await until(lambda: len(done) == 3)
        # This time no directive is pushed: the answer to the next progress report says it.
        world.ledger.step([commands.Revoke(world.live_leases()[0])])
        await until(lambda: len(world.leases.ends()) == 2)
        assert world.leases.ends()[1].reason is EndReason.REVOKED
        await until(lambda: len(done) == 10)
    assert done == [str(number).encode() for number in range(10)]


async def test_what_is_no_ticket_goes_to_the_unsorted_dead_letters(autojump_clock: trio.testing.MockClock) -> None:
    from slicelease.cli.memory_broker.queue import Message

    world, (app, seen) = World(), recorder()
    world.create("acme")
    for body in (b"not json", b"[]", b'{"tenant":"acme"}', b"[" * 5_000, b"x" * 9_000):
        world.core.publish("", "attention.standard", Message(body))
    world.publish("acme", b"x")
    async with world.worker(app):
        await until(lambda: seen)
        await until(lambda: len(world.ready("dead.unsorted")) == 5)
    assert world.ready("attention.standard") == []


async def test_a_duplicate_or_stale_ticket_is_a_turn_to_ask_and_no_more(autojump_clock: trio.testing.MockClock) -> None:
    from slicelease.cli.memory_broker.queue import Message

    world, (app, seen) = World(), recorder()
    world.create("acme")
    for _ in range(5):
        world.core.publish("", "attention.standard", Message(b'{"announcement_id":"stale"}'))
    async with world.worker(app):
        await until(lambda: len(world.leases.times("acquire")) >= 5)
        assert not world.ready("attention.standard")
        world.publish("acme", b"x")
        await until(lambda: seen)
        await until(lambda: world.state("acme").state.name == "IDLE")
    assert world.ready("attention.standard") == []


async def test_tickets_without_a_free_slot_go_back_after_half_a_second(autojump_clock: trio.testing.MockClock) -> None:
    world, app = World(), SliceWorker()

    @app.handler
    async def handle(work: Work) -> None:
        await trio.sleep(3)

    for tenant, priority_class in (("a", "standard"), ("b", "interactive"), ("c", "bulk")):
        world.create(tenant, priority_class)
        world.publish(tenant, b"x")
    async with world.worker(app, slots=1) as worker:
        await until(lambda: worker.runtime.metrics.registry.get_sample_value(
            "slicelease_worker_tickets_total", {"outcome": "overdue"}
        ))  # fmt: skip
        assert 0.5 <= trio.current_time() - world.leases.times("acquire")[0] < 0.7
        await until(lambda: all(world.state(tenant).state.name == "IDLE" for tenant in "abc"))


async def test_j03_the_lost_wake_up(autojump_clock: trio.testing.MockClock) -> None:
    """Empty seen, then work published and touched while leased, then settled: it runs without another publish."""
    world, (app, seen) = World(), recorder()
    world.create("acme")
    world.publish("acme", b"first")

    async def publish_between(kind: str) -> None:
        if kind == "settle" and world.published == 1:
            world.publish("acme", b"second")

    world.leases.hold = publish_between
    async with world.worker(app):
        await until(lambda: len(seen) == 2)
        await until(lambda: world.state("acme").state.name == "IDLE")
    assert [end.reason for end in world.leases.ends()] == [EndReason.EMPTY, EndReason.EMPTY]
