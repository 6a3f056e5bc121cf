"""The lease client against real gRPC: batching, cancelling, repeating, the stream of directives."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from google.rpc.code_pb2 import FAILED_PRECONDITION

from slicelease.v1 import lease_service_pb2 as pb
from slicelease.worker.lease_client import AddressError, GrpcLeaseClient, open_channel
from slicelease.worker.leases import (
    Denial,
    DenialReason,
    Directive,
    Disposition,
    EndReason,
    Grant,
    ProgressReport,
    SliceEnd,
    SliceTotals,
    Ticket,
    Welcome,
)
from slicelease.worker.ports import (
    LeaseClient,
    LeaseOverError,
    LeaseServiceUnavailableError,
    ProtocolUnsupportedError,
    RequestRefusedError,
)
from tests.integration import lease_server
from tests.integration.lease_server import LeaseServer, inner, number_of, usual
from tests.servers import free_port, wait_for_trio

pytestmark = pytest.mark.trio
CLASSES = ("standard", "bulk")
GRANT = Grant("tenants/acme/queues/default/leases/7", "acme", "default", "work.acme", "standard", 7, 5.0, 20, 5.0, 5)


@asynccontextmanager
async def client_of(
    addresses: str,
    *,
    heartbeat_s: float = 5.0,
    on_directive: Callable[[Directive], None] = lambda _: None,
) -> AsyncIterator[GrpcLeaseClient]:
    channel = open_channel(addresses)
    client = GrpcLeaseClient(channel, "w1", amqp_heartbeat_s=heartbeat_s, random_number=random.Random(7).random)
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(client.run, on_directive)
            yield client
            nursery.cancel_scope.cancel()
    finally:
        channel.close()


def unsettled(reason: EndReason = EndReason.EMPTY) -> SliceEnd:
    return SliceEnd(GRANT, reason, SliceTotals(3, 1, 0, 99, 1_500_000), ("m4",), ("m1",), "m3")


async def test_the_three_calls_say_what_they_are_told() -> None:
    with LeaseServer() as server:
        async with client_of(server.address) as client:
            assert isinstance(client, LeaseClient)
            grant = await client.acquire(3, CLASSES, Ticket("standard", "a-1"), within_s=5)
            report = ProgressReport(GRANT, SliceTotals(1, 0, 0, 5, 250_000), "m2", ("m1",))
            renewal = await client.progress(3, report, within_s=5)
            settlement = await client.settle(3, unsettled(EndReason.ERROR), next_among=CLASSES, within_s=5)
    assert isinstance(grant, Grant)
    assert (grant.tenant, grant.queue, grant.amqp_queue, grant.fencing_token) == ("acme", "default", "work.acme", 1)
    assert (grant.valid_s, grant.max_messages, grant.max_duration_s, grant.max_attempts) == (5.0, 20, 5.0, 5)
    assert (renewal.valid_s, renewal.stop) == (15.0, None)
    assert (settlement.disposition, settlement.next_grant) == (Disposition.IDLE, None)
    acquire, progress, settle = (inner(call) for call in server.calls)
    assert (acquire.session, acquire.slot, list(acquire.classes), acquire.request_id) == ("w1", 3, list(CLASSES), "w1/3/1")
    assert (getattr(acquire.ticket, "class"), acquire.ticket.announcement_id) == ("standard", "a-1")
    assert (progress.lease, progress.fencing_token, progress.request_id) == (GRANT.lease, 7, "w1/3/2")
    assert (progress.starting_message_id, list(progress.finished_message_ids)) == ("m2", ["m1"])
    assert progress.totals.handler_time.ToMilliseconds() == 250
    assert (settle.end_reason, settle.want_next, list(settle.classes)) == (pb.END_REASON_ERROR, True, list(CLASSES))
    assert (settle.failed.message_id, list(settle.returned_message_ids)) == ("m3", ["m4"])
    assert (settle.totals.messages, settle.totals.failed, settle.totals.bytes) == (3, 1, 99)


async def test_what_is_asked_meanwhile_rides_the_next_exchange() -> None:
    with LeaseServer() as server:
        server.gate.clear()
        tokens: dict[int, int] = {}
        async with client_of(server.address) as client:

            async def ask(slot: int) -> None:
                for _ in range(slot % 3 + 1):
                    grant = await client.acquire(slot, CLASSES, None, within_s=10)
                assert isinstance(grant, Grant)
                tokens[slot] = grant.fencing_token

            async with trio.open_nursery() as nursery:
                for slot in range(600):
                    nursery.start_soon(ask, slot)
                await wait_for_trio(lambda: len(server.exchanges) == 2, 5, "two exchanges in flight")
                server.gate.set()
    assert tokens == {slot: slot % 3 + 1 for slot in range(600)}
    assert len(server.calls) == 1_200
    assert len(server.exchanges) < 30
    assert max(len(exchange.calls) for exchange in server.exchanges) <= 256


async def test_the_scope_ends_the_call_even_when_the_loop_is_busy() -> None:
    """It is never gRPC's own deadline or error that is seen."""
    with LeaseServer() as server:
        server.gate.clear()
        async with client_of(server.address) as client:
            async with trio.open_nursery() as nursery:
                busy = trio.CancelScope()

                async def spin() -> None:
                    with busy:
                        while True:
                            time.sleep(0.003)  # noqa: ASYNC251  that is the fault
                            await trio.lowlevel.checkpoint()

                nursery.start_soon(spin)
                for slot in range(30):
                    with trio.move_on_after(0.02) as scope:
                        await client.acquire(slot, CLASSES, None, within_s=10)
                    assert scope.cancelled_caught
                busy.cancel()
            assert client.unready_reason() is None


async def test_a_grant_that_arrives_late_is_given_back_unused() -> None:
    release = threading.Event()

    def slow_for_slot_0(call: pb.LeaseCall) -> pb.LeaseAnswer:
        if call.HasField("acquire") and call.acquire.slot == 0:
            release.wait(10)
        return usual(call)

    with LeaseServer() as server:
        server.answer = slow_for_slot_0
        server.gate.clear()
        async with client_of(server.address) as client, trio.open_nursery() as nursery:
            # Two fill the exchanges in flight, so that the next two ride one together: the third caller keeps it alive.
            for slot in (1, 2, 3):
                nursery.start_soon(stay, client, slot)
                await wait_for_trio(lambda slot=slot: len(server.exchanges) == min(slot, 2), 5, "in flight")  # type: ignore[misc]
            with trio.CancelScope() as asking:
                nursery.start_soon(leave_when, asking, server, 4)
                await client.acquire(0, CLASSES, None, within_s=10)
            release.set()
            await wait_for_trio(lambda: any(call.HasField("settle") for call in server.calls), 5, "give-back")
            assert client.statistics().late_grants == 1
    settle = next(inner(call) for call in server.calls if call.HasField("settle"))
    assert (settle.end_reason, settle.request_id) == (pb.END_REASON_UNUSED, "w1/0/2")
    assert settle.lease.endswith("/leases/1")
    assert [number_of(call) for call in server.calls if inner(call).request_id.startswith("w1/0/")] == [1, 2]


async def stay(client: GrpcLeaseClient, slot: int) -> None:
    await client.acquire(slot, CLASSES, None, within_s=10)


async def leave_when(scope: trio.CancelScope, server: LeaseServer, calls: int) -> None:
    """Lets the exchanges in flight be answered, and cancels the scope when the server has seen so many calls."""
    server.gate.set()
    await wait_for_trio(lambda: len(server.calls) == calls, 5, "the third exchange")
    scope.cancel()


async def test_an_exchange_that_nobody_waits_for_is_cancelled_at_the_server() -> None:
    with LeaseServer() as server:
        async with client_of(server.address) as client:
            server.gate.clear()
            with trio.move_on_after(0.1):
                await client.acquire(0, CLASSES, None, within_s=10)
            await wait_for_trio(lambda: server.cancelled, 5, "cancel at the server")
            server.gate.set()
            grant = await client.acquire(0, CLASSES, None, within_s=10)
            assert isinstance(grant, Grant)
            assert grant.fencing_token == 2


async def test_g01_a_repeated_call_sends_the_same_bytes() -> None:
    with LeaseServer() as server:
        server.drop_answers = 2
        async with client_of(server.address) as client:
            grant = await client.acquire(0, CLASSES, Ticket("bulk", "a-9"), within_s=10)
            await client.settle(0, unsettled(), next_among=(), within_s=10)
    assert isinstance(grant, Grant)
    assert grant.fencing_token == 1
    acquires = {call.SerializeToString(deterministic=True) for call in server.calls if call.HasField("acquire")}
    assert len(acquires) == 1
    assert Counter(call.WhichOneof("call") for call in server.calls) == {"acquire": 3, "settle": 1}
    assert number_of(server.calls[-1]) == 2


async def test_the_servers_wish_for_the_next_try_is_honoured() -> None:
    asked_at: list[float] = []

    def away_once(call: pb.LeaseCall) -> pb.LeaseAnswer:
        asked_at.append(time.monotonic())
        return lease_server.LEDGER_AWAY if len(asked_at) == 1 else usual(call)

    with LeaseServer() as server:
        server.answer = away_once
        async with client_of(server.address) as client:
            await client.acquire(0, CLASSES, None, within_s=10)
    assert asked_at[1] - asked_at[0] >= 0.3


async def test_no_answer_in_time_is_said_so() -> None:
    with LeaseServer() as server:
        server.answer = lambda _: lease_server.LEDGER_AWAY
        async with client_of(server.address) as client:
            with pytest.raises(LeaseServiceUnavailableError):
                await client.acquire(0, CLASSES, None, within_s=0.5)
            server.answer = usual
            grant = await client.acquire(0, CLASSES, None, within_s=5)
            assert isinstance(grant, Grant)
            assert grant.fencing_token == 2


@pytest.mark.parametrize(
    ("answer", "error"),
    [(lease_server.LEASE_OVER, LeaseOverError), (lease_server.BAD_FIELD, RequestRefusedError)],
)
async def test_final_errors_are_not_repeated(answer: pb.LeaseAnswer, error: type[Exception]) -> None:
    with LeaseServer() as server:
        server.answer = lambda _: answer
        async with client_of(server.address) as client:
            with pytest.raises(error):
                await client.progress(0, ProgressReport(GRANT, SliceTotals()), within_s=5)
        assert len(server.calls) == 1


async def test_denials_are_values_and_a_draining_control_plane_is_asked_again() -> None:
    def answers(call: pb.LeaseCall) -> pb.LeaseAnswer:
        reason = pb.DENIAL_REASON_DRAINING if len(server.exchanges) == 1 else pb.DENIAL_REASON_ADMISSION_CLOSED
        denied = pb.Denied(reason=reason, retry_after=lease_server.duration(1.5))
        return pb.LeaseAnswer(acquire=pb.AcquireLeaseResponse(denied=denied))

    with LeaseServer() as server:
        server.answer = answers
        async with client_of(server.address) as client:
            denial = await client.acquire(0, CLASSES, None, within_s=5)
        assert denial == Denial(DenialReason.ADMISSION_CLOSED, 1.5)
        assert [number_of(call) for call in server.calls] == [1, 1]


async def test_requests_of_one_slot_go_one_at_a_time() -> None:
    with LeaseServer() as server:
        server.gate.clear()
        async with client_of(server.address) as client, trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(progress, client)
            await wait_for_trio(lambda: server.exchanges, 5, "first exchange")
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert len(server.calls) == 1
            server.gate.set()
    assert [number_of(call) for call in server.calls] == [1, 2, 3, 4, 5]


async def progress(client: GrpcLeaseClient) -> None:
    await client.progress(0, ProgressReport(GRANT, SliceTotals()), within_s=10)


async def test_a_list_of_addresses_is_taken_in_turn_and_outlives_one_of_them() -> None:
    with LeaseServer() as first, LeaseServer() as second:
        async with client_of(f"{first.address},{second.address}") as client:
            for _ in range(20):
                await client.acquire(0, CLASSES, None, within_s=5)
            assert len(first.exchanges) >= 5
            assert len(second.exchanges) >= 5
            first.__exit__(None, None, None)
            for _ in range(5):
                await client.acquire(0, CLASSES, None, within_s=5)


async def test_a_control_plane_that_comes_back_is_found_within_seconds() -> None:
    with free_port() as port, LeaseServer(f"127.0.0.1:{port}") as server:
        channel = open_channel(server.address)
        client = GrpcLeaseClient(channel, "w1", amqp_heartbeat_s=5, random_number=random.Random(7).random)
        async with trio.open_nursery() as nursery:
            await nursery.start(client.run, lambda _: None)
            await client.acquire(0, CLASSES, None, within_s=5)
            server.__exit__(None, None, None)
            await wait_for_trio(client.unready_reason, 5, "unready")
            with LeaseServer(f"127.0.0.1:{port}"):
                grant = await client.acquire(0, CLASSES, None, within_s=10)
                await wait_for_trio(lambda: client.unready_reason() is None, 10, "ready again")
            nursery.cancel_scope.cancel()
        channel.close()
    assert isinstance(grant, Grant)


# ---- the stream ---------------------------------------------------------------------------------------------------------


async def test_the_session_opens_with_a_welcome_and_directives_arrive() -> None:
    directives: list[Directive] = []
    with LeaseServer() as server:
        async with client_of(server.address, on_directive=directives.append) as client:
            assert client.unready_reason() is None
            server.push("some/lease", pb.END_REASON_PAUSED)
            await wait_for_trio(lambda: directives, 5, "directive")
            server.end_streams()
            await wait_for_trio(lambda: len(server.watches) == 2, 5, "opened again")
        await wait_for_trio(lambda: server.streams_ended == 2, 5, "the server sees the end of the stream")
        watch = server.watches[0]
        assert (watch.session, watch.protocol_version, watch.amqp_heartbeat.seconds) == ("w1", 1, 5)
    assert directives == [Directive("some/lease", EndReason.PAUSED)]
    await wait_for_trio(
        lambda: not [thread for thread in threading.enumerate() if thread.name == "slicelease-directives"], 5, "thread ended"
    )


async def test_the_start_waits_for_a_control_plane_that_is_away() -> None:
    with free_port() as port:
        channel = open_channel(f"127.0.0.1:{port}")
        client = GrpcLeaseClient(channel, "w1", amqp_heartbeat_s=5, random_number=random.Random(7).random)
        welcomes: list[Welcome] = []
        async with trio.open_nursery() as nursery:

            async def start() -> None:
                welcomes.append(await nursery.start(client.run, lambda _: None))

            nursery.start_soon(start)
            await wait_for_trio(lambda: "UNAVAILABLE" in (client.unready_reason() or ""), 10, "a failed try")
            with LeaseServer(f"127.0.0.1:{port}"):
                await wait_for_trio(lambda: welcomes, 10, "welcome")
            nursery.cancel_scope.cancel()
        channel.close()
    assert welcomes == [Welcome(5.0, 15.0, "test")]


async def test_a_worker_that_cannot_work_with_the_installation_is_told_so() -> None:
    with LeaseServer() as server:
        server.refuse_watch = lease_server.status(FAILED_PRECONDITION, "PROTOCOL_UNSUPPORTED")
        with pytest.RaisesGroup(ProtocolUnsupportedError, allow_unwrapped=True, flatten_subgroups=True):
            async with client_of(server.address):
                pass
        server.refuse_watch = None
        with pytest.RaisesGroup(
            pytest.RaisesExc(ProtocolUnsupportedError, match="amqp_heartbeat is 9 s.*1 to 5 s"), flatten_subgroups=True
        ):
            async with client_of(server.address, heartbeat_s=9):
                pass


@pytest.mark.parametrize("addresses", ["", "localhost", "host:0", "host:port", ":50051", "a:1,,b"])
async def test_bad_addresses_are_named(addresses: str) -> None:
    with pytest.raises(AddressError):
        open_channel(addresses)
