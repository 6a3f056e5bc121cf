"""A worker process, put together: settings, links, runtime, signals, metrics.

The only place that knows both the ports' users and their adapters.
"""

from __future__ import annotations

import os
import platform
import random
import re
import secrets
import signal
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from importlib.metadata import PackageNotFoundError, version

import structlog
import trio

from . import amqp
from .amqp_broker import AmqpBroker
from .blocked_loop import watch_loop
from .config import WorkerSettings
from .handlers import SliceWorker
from .lease_client import AddressError, GrpcLeaseClient, open_channel
from .logs import configure_logs
from .metrics import WorkerMetrics, serve_metrics
from .ports import LeaseClient, ProtocolUnsupportedError, WorkerBroker
from .runtime import Runtime, RuntimeOptions

_log = structlog.get_logger(__name__)

_dice = random.SystemRandom()


class SettingsError(ValueError):
    """A setting, or the application, cannot be worked with; the text says which and why."""


FATAL = (SettingsError, ProtocolUnsupportedError, amqp.LoginRefused, AddressError)
"""What no retry can mend."""


async def work(
    settings: WorkerSettings,
    app: SliceWorker,
    *,
    broker: WorkerBroker | None = None,
    leases: LeaseClient | None = None,
    stop: trio.Event | None = None,
    task_status: trio.TaskStatus[Runtime] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Works until `stop` is set, and ends in good order; cancelled, at once. Started when the lease session is open.

    `broker` and `leases` replace the AMQP and gRPC adapters. Raises those of FATAL, alone or in exception groups.
    """
    if not app.patterns:
        raise SettingsError("the app has no handler; register one with @app.handler")
    metrics = WorkerMetrics()
    session = new_session()
    with _lease_client(settings, session, metrics) if leases is None else nullcontext(leases) as client:
        taking = _broker(settings, session, metrics) if broker is None else broker
        runtime = Runtime(app, taking, client, _options(settings), _dice.random, metrics)
        limit_s = settings.amqp_heartbeat.total_seconds() / 2
        watch = watch_loop(runtime.slots, limit_s, app.handler_name_of, metrics.blocked_loop.inc)

        def ready() -> None:
            _log.info("worker ready", session=session, classes=settings.classes, slots=settings.slots)
            task_status.started(runtime)

        with _metrics_server(settings, runtime), watch:
            await runtime.run(trio.Event() if stop is None else stop, on_ready=ready)


def run(settings: WorkerSettings, app: SliceWorker) -> int:
    """Runs a worker until SIGTERM or SIGINT; a second one ends it at once. The exit code: 0, or 1 for what FATAL names."""
    configure_logs(settings.log_format, settings.log_level, password=_password(settings))
    try:
        trio.run(_until_signalled, settings, app)
    except (*FATAL, BaseExceptionGroup) as error:
        fatal = next((leaf for leaf in _leaves(error) if isinstance(leaf, FATAL)), None)
        if fatal is None:
            raise
        _log.error("the worker cannot start", why=str(fatal))
        return 1
    return 0


async def _until_signalled(settings: WorkerSettings, app: SliceWorker) -> None:
    stop = trio.Event()
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:

            async def listen() -> None:
                async for _ in signals:
                    if stop.is_set():
                        _log.warning("second signal: ending at once; what is unacked goes back")
                        nursery.cancel_scope.cancel()
                    stop.set()

            nursery.start_soon(listen)
            await work(settings, app, stop=stop)
            nursery.cancel_scope.cancel()


def new_session() -> str:
    """A session id that no process has had: host and process for people, and a random number."""
    host = re.sub(r"[^A-Za-z0-9_-]", "-", platform.node())[:32] or "worker"
    return f"{host}-{os.getpid()}-{secrets.token_hex(6)}"


@contextmanager
def _lease_client(settings: WorkerSettings, session: str, metrics: WorkerMetrics) -> Iterator[GrpcLeaseClient]:
    try:
        channel = open_channel(settings.control_plane, settings.tls_ca)
    except OSError as error:
        raise SettingsError(f"tls_ca: {error}") from error
    try:
        client = GrpcLeaseClient(
            channel,
            session,
            amqp_heartbeat_s=settings.amqp_heartbeat.total_seconds(),
            random_number=_dice.random,
            worker_version=_version(),
        )
        metrics.count_calls_of(client.statistics)
        yield client
    finally:
        channel.close()


def _broker(settings: WorkerSettings, session: str, metrics: WorkerMetrics) -> AmqpBroker:
    try:
        where = amqp.ConnectionParameters.from_url(settings.amqp_url.get_secret_value())
    except amqp.UrlError as error:
        raise SettingsError(f"amqp_url: {error}") from None
    context = None
    if where.tls and settings.tls_ca is not None:
        context = ssl.create_default_context()
        try:
            context.load_verify_locations(settings.tls_ca)
        except OSError as error:
            raise SettingsError(f"tls_ca: {error}") from error
    return AmqpBroker(
        where,
        heartbeat_s=int(settings.amqp_heartbeat.total_seconds()),
        name=f"slicelease worker {session}",
        random_number=_dice.random,
        ssl_context=context,
        on_connected=lambda purpose: metrics.broker_connections.labels(purpose).inc(),
    )


def _options(settings: WorkerSettings) -> RuntimeOptions:
    return RuntimeOptions(
        classes=settings.classes,
        slots=settings.slots,
        ticket_hold_s=settings.ticket_hold.total_seconds(),
        shutdown_grace_s=settings.shutdown_grace.total_seconds(),
    )


@contextmanager
def _metrics_server(settings: WorkerSettings, runtime: Runtime) -> Iterator[None]:
    if settings.metrics_listen is None:
        yield
        return
    host, _, port = settings.metrics_listen.rpartition(":")
    serving = serve_metrics(host.strip("[]"), int(port), runtime.metrics.registry, runtime.unready_reasons)
    with ExitStack() as stack:
        try:
            bound_port = stack.enter_context(serving)
        except OSError as error:
            raise SettingsError(f"metrics_listen: {error}") from error
        _log.info("metrics", address=f"{host}:{bound_port}")
        yield


def _password(settings: WorkerSettings) -> str:
    try:
        return amqp.ConnectionParameters.from_url(settings.amqp_url.get_secret_value()).password
    except amqp.UrlError:
        return ""


def _version() -> str:
    try:
        return version("slicelease")
    except PackageNotFoundError:
        return ""


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions:
            yield from _leaves(member)
    else:
        yield error
