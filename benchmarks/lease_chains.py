"""Chains of leases through a control plane from Trio tasks: each settles its lease and gets the next in the same call.

May live here: the load, closed and open loop. May not know: what is compared, or how a call is made (choices/grpc_ways.py).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import grpc
import trio

from benchmarks.choices.grpc_ways import Ask
from benchmarks.ledger_state import execute
from benchmarks.world import World
from slicelease.control_plane.domain.commands import Command, Touch
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.policy import TenantPolicy
from slicelease.v1 import lease_service_pb2 as pb
from slicelease.v1 import lease_service_pb2_grpc as pb_grpc

CLASS = "standard"


@dataclass
class Slot:
    """A slot of a worker that nobody runs, with its lease."""

    session: str
    number: int
    n: int = 0
    granted: pb.Granted = field(default_factory=pb.Granted)

    def request_id(self) -> str:
        self.n += 1
        return f"{self.session}/{self.number}/{self.n}"

    def settle(self, *, want_next: bool = True) -> pb.SettleLeaseRequest:
        lease = self.granted.lease
        return pb.SettleLeaseRequest(
            lease=lease.name,
            fencing_token=lease.fencing_token,
            end_reason=pb.END_REASON_MESSAGES,
            totals=pb.SliceTotals(messages=20, bytes=2_000),
            want_next=want_next,
            classes=[CLASS] if want_next else [],
            request_id=self.request_id(),
        )


def make_busy(running: World, tenants: Sequence[str]) -> None:
    """Their queues have work, as far as the ledger knows."""
    touches: list[Command] = [Touch(QueueKey(tenant, "default"), TenantPolicy(CLASS)) for tenant in tenants]
    execute(running, touches)


def first_leases(address: str, count: int) -> list[Slot]:
    """Slots with a lease each."""
    session = secrets.token_hex(6)
    slots = [Slot(session, number) for number in range(count)]
    with grpc.insecure_channel(address) as channel:
        stub = pb_grpc.LeaseServiceStub(channel)
        for slot in slots:
            request = pb.AcquireLeaseRequest(session=session, slot=slot.number, classes=[CLASS], request_id=slot.request_id())
            slot.granted.CopyFrom(stub.AcquireLease(request, timeout=5).granted)
            assert slot.granted.lease.name, "there is no work"
    return slots


def end_leases(address: str, slots: Sequence[Slot]) -> None:
    """Settles them for good."""
    with grpc.insecure_channel(address) as channel:
        stub = pb_grpc.LeaseServiceStub(channel)
        for slot in slots:
            stub.SettleLease(slot.settle(want_next=False), timeout=5)


async def _chain(ask: Ask, slot: Slot) -> None:
    answer = await ask(slot.settle())
    settled = answer.settle if isinstance(answer, pb.LeaseAnswer) else answer
    assert isinstance(settled, pb.SettleLeaseResponse), settled
    assert settled.HasField("next_lease"), settled
    slot.granted = settled.next_lease


async def closed_loop(ask: Ask, slots: Sequence[Slot], for_s: float) -> list[float]:
    """Every slot asks again as soon as it has its answer; the seconds that each call took."""
    took_s: list[float] = []
    end = time.perf_counter() + for_s

    async def run(slot: Slot) -> None:
        while (began := time.perf_counter()) < end:
            await _chain(ask, slot)
            took_s.append(time.perf_counter() - began)

    async with trio.open_nursery() as nursery:
        for slot in slots:
            nursery.start_soon(run, slot)
    return took_s


async def open_loop(ask: Ask, slots: Sequence[Slot], per_s: int, for_s: float) -> list[float]:
    """Calls come at their times, whatever the answers do; the seconds from when each was due. What is late at the end is left."""
    took_s: list[float] = []
    send, receive = trio.open_memory_channel[float](per_s * 60)
    over = trio.Event()

    async def run(slot: Slot) -> None:
        async for due_s in receive:
            if over.is_set():
                return
            await _chain(ask, slot)
            took_s.append(time.perf_counter() - due_s)

    async with trio.open_nursery() as nursery:
        for slot in slots:
            nursery.start_soon(run, slot)
        began, made = time.perf_counter(), 0
        while (now := time.perf_counter() - began) < for_s:
            while made < now * per_s:
                send.send_nowait(began + made / per_s)
                made += 1
            await trio.sleep(0.001)
        over.set()
        send.close()
    return took_s
