"""A control plane in this process, over loopback: the ledger in memory, a broker of plain dicts, switches for faults.

May live here: the fakes and the stubs that tests call. May not know: what a test expects.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status
from grpc_health.v1 import health_pb2_grpc

from slicelease.control_plane.app import serve
from slicelease.control_plane.config import ControlPlaneSettings
from slicelease.control_plane.domain.commands import Command
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.outcomes import Outcome
from slicelease.control_plane.domain.policy import QueueType
from slicelease.control_plane.memory_ledger import MemoryLedger
from slicelease.control_plane.ports import (
    BrokerUnavailableError,
    LedgerUnavailableError,
    QueueArgumentsDifferError,
    QueueFullError,
    QueueGoneError,
    QueueNotEmptyError,
    RaisedAttention,
    WorkMessage,
)
from slicelease.v1 import admin_service_pb2_grpc, lease_service_pb2_grpc, work_service_pb2_grpc

SECRET_TEXT = "driver says amqp://user:hunter2@host"
"""Stands in every fake exception: it must never be seen by a client."""


class SwitchedLedger:
    """The ledger in memory, with faults: `away`, `hold` (every step waits for it), `broken` (an unexpected exception)."""

    def __init__(self, config: Any) -> None:
        self.inner = MemoryLedger(lambda: time.time_ns() // 1_000, config)
        self.away = False
        self.broken = False
        self.hold: asyncio.Event | None = None
        self.hold_after: asyncio.Event | None = None
        self.steps: list[tuple[Command, ...]] = []

    async def execute(self, commands: Sequence[Command]) -> list[Outcome]:
        self.steps.append(tuple(commands))
        if self.hold is not None:
            await self.hold.wait()
        if self.away:
            raise LedgerUnavailableError(SECRET_TEXT)
        if self.broken:
            raise ZeroDivisionError(SECRET_TEXT)
        outcomes = await self.inner.execute(commands)
        if self.hold_after is not None:
            await self.hold_after.wait()
        return outcomes

    def asked(self, kind: type) -> list[Any]:
        """The commands of that kind so far."""
        return [command for step in self.steps for command in step if isinstance(command, kind)]


@dataclass
class FakeBroker:
    """ports.Broker in dicts. `work` holds the messages of each declared queue, in order."""

    work: dict[QueueKey, list[WorkMessage]] = field(default_factory=dict)
    types: dict[QueueKey, QueueType] = field(default_factory=dict)
    tickets: dict[str, list[bytes]] = field(default_factory=dict)
    differ: dict[QueueKey, str] = field(default_factory=dict)
    full: set[QueueKey] = field(default_factory=set)
    away: bool = False
    publishing_away: bool = False
    hold: asyncio.Event | None = None
    publishes: int = 0

    def _check(self) -> None:
        if self.away:
            raise BrokerUnavailableError(SECRET_TEXT)

    def unready_reason(self) -> str | None:
        return "not connected" if self.away else None

    async def declare_topology(self, classes: Sequence[str]) -> None:
        self._check()
        for class_id in classes:
            self.tickets.setdefault(class_id, [])

    async def announce(self, class_id: str, bodies: Sequence[bytes]) -> int:
        self._check()
        if class_id not in self.tickets:
            return 0
        self.tickets[class_id] += bodies
        return len(bodies)

    async def declare_work_queue(self, key: QueueKey, queue_type: QueueType) -> None:
        self._check()
        if key in self.differ:
            raise QueueArgumentsDifferError(SECRET_TEXT, self.differ[key])
        self.work.setdefault(key, [])
        self.types.setdefault(key, queue_type)

    async def publish_work(self, key: QueueKey, message: WorkMessage) -> None:
        self.publishes += 1
        if self.hold is not None:
            await self.hold.wait()
        self._check()
        if self.publishing_away:
            raise BrokerUnavailableError(SECRET_TEXT)
        if key not in self.work:
            raise QueueGoneError(SECRET_TEXT)
        if key in self.full:
            raise QueueFullError(SECRET_TEXT)
        self.work[key].append(message)

    async def message_counts(self, keys: Sequence[QueueKey]) -> dict[QueueKey, int | None]:
        self._check()
        return {key: len(self.work[key]) if key in self.work else None for key in keys}

    async def attention_count(self, class_id: str) -> int | None:
        self._check()
        return len(self.tickets[class_id]) if class_id in self.tickets else None

    async def delete_work_queue(self, key: QueueKey, *, if_empty: bool) -> None:
        self._check()
        if if_empty and self.work.get(key):
            raise QueueNotEmptyError(SECRET_TEXT, len(self.work[key]))
        self.work.pop(key, None)

    async def take_raised(self, limit: int) -> list[RaisedAttention]:
        await asyncio.Event().wait()
        return []

    async def ack_raised(self, raised: Sequence[RaisedAttention]) -> None:
        self._check()

    async def return_raised(self, raised: Sequence[RaisedAttention]) -> None:
        self._check()

    async def refuse_raised(self, raised: Sequence[RaisedAttention], reason: str) -> None:
        self._check()

    def bodies(self, key: QueueKey) -> list[bytes]:
        """The bodies in a queue."""
        return [message.payload for message in self.work[key]]


@dataclass
class World:
    """A running control plane and what tests do with it. The stubs are untyped on purpose: tests send wrong things too."""

    address: str
    ledger: SwitchedLedger
    broker: FakeBroker
    stop: asyncio.Event
    task: asyncio.Task[int]
    channel: grpc.aio.Channel
    lease: Any
    work: Any
    admin: Any
    health: Any

    def default(self, tenant: str) -> QueueKey:
        """The default queue of a tenant."""
        return QueueKey(tenant, "default")


def settings_for_tests(**changes: Any) -> ControlPlaneSettings:
    """Settings on free ports, with a ledger that is open at once."""
    given: dict[str, Any] = {"listen": "127.0.0.1:0", "metrics_listen": None, "new_ledger": "open", "shutdown_grace": "400ms"}
    return ControlPlaneSettings(**(given | changes))


@asynccontextmanager
async def control_plane(
    *, ledger: SwitchedLedger | None = None, broker: FakeBroker | None = None, ready: bool = True, **changes: Any
) -> AsyncIterator[World]:
    """Starts one, waits until it serves (unless `ready` is False), and stops it."""
    settings = settings_for_tests(**changes)
    ledger = SwitchedLedger(settings.ledger_config()) if ledger is None else ledger
    broker = FakeBroker() if broker is None else broker
    stop, address = asyncio.Event(), asyncio.get_running_loop().create_future()
    running = serve(settings, ledger=ledger, broker=broker, on_ready=address.set_result, stop=stop)
    task = asyncio.create_task(running)
    done, _ = await asyncio.wait({task, asyncio.ensure_future(address)}, timeout=10, return_when=asyncio.FIRST_COMPLETED)
    if task in done:
        task.result()
    async with grpc.aio.insecure_channel(address.result(), options=[("grpc.enable_http_proxy", 0)]) as channel:
        world = World(address.result(), ledger, broker, stop, task, channel, *_stubs(channel))
        try:
            if ready:
                await until_serving(world)
            yield world
        finally:
            for hold in (ledger.hold, ledger.hold_after, broker.hold):
                if hold is not None:
                    hold.set()
            stop.set()
            await asyncio.wait_for(task, 15)


def _stubs(channel: grpc.aio.Channel) -> tuple[Any, Any, Any, Any]:
    return (
        lease_service_pb2_grpc.LeaseServiceStub(channel),
        work_service_pb2_grpc.WorkServiceStub(channel),
        admin_service_pb2_grpc.AdminServiceStub(channel),
        health_pb2_grpc.HealthStub(channel),
    )


async def until_serving(world: World, service: str = "", serving: bool = True) -> None:
    """Follows Watch until the state is reached."""
    from grpc_health.v1 import health_pb2

    wanted = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
    async for update in world.health.Watch(health_pb2.HealthCheckRequest(service=service), timeout=10):
        if update.status == wanted:
            return
    raise AssertionError("the watch ended")


@dataclass(frozen=True)
class Failure:
    """What a failed call told: code, reason, metadata, and the kinds of its details."""

    code: grpc.StatusCode
    reason: str
    metadata: dict[str, str]
    kinds: frozenset[str]
    message: str
    raw: bytes


def failure_of(status: Any, code: grpc.StatusCode | None = None) -> Failure:
    """The google.rpc.Status, taken apart."""
    codes = {each.value[0]: each for each in grpc.StatusCode}
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info), "ErrorInfo comes first"
    assert info.domain == "slicelease"
    assert code is None or codes[status.code] is code
    kinds = frozenset(each.type_url.rpartition(".")[2] for each in status.details)
    return Failure(codes[status.code], info.reason, dict(info.metadata), kinds, status.message, status.SerializeToString())


async def failing(call: Any) -> Failure:
    """The failure of a call that must fail."""
    try:
        answer = await call
    except grpc.aio.AioRpcError as error:
        trailing: dict[str, Any] = dict(error.trailing_metadata() or ())  # type: ignore[arg-type]  # pairs; the stubs say less
        status = Status.FromString(trailing["grpc-status-details-bin"])
        return failure_of(status, error.code())
    raise AssertionError(f"answered: {answer}")
