"""One child process that dies with us, and the life that all servers share. Knows no particular server."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from tests.servers.die_with_parent import owner_of_children
from tests.servers.folders import private_folder
from tests.servers.waiting import WaitTimeoutError, wait_for

_LAUNCHER = Path(__file__).with_name("die_with_parent.py")


class ServerError(Exception):
    """A server did not start, ended by itself, or gave no answer; carries the end of its log."""


class MissingServerError(Exception):
    """A server's program is not installed; the text names the line that installs it."""


def find_program(name: str, apt_package: str, *folders: str) -> str:
    """Return the path of ``name``, from ``folders`` first and then PATH; raise MissingServerError with the apt line."""
    search = os.pathsep.join([*folders, os.environ.get("PATH", os.defpath), "/usr/sbin"])
    found = shutil.which(name, path=search)
    if found is None:
        raise MissingServerError(f"{name} is not installed; the tests need it: sudo apt-get install -y {apt_package}")
    return found


def spawn(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    stdout: int | IO[bytes] | None = None,
    stderr: int | IO[bytes] | None = None,
) -> subprocess.Popen[bytes]:
    """Start ``argv`` as a child that is killed when this process dies; main thread only. The caller waits for it.

    ``Popen.pid`` is the program's own pid. It has its own session, so a Ctrl-C at the terminal reaches only pytest.
    """
    launcher = [sys.executable, "-I", "-S", str(_LAUNCHER), str(owner_of_children())]
    return subprocess.Popen(
        [*launcher, *argv],
        env=None if env is None else dict(env),
        cwd=cwd,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    )


class ServerProcess:
    """A server with a private folder: start and stop keep its data, leaving the context removes it.

    Subclasses say how to launch it and when it is ready. ``launch`` must run in the main thread; everything else may
    run in any, so an async test calls ``launch`` itself and gives ``wait_ready`` or ``stop`` to a thread.
    """

    kind = "server"
    start_deadline_s = 60.0
    stop_deadline_s = 30.0

    def __init__(self) -> None:
        self.folder = private_folder(self.kind)
        self.log = self.folder / "output.log"
        self.process: subprocess.Popen[bytes] | None = None

    # What subclasses provide

    def spawn_process(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start the program with its output in ``log``."""
        raise NotImplementedError

    def is_ready(self) -> bool:
        """Say whether the server answers; never raises for a server that is still starting."""
        raise NotImplementedError

    def release(self) -> None:
        """Give back ports and helpers at the very end."""

    # The life

    @property
    def pid(self) -> int:
        """The server's process id; raises ServerError while it is down."""
        return self._running().pid

    @property
    def running(self) -> bool:
        """True while the process exists (a paused one too)."""
        return self.process is not None and self.process.poll() is None

    def launch(self) -> None:
        """Start the process without waiting until it is ready."""
        if self.running:
            raise ServerError(f"{self.kind} runs already")
        with self.log.open("ab") as log:
            self.process = self.spawn_process(log)

    def wait_ready(self) -> None:
        """Wait until the server answers; raise ServerError with the end of its log when it does not."""
        try:
            wait_for(lambda: not self.running or self.is_ready(), self.start_deadline_s, f"{self.kind} is ready")
        except WaitTimeoutError as late:
            raise ServerError(f"{late}\n{self.log_tail()}") from late
        if not self.running:
            raise ServerError(f"{self.kind} ended while starting\n{self.log_tail()}")

    def start(self) -> None:
        """Launch and wait until ready; a stopped or killed server comes back on its ports with its data."""
        self.launch()
        self.wait_ready()

    def stop(self) -> None:
        """End it in an orderly way (SIGTERM) and wait; killed when it does not end. Harmless when it is down."""
        if self.running:
            self.resume()
            self._running().send_signal(signal.SIGTERM)
            try:
                self._running().wait(self.stop_deadline_s)
            except subprocess.TimeoutExpired:
                self._running().kill()
        self._reap()

    def kill(self) -> None:
        """End it as a crash would: SIGKILL. Harmless when it is down."""
        if self.process is not None:
            self.process.kill()
        self._reap()

    def restart(self) -> None:
        """Stop in an orderly way and start again with the data that it kept."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze the process (SIGSTOP): connections stay open, nothing answers."""
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a frozen process go on (SIGCONT)."""
        self._running().send_signal(signal.SIGCONT)

    def log_tail(self, size_bytes: int = 4000) -> str:
        """Return the end of the server's output, for messages."""
        return self.log.read_bytes()[-size_bytes:].decode(errors="replace") if self.log.exists() else ""

    def _running(self) -> subprocess.Popen[bytes]:
        if self.process is None:
            raise ServerError(f"{self.kind} is not running")
        return self.process

    def _reap(self) -> None:
        if self.process is None:
            return
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Kill the process and remove its folder; the data is gone."""
        self.kill()
        self.release()
        shutil.rmtree(self.folder, ignore_errors=True)
