"""No server outlives the process that started it, however that ends, and each fault of the harness says what to do."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.servers import MissingServerError, Redis, ServerError, free_port, private_folder, spawn, wait_for
from tests.servers.process import find_program

ROOT = Path(__file__).resolve().parents[2]

OWNER = """
import signal
from tests.servers import RabbitMQ, Redis, Valkey
rabbit, redis, valkey = RabbitMQ(), Redis(), Valkey(unix=True)
for server in (rabbit, redis, valkey):
    server.start()
rabbit.pause()
print("started", rabbit.folder.name, flush=True)
signal.pause()
"""


def processes_with(text: str) -> list[int]:
    """The processes whose environment or command line holds ``text``, zombies left out."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            seen = (folder / "environ").read_bytes() + (folder / "cmdline").read_bytes()
        except OSError:  # it ended, or is not ours
            continue
        if text.encode() in seen:
            found.append(int(folder.name))
    return found


@pytest.mark.servers
def test_kill_9_of_the_owner_leaves_no_process_and_the_next_run_sweeps_its_folders() -> None:
    mark = f"SLICELEASE_TEST_OWNER={os.getpid()}"
    name, _, value = mark.partition("=")
    environment = {**os.environ, name: value, "PYTHONPATH": str(ROOT)}
    owner = subprocess.Popen([sys.executable, "-c", OWNER], env=environment, cwd=ROOT, stdout=subprocess.PIPE)
    with owner:
        assert owner.stdout is not None
        word, folder = owner.stdout.readline().decode().split()
        assert word == "started"
        family = {owner.pid, *children_of(owner.pid)}
        assert len(family) >= 7  # itself, epmd, the node and its two helpers at least, Redis, Valkey
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    wait_for(lambda: not alive(family), 10, "all processes of the killed owner are gone")
    assert processes_with(mark) == []
    swept = private_folder("sweeper")
    assert not (swept.parent / folder).exists()
    swept.rmdir()


def children_of(pid: int) -> set[int]:
    """All descendants of a process."""
    direct = {int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()}
    return direct.union(*(children_of(child) for child in direct))


def alive(pids: set[int]) -> set[int]:
    return {pid for pid in pids if running(pid)}


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def test_only_the_main_thread_starts_servers() -> None:
    refused: list[BaseException] = []

    def attempt() -> None:
        try:
            spawn(["true"])
        except RuntimeError as error:
            refused.append(error)

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    assert "main thread" in str(refused[0])


def test_a_child_has_the_pid_of_its_program_and_its_own_session() -> None:
    with spawn([sys.executable, "-c", "import os; print(os.getpid(), os.getsid(0))"], stdout=subprocess.PIPE) as child:
        output, _ = child.communicate(timeout=20)
    assert output.split() == [str(child.pid).encode()] * 2


def test_a_missing_program_names_the_apt_line() -> None:
    with pytest.raises(MissingServerError, match="sudo apt-get install -y redis-server"):
        find_program("redis-server-of-another-world", "redis-server")


@pytest.mark.servers
def test_a_server_that_refuses_its_settings_shows_its_log() -> None:
    server = Redis(config={"maxmemory": "many"})
    with pytest.raises(ServerError, match="argument must be a memory value"):
        server.__enter__()
    assert not server.running
    assert not server.folder.exists()


def test_a_port_is_held_until_it_is_released() -> None:
    ports = [free_port() for _ in range(50)]
    assert len({port.number for port in ports}) == 50
    for port in ports:
        port.release()
        port.release()
