"""T04: a signal while a service starts, and signals that go on until it is gone, end it in good order."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.e2e.processes import ControlPlane, Worker
from tests.servers import wait_for
from tests.tools import slicelease_path

COMMANDS = {
    "control-plane": ["--listen", "127.0.0.1:0", "--metrics-listen", "", "--redis-url", "redis://127.0.0.1:1/0"],
    "worker": ["--app", "tests.e2e.recording_app:app", "--control-plane", "127.0.0.1:1"],
    "dev": ["--listen", "127.0.0.1:0", "--metrics-listen", ""],
}
NOBODY = {"SLICELEASE_AMQP_URL": "amqp://127.0.0.1:1/"}


def takes_signals(pid: int) -> bool:
    """Whether the process has a handler for SIGTERM, or is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return True
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
@pytest.mark.parametrize("command", COMMANDS)
def test_t04_a_signal_while_a_service_is_imported_ends_it_with_0(command: str, number: signal.Signals, tmp_path: Path) -> None:
    own = {name: value for name, value in os.environ.items() if not name.startswith("SLICELEASE_")}
    env = own | {"RECORD": str(tmp_path / "record"), "PYTHONPATH": os.getcwd()} | ({} if command == "dev" else NOBODY)
    with subprocess.Popen(
        [slicelease_path(), command, *COMMANDS[command]], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            wait_for(lambda: takes_signals(process.pid), 20, "it takes signals")
            process.send_signal(number)
            output, _ = process.communicate(timeout=20)
        finally:
            process.kill()
    assert process.returncode == 0, output
    assert b"Traceback" not in output


def test_t04_signals_that_keep_coming_make_no_crash_of_an_end(amqp_url: str, redis_url: str, cell: str, tmp_path: Path) -> None:
    env = {"RECORD": str(tmp_path / "record"), "PYTHONPATH": os.getcwd()}
    with contextlib.ExitStack() as stack:
        plane = stack.enter_context(ControlPlane(amqp_url, redis_url, cell, {}))
        worker = stack.enter_context(Worker(amqp_url, plane.address, "tests.e2e.recording_app:app", **env))
        for service in (worker, plane):
            process = service.process
            assert process is not None
            wait_for(lambda process=process: process.send_signal(signal.SIGTERM) or process.poll() is not None, 20, "it ends")  # type: ignore[misc]
            assert process.returncode == 0, service.log_tail()
