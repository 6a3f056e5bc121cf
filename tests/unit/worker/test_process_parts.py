"""Settings, metrics, the log and the loop's watch of a worker process."""

import io
import json
import logging
import socket
import threading
import time
import urllib.error
import urllib.request
from datetime import timedelta
from pathlib import Path

import pytest
import structlog
import trio
import trio.lowlevel
from pydantic import ValidationError
from structlog.testing import capture_logs

from slicelease.worker import SliceWorker, Work
from slicelease.worker.app import SettingsError, new_session, run, work
from slicelease.worker.blocked_loop import watch_loop
from slicelease.worker.config import WorkerSettings
from slicelease.worker.leases import CallStatistics, EndReason, Grant, SliceEnd, SliceTotals
from slicelease.worker.logs import MOST_TRACE_CHARACTERS, configure_logs, shorten_trace
from slicelease.worker.metrics import WorkerMetrics, serve_metrics
from slicelease.worker.slice_run import Slot
from tests.servers import wait_for_trio
from tests.unit.worker.test_handlers import work_of


@pytest.fixture(autouse=True)
def no_settings_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in list(os.environ):
        if name.startswith("SLICELEASE_"):
            monkeypatch.delenv(name)


def test_defaults_are_those_of_the_design() -> None:
    settings = WorkerSettings()
    assert settings.classes == ("interactive", "standard", "bulk")
    assert (settings.slots, settings.control_plane, settings.metrics_listen) == (8, "127.0.0.1:50051", None)
    assert (settings.ticket_hold, settings.shutdown_grace) == (timedelta(minutes=1), timedelta(seconds=20))
    assert settings.amqp_heartbeat == timedelta(seconds=5)


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLICELEASE_CLASSES", "gold, silver")
    monkeypatch.setenv("SLICELEASE_CONTROL_PLANE", "a:1, b:2,[::1]:3")
    monkeypatch.setenv("SLICELEASE_TICKET_HOLD", "500ms")
    monkeypatch.setenv("SLICELEASE_METRICS_LISTEN", "")
    settings = WorkerSettings()
    assert settings.classes == ("gold", "silver")
    assert settings.control_plane == "a:1,b:2,[::1]:3"
    assert settings.ticket_hold == timedelta(milliseconds=500)
    assert settings.metrics_listen is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("classes", ""),
        ("classes", "work"),
        ("classes", "a,a"),
        ("classes", "no dots.here"),
        ("control_plane", ""),
        ("control_plane", "localhost"),
        ("control_plane", "a:1,b:99999"),
        ("slots", 0),
        ("ticket_hold", "soon"),
        ("amqp_heartbeat", "1500ms"),
        ("amqp_url", "http://guest:hunter22@host/"),
        ("metrics_listen", "9465"),
        ("nonsense", "1"),
    ],
)
def test_a_bad_value_is_an_error_that_names_the_key_and_not_the_value(key: str, value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        WorkerSettings(**{key: value})  # type: ignore[arg-type]
    assert key in str(caught.value)
    assert "hunter22" not in str(caught.value)


def test_sessions_are_different_and_valid() -> None:
    import re

    sessions = {new_session() for _ in range(50)}
    assert len(sessions) == 50
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", session) for session in sessions)


def ended(reason: EndReason) -> SliceEnd:
    grant = Grant("l", "t", "q", "work.t.q", "standard", 7, 5.0, 20, 5.0, 5)
    return SliceEnd(grant, reason, SliceTotals(3, 1, 2, 99, 1_500_000))


def test_metrics_and_readiness_are_served() -> None:
    metrics, reasons = WorkerMetrics(), ["no session yet"]
    metrics.slice_ended(ended(EndReason.ERROR))
    metrics.count_calls_of(lambda: CallStatistics(7, 3, 1))
    with serve_metrics("127.0.0.1", 0, metrics.registry, lambda: reasons) as port:
        text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
        with pytest.raises(urllib.error.HTTPError) as unready:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5)
        said = json.loads(unready.value.read())
        unready.value.close()
        reasons.clear()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5) as ready:
            assert json.loads(ready.read()) == {"ready": True, "reasons": []}
    assert said == {"ready": False, "reasons": ["no session yet"]}
    assert 'slicelease_worker_slices_total{reason="ERROR"} 1.0' in text
    assert 'slicelease_worker_messages_total{outcome="handled"} 3.0' in text
    assert "slicelease_worker_handler_seconds_total 1.5" in text
    assert "slicelease_worker_lease_calls_total 7.0" in text
    assert "slicelease_worker_lease_exchanges_total 3.0" in text
    assert "tenant=" not in text


def test_the_log_is_json_without_secrets() -> None:
    handlers, level, stream = logging.getLogger().handlers[:], logging.getLogger().level, io.StringIO()
    try:
        configure_logs("json", "info", password="hunter22", stream=stream)
        structlog.get_logger("x").info("said", url="amqp://me:other@host/v", error=ValueError("hunter22"), number=3)
        logging.getLogger("library").warning("dialled %s", "amqp://me:hunter22@host")
        logging.getLogger("library").debug("not said")
    finally:
        structlog.reset_defaults()
        logging.getLogger().handlers[:] = handlers
        logging.getLogger().setLevel(level)
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (first["event"], first["level"], first["number"]) == ("said", "info", 3)
    assert (first["url"], first["error"]) == ("amqp://***@host/v", "***")
    assert second["event"] == "dialled amqp://***@host"


def test_a_long_exception_is_cut_in_the_middle() -> None:
    event = shorten_trace(None, "error", {"exception": "Traceback: " + "x" * 5_000_000 + " the end", "event": "e" * 20_000})
    trace = event["exception"]
    assert len(trace) < MOST_TRACE_CHARACTERS + 100
    assert trace.startswith("Traceback: x")
    assert trace.endswith("x the end")
    assert "characters left out" in trace
    assert event["event"] == "e" * 20_000


@pytest.mark.trio
async def test_a_handler_that_blocks_the_loop_is_named() -> None:
    """A02: tenant and handler, before the heartbeat is missed."""
    slot, blocked = Slot(0), list[float]()
    slot.task, slot.doing = trio.lowlevel.current_task(), work_of()
    with capture_logs() as logs, watch_loop([slot], 0.2, lambda _: "shop.tasks.slow", lambda: blocked.append(1)):
        await trio.sleep(0.5)
        assert blocked == []
        time.sleep(0.6)  # noqa: ASYNC251  that is the fault
        await trio.lowlevel.checkpoint()
        async with trio.open_nursery() as nursery:

            async def block() -> None:
                time.sleep(0.6)  # noqa: ASYNC251  that is the fault

            nursery.start_soon(block)
    await wait_for_trio(lambda: "slicelease-loop-watch" not in {thread.name for thread in threading.enumerate()}, 5, "ended")
    assert len(blocked) == 2
    for log in logs:
        assert (log["tenant"], log["handler"], log["message_id"]) == ("acme", "shop.tasks.slow", "m1")
        assert log["blocked_s"] >= 0.2
        assert "test_process_parts.py" in log["place"]


@pytest.mark.trio
async def test_an_app_without_handlers_is_refused() -> None:
    with pytest.raises(SettingsError):
        await work(WorkerSettings(), SliceWorker())


def test_settings_that_cannot_work_end_with_1_and_a_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    handlers, level = logging.getLogger().handlers[:], logging.getLogger().level
    try:
        assert run(WorkerSettings(), SliceWorker()) == 1
        app = SliceWorker()

        @app.handler
        async def handle(work: Work) -> None: ...

        assert run(WorkerSettings(amqp_url="amqp://me:hunt/er22@host/v"), app) == 1  # type: ignore[arg-type]
        assert run(WorkerSettings(control_plane="no-such-host.invalid:1,127.0.0.1:2"), app) == 1
        assert run(WorkerSettings(tls_ca=Path("/no/such/file")), app) == 1
        with socket.create_server(("127.0.0.1", 0)) as taken:
            assert run(WorkerSettings(metrics_listen=f"127.0.0.1:{taken.getsockname()[1]}"), app) == 1
    finally:
        structlog.reset_defaults()
        logging.getLogger().handlers[:] = handlers
        logging.getLogger().setLevel(level)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    for line, text in zip(lines, ("no handler", "amqp_url", "no-such-host", "tls_ca", "metrics_listen"), strict=True):
        assert text in line["why"]
    assert "er22" not in json.dumps(lines)
