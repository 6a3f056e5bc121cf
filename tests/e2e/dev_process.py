"""`slicelease dev` as a user runs it: a child process with its output in files."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.servers import wait_for
from tests.tools import slicelease_path

START_S = 60.0
END_S = 60.0
_ADDRESS = re.compile(r"^gRPC +(\S+)$", re.MULTILINE)


class DevProcess:
    """One run. It takes a free port, unless `--listen` is given, and no port for metrics."""

    def __init__(self, folder: Path, *args: str, env: dict[str, str] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._out, self._err = folder / "stdout", folder / "stderr"
        listen = [] if "--listen" in args else ["--listen", "127.0.0.1:0"]
        clean = {name: value for name, value in os.environ.items() if not name.startswith("SLICELEASE_")}
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [slicelease_path(), "dev", *listen, "--metrics-listen", "", *args],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**clean, **(env or {})},
            )

    @property
    def stdout(self) -> str:
        return self._out.read_text()

    @property
    def stderr(self) -> str:
        return self._err.read_text()

    def wait_greeting(self) -> str:
        """The text that says where everything is; its process must be running."""
        wait_for(lambda: self._greeted() or self.process.poll() is not None, START_S, "dev says where it is")
        assert self._greeted(), f"it ended with {self.process.returncode}: {self.stderr}"
        return self.stdout + self.stderr

    def _greeted(self) -> bool:
        return "ListLeases" in self.stdout + self.stderr

    @property
    def address(self) -> str:
        """Of its gRPC server."""
        found = _ADDRESS.search(self.wait_greeting())
        assert found is not None
        return found[1]

    def wait_end(self, deadline_s: float = END_S) -> int:
        """The exit code."""
        return self.process.wait(deadline_s)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def result(self) -> dict[str, Any]:
        """The JSON object, which is all there is on stdout."""
        content: dict[str, Any] = json.loads(self.stdout)
        assert self.stdout.count("\n") == 1
        return content

    def descendants(self) -> list[int]:
        """Ids of all living processes under it."""
        return descendants_of(self.process.pid)


@contextmanager
def dev(folder: Path, *args: str, env: dict[str, str] | None = None) -> Iterator[DevProcess]:
    """A run, killed at the end of the block if it has not ended."""
    process = DevProcess(folder, *args, env=env)
    try:
        yield process
    finally:
        if process.process.poll() is None:
            process.process.kill()
        process.process.wait()


def descendants_of(pid: int) -> list[int]:
    """Ids of the processes that have this one above them."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # gone meanwhile
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found, left = [], [pid]
    while left:
        below = children.get(left.pop(), [])
        found += below
        left += below
    return found


def is_alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
