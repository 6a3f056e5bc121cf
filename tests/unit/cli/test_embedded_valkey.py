"""The embedded Valkey: it answers, keeps what it should, dies with its owner, and says clearly why it cannot start."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
import redis

from slicelease.cli import embedded_valkey
from slicelease.cli.embedded_valkey import EmbeddedValkey, EmbeddedValkeyError
from tests.servers import wait_for

_OWNER = """
import sys, time
from pathlib import Path
from slicelease.cli.embedded_valkey import EmbeddedValkey
valkey = EmbeddedValkey(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
valkey.start()
print(valkey.pid, valkey.url, flush=True)
time.sleep(600)
"""


def is_alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def client(valkey: EmbeddedValkey) -> "redis.Redis":
    return redis.Redis.from_url(valkey.url, decode_responses=True)


def test_it_answers_and_is_gone_after_the_block() -> None:
    with EmbeddedValkey() as valkey:
        pid, folder = valkey.pid, Path(valkey.url.removeprefix("unix://")).parent
        with client(valkey) as connection:
            assert connection.ping()
            assert connection.config_get("appendonly") == {"appendonly": "no"}
        assert folder.stat().st_mode & 0o077 == 0, "nobody else may use the socket"
    assert not is_alive(pid)
    assert not folder.exists()
    assert not valkey.running


def test_data_is_kept_only_in_a_data_dir(tmp_path: Path) -> None:
    for kept in (tmp_path / "deep" / "data", None):
        for expected in (None, "1" if kept else None):
            with EmbeddedValkey(kept) as valkey, client(valkey) as connection:
                assert connection.get("k") == expected
                connection.set("k", "1")


def test_it_dies_with_an_owner_that_is_killed(tmp_path: Path) -> None:
    owner = subprocess.Popen([sys.executable, "-c", _OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    with owner, owner.stdout:
        try:
            pid, url = owner.stdout.readline().split()
            with pytest.raises(EmbeddedValkeyError, match="in use by another"):
                EmbeddedValkey(tmp_path).start()
        finally:
            owner.kill()
    wait_for(lambda: not is_alive(int(pid)), 5, "Valkey ends with its owner")
    with EmbeddedValkey(tmp_path):
        assert not Path(url.removeprefix("unix://")).parent.exists(), "the next start sweeps what a killed one left"


def test_a_ctrl_c_at_the_terminal_does_not_reach_it() -> None:
    with EmbeddedValkey() as valkey:
        assert os.getsid(valkey.pid) == valkey.pid != os.getsid(0)


def test_only_the_main_thread_may_start_it() -> None:
    caught: list[BaseException] = []

    def start() -> None:
        try:
            EmbeddedValkey().start()
        except RuntimeError as error:
            caught.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert "main thread" in str(caught[0])


def test_a_socket_path_that_is_too_long_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ("x" * 90)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with pytest.raises(EmbeddedValkeyError, match="may have 107: set TMPDIR to a shorter folder"):
        EmbeddedValkey().start()
    assert list(folder.iterdir()) == []


def test_a_data_dir_that_is_no_folder_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EmbeddedValkeyError, match=r"--data-dir .*/file/data cannot be written: Not a directory"):
        EmbeddedValkey(tmp_path / "file" / "data").start()


def test_a_server_that_ends_at_once_is_shown_with_its_log(tmp_path: Path) -> None:
    appended = tmp_path / "appendonlydir"
    appended.mkdir()
    (appended / "appendonly.aof.manifest").write_text("no manifest at all\n")
    with pytest.raises(EmbeddedValkeyError, match=r"ended at its start\n.+"):
        EmbeddedValkey(tmp_path).start()


def test_a_platform_without_a_binary_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    import platform

    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(EmbeddedValkeyError, match=r"no Valkey for this platform .*riscv64.*--redis-url"):
        embedded_valkey.binary_path()


def test_a_server_that_was_killed_is_seen_to_be_gone() -> None:
    valkey = EmbeddedValkey()
    valkey.start()
    pid = valkey.pid
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not valkey.running, 5, "it is seen to be gone")
    valkey.stop()
    valkey.stop()
    assert not is_alive(pid)
