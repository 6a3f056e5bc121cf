"""One control plane process from its start to the end of its shutdown.

May live here: what is started in which order, and stopped in which. May not know: signals, event loop policies.

Start: adapters, services, server, loops; nothing waits for Redis or RabbitMQ, whose absence is a reason in health.
Stop:  NOT_SERVING and no new leases; a short pause, in which clients look elsewhere; streams end and new calls are refused;
       running calls have the grace; what still runs is answered SHUTTING_DOWN; server, loops, adapters close.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import structlog

from slicelease.control_plane.config import ControlPlaneSettings, milliseconds
from slicelease.control_plane.domain.policy import TenantPolicy
from slicelease.control_plane.loops.announcer import Announcer
from slicelease.control_plane.loops.attention_watch import AttentionWatch
from slicelease.control_plane.loops.due import Due
from slicelease.control_plane.loops.intake import Intake
from slicelease.control_plane.loops.reaper import Reaper
from slicelease.control_plane.loops.reconciler import Reconciler
from slicelease.control_plane.metrics import Metrics
from slicelease.control_plane.ports import Broker, Ledger
from slicelease.control_plane.rpc.admin_service import AdminService
from slicelease.control_plane.rpc.directives import Sessions
from slicelease.control_plane.rpc.gate import Gate
from slicelease.control_plane.rpc.health import HealthService
from slicelease.control_plane.rpc.interceptors import CallInterceptor
from slicelease.control_plane.rpc.known_queues import KnownQueues
from slicelease.control_plane.rpc.lease_service import Installation, LeaseService
from slicelease.control_plane.rpc.publisher import Publisher
from slicelease.control_plane.rpc.work_service import WorkService

from .adapters import Adapters, open_adapters
from .background import Background
from .http import HttpServer, make_app
from .loop_metrics import LoopMetrics
from .observed import ObservedBroker, ObservedLedger
from .readiness import Readiness
from .server import AddressInUseError, bind, build_server

DRAIN_PAUSE_S = 0.5
"""Between NOT_SERVING and the first refused call, at most a quarter of the grace."""
FORCED_S = 1.0
"""For calls that were told to end, and for passes of loops."""

ANNOUNCE_PERIOD_S = 0.1  # woken at once by what happens here; this is for what other replicas left owed
DUE_PERIOD_S = 0.2
REAPER_PERIOD_S = 0.5
WATCH_PERIOD_S = 1.5
READINESS_PERIOD_S = 1.0
_ANNOUNCER = "announcer"

_log = structlog.get_logger("slicelease.app")


async def serve(
    settings: ControlPlaneSettings,
    *,
    ledger: Ledger | None = None,
    broker: Broker | None = None,
    on_ready: Callable[[str], None] | None = None,
    stop: asyncio.Event | None = None,
) -> int:
    """Serves until `stop` is set, then drains; the exit code.

    `on_ready` is called with the bound address once calls are taken. Cancelling the task ends everything at once. Raises
    AddressInUseError.
    """
    stop = asyncio.Event() if stop is None else stop
    async with AsyncExitStack() as stack:
        adapters = await open_adapters(stack, settings, ledger, broker)
        process = _Process(settings, adapters)
        address = await process.start(stack)
        _log.info("serving", address=address, cell=settings.cell)
        if on_ready is not None:
            on_ready(address)
        await stop.wait()
        await process.drain(settings.shutdown_grace.total_seconds())
    _log.info("stopped")
    return 0


@dataclass(slots=True)
class _Rpc:
    """What the RPC layer shares."""

    gate: Gate
    sessions: Sessions
    health: HealthService


class _Process:
    """The parts of one process, wired."""

    def __init__(self, settings: ControlPlaneSettings, adapters: Adapters) -> None:
        self._settings = settings
        self._metrics = Metrics()
        self._background = Background(self._metrics)
        self._ledger = ObservedLedger(adapters.ledger, self._metrics, lambda: self._background.poke(_ANNOUNCER))
        self._broker = ObservedBroker(adapters.broker, self._metrics)
        self._bus = adapters.bus
        self._drained = False
        self._rpc = _Rpc(Gate(), Sessions(), HealthService())
        self._newcomers = TenantPolicy(settings.default_class) if settings.unknown_tenants == "create" else None
        self._readiness = Readiness(self._ledger, self._broker, self._rpc.health, self._metrics)
        interceptor = CallInterceptor(self._rpc.gate, self._metrics)
        self._server: Any = build_server(settings, interceptor, self._rpc.health, self._services())

    def _services(self) -> tuple[LeaseService, WorkService, AdminService]:
        ledger, broker, metrics, gate = self._ledger, self._broker, self._metrics, self._rpc.gate
        queues = KnownQueues(ledger, broker, self._newcomers)
        publisher = Publisher(ledger, broker, queues, gate, metrics)
        return (
            LeaseService(ledger, self._rpc.sessions, gate, metrics, _installation(self._settings)),
            WorkService(ledger, publisher, queues),
            AdminService(ledger, broker, self._bus, queues, self._settings.default_class),
        )

    async def start(self, stack: AsyncExitStack) -> str:
        """Starts everything; the address that calls are taken on. What was started ends with the stack."""
        address = bind(self._server, self._settings)
        if self._settings.metrics_listen is not None:
            stack.enter_context(_http(self._settings.metrics_listen, make_app(self._metrics.registry, self._readiness)))
        stack.push_async_callback(self._stop_loops)
        await self._server.start()
        stack.push_async_callback(self._server.stop, 0)
        self._start_loops()
        return address

    def _start_loops(self) -> None:
        ledger, broker, observer = self._ledger, self._broker, LoopMetrics(self._metrics)
        start = self._background.start
        start("readiness", self._readiness.run_once, READINESS_PERIOD_S)
        self._background.wait_in("intake", Intake(ledger, broker, observer, self._newcomers).run_once)
        start(_ANNOUNCER, Announcer(ledger, broker, observer, lambda: datetime.now(UTC)).run_once, ANNOUNCE_PERIOD_S)
        start("due", Due(ledger).run_once, DUE_PERIOD_S)
        start("reaper", Reaper(ledger, observer).run_once, REAPER_PERIOD_S)
        start("attention_watch", AttentionWatch(ledger, broker, observer).run_once, WATCH_PERIOD_S)
        period_s = self._settings.reconcile_period.total_seconds()
        start("reconciler", Reconciler(ledger, broker, observer).run_once, period_s)
        self._background.watch(asyncio.create_task(self._bus.run(self._rpc.sessions.deliver), name="directives"))

    async def _stop_loops(self) -> None:
        """Passes may end, but not when the process was told to end at once."""
        await self._background.stop(FORCED_S if self._drained else 0)

    async def drain(self, grace_s: float) -> None:
        """Shuts the calls down in order; ends within the grace and a second."""
        loop = asyncio.get_running_loop()
        end = loop.time() + grace_s
        gate = self._rpc.gate
        _log.info("draining", grace_s=grace_s, running=gate.running)
        self._readiness.drain()
        gate.drain()
        await asyncio.sleep(min(DRAIN_PAUSE_S, grace_s / 4))
        gate.close()
        self._rpc.sessions.end()
        if not await gate.wait_empty(max(0.0, end - loop.time())):
            _log.warning("ending calls that outlasted the grace", running=gate.running)
            gate.force()
            await gate.wait_empty(FORCED_S)
        self._drained = True
        self._rpc.health.end()
        with suppress(TimeoutError):
            async with asyncio.timeout(FORCED_S):
                await self._server.stop(FORCED_S / 2)


def _http(address: str, app: Any) -> HttpServer:
    try:
        return HttpServer(address, app)
    except OSError as error:
        raise AddressInUseError(f"cannot listen on {address} for metrics: {error.strerror}") from None


def _installation(settings: ControlPlaneSettings) -> Installation:
    return Installation(milliseconds(settings.lease_length), milliseconds(settings.amqp_heartbeat), software_version())


def software_version() -> str:
    """The version of the installed package."""
    try:
        return version("slicelease")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "0"


__all__ = ["AddressInUseError", "serve", "software_version"]
