"""Loopback ports that nobody else takes: below the ephemeral range, each held by a lock while it is in use."""

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path
from types import TracebackType

# Below Linux's ephemeral range (32768 and up): no outgoing connection sits on the port while its server restarts.
_FIRST, _LAST = 20_000, 32_000
_TRIES = 200

_dice = random.SystemRandom()


class Port:
    """A port number reserved for this process, among all test runs of this user, until ``release`` or its death."""

    def __init__(self, number: int, lock_fd: int) -> None:
        self.number = number
        self._lock_fd = lock_fd

    def release(self) -> None:
        """Give the number back; harmless when done twice."""
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def __enter__(self) -> int:
        return self.number

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.release()


def free_port() -> Port:
    """Reserve a free loopback TCP port; raise OSError when none is found in 200 tries."""
    for _ in range(_TRIES):
        number = _dice.randrange(_FIRST, _LAST)
        lock_fd = _lock(number)
        if lock_fd is None:
            continue
        if _bindable(number):
            return Port(number, lock_fd)
        os.close(lock_fd)
    raise OSError(f"no free loopback port found between {_FIRST} and {_LAST}")


def _lock(number: int) -> int | None:
    folder = Path(tempfile.gettempdir()) / f"slicelease-test-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    lock_fd = os.open(folder / str(number), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock_fd)
        return None
    return lock_fd


def _bindable(number: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", number))
        except OSError:
            return False
    return True
