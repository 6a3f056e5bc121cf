"""The process of `slicelease dev`: the embedded store first, then the event loop, then the session.

May live here: what must happen in the main thread before gRPC starts its own. May not know: what the session does.
"""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
import sys
from contextlib import ExitStack
from dataclasses import replace

import click
import uvloop
from pydantic import SecretStr

from slicelease.cli.embedded_valkey import EmbeddedValkey, EmbeddedValkeyError
from slicelease.control_plane.logs import configure_logs
from slicelease.worker import SliceWorker

from .ending import DevError
from .plan import DevPlan
from .session import Session


def run(plan: DevPlan, app: SliceWorker | None = None) -> int:
    """Carries the plan out, without a demo by the handlers of `app`; the exit code.

    Raises click.ClickException when that is not possible.
    """
    settings = plan.control_plane
    urls = [url for url in (plan.amqp_url, plan.redis_url) if url is not None]
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)  # until the session listens: end as by Ctrl-C, and clean up
    configure_logs(settings.log_format, settings.log_level, urls, stream=_CurrentStderr())  # type: ignore[arg-type]
    code = 0
    try:
        _check_free("--listen", settings.listen)
        plan = _with_metrics(plan)
        with ExitStack() as stack:
            valkey = None if plan.redis_url is not None else stack.enter_context(EmbeddedValkey(plan.data_dir))
            session_plan = plan if valkey is None else _on_store(plan, valkey.url)
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                code = runner.run(Session(session_plan, valkey, app).run())
    except (DevError, EmbeddedValkeyError) as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        pass  # while it started, so that nothing was published; or at the very end
    return code


class _CurrentStderr:
    """Writes to what sys.stderr is at the moment, so that log lines scroll above a live display."""

    def write(self, text: str) -> int:
        """As a stream does."""
        return sys.stderr.write(text)

    def flush(self) -> None:
        """As a stream does."""
        sys.stderr.flush()


def _on_store(plan: DevPlan, url: str) -> DevPlan:
    return replace(plan, control_plane=plan.control_plane.model_copy(update={"redis_url": SecretStr(url)}))


def _with_metrics(plan: DevPlan) -> DevPlan:
    """Without the metrics of another run's port, unless that port was asked for."""
    address = plan.control_plane.metrics_listen
    if address is None:
        return plan
    try:
        _check_free("--metrics-listen", address)
    except DevError:
        if plan.metrics_asked_for:
            raise
        return replace(plan, control_plane=plan.control_plane.model_copy(update={"metrics_listen": None}))
    return plan


def _check_free(flag: str, address: str) -> None:
    """Raises DevError when nothing can listen there."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        socket.create_server((host, int(port)), family=family).close()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise DevError(f"{address} is in use: give another address with {flag} (port 0 takes a free one)") from error
        raise DevError(f"{flag} {address}: {error.strerror or error}") from error
