"""The worker as a process: signals, exit codes, the example application."""

from __future__ import annotations

import os
import signal
from contextlib import closing
from pathlib import Path

import pytest
import trio

from slicelease.v1 import lease_service_pb2 as pb
from slicelease.worker import amqp
from tests.e2e.processes import Worker
from tests.integration.lease_server import LeaseServer, usual
from tests.servers import free_port, wait_for

pytestmark = pytest.mark.servers

APP = """
import os, trio
from slicelease.worker import SliceWorker, Work
app = SliceWorker()

@app.handler
async def handle(work: Work) -> None:
    print("started", work.payload.decode(), flush=True)
    await trio.sleep(float(os.environ["WORK_S"]))
    print("ended", work.payload.decode(), flush=True)
"""


class Proc(Worker):
    """A worker process whose application stands in a folder of its own."""

    def __init__(self, folder: Path, amqp_url: str, control_plane: str, work_s: float, *args: str) -> None:
        (folder / "signalled_app.py").write_text(APP)
        super().__init__(amqp_url, control_plane, "signalled_app:app", *args, WORK_S=str(work_s), PYTHONPATH=str(folder))

    def says(self, text: str, deadline_s: float = 20.0) -> None:
        wait_for(lambda: text in self.log.read_text(errors="replace"), deadline_s, f"{text!r} in the log")

    def exit_code(self, deadline_s: float) -> int:
        process = self.process
        assert process is not None
        return process.wait(deadline_s)


def grants_one(call: pb.LeaseCall) -> pb.LeaseAnswer:
    """One lease, then none."""
    if call.HasField("acquire") and grants_one.spent:  # type: ignore[attr-defined]
        return pb.LeaseAnswer(acquire=pb.AcquireLeaseResponse(denied=pb.Denied(reason=pb.DENIAL_REASON_NO_READY_QUEUE)))
    if call.HasField("acquire"):
        grants_one.spent = True  # type: ignore[attr-defined]
    return usual(call)


@pytest.fixture
def server() -> LeaseServer:
    grants_one.spent = False  # type: ignore[attr-defined]
    made = LeaseServer()
    made.answer = grants_one
    return made


async def fill(url: str) -> None:
    async with amqp.open_connection(url) as connection:
        channel = await connection.open_channel()
        for queue in ("work.acme", "attention.standard"):
            await channel.declare_queue(queue)
        for body in (b"1", b"2", b"3"):
            await channel.publish("", "work.acme", body)
        await channel.publish("", "attention.standard", b'{"announcement_id":"a-1"}')


async def ready(url: str, queue: str) -> list[bytes]:
    async with amqp.open_connection(url) as connection:
        channel = await connection.open_channel()
        return [message.body for message in await channel.get_many(queue, 10)]


def test_t04_sigterm_during_the_start_is_a_good_end(tmp_path: Path, amqp_url: str) -> None:
    with free_port() as nobody, closing(Proc(tmp_path, amqp_url, f"127.0.0.1:{nobody}", 0)) as worker:
        worker.launch()
        worker.says("no session with the control plane")
        os.kill(worker.pid, signal.SIGTERM)
        assert worker.exit_code(5) == 0


def test_sigterm_ends_at_the_next_message(tmp_path: Path, amqp_url: str, server: LeaseServer) -> None:
    trio.run(fill, amqp_url)
    with server, Proc(tmp_path, amqp_url, server.address, 1.0) as worker:
        worker.says("started 1")
        os.kill(worker.pid, signal.SIGTERM)
        assert worker.exit_code(10) == 0
        log = worker.log.read_text()
        settles = [call.settle for call in server.calls if call.HasField("settle")]
    assert "ended 1" in log
    assert "started 2" not in log
    assert [(settle.end_reason, settle.totals.messages) for settle in settles] == [(pb.END_REASON_SHUTDOWN, 1)]
    assert trio.run(ready, amqp_url, "work.acme") == [b"2", b"3"]
    assert trio.run(ready, amqp_url, "attention.standard") == []


def test_t04_a_second_sigterm_is_immediate_and_loses_nothing(tmp_path: Path, amqp_url: str, server: LeaseServer) -> None:
    trio.run(fill, amqp_url)
    with server, Proc(tmp_path, amqp_url, server.address, 60.0) as worker:
        worker.says("started 1")
        os.kill(worker.pid, signal.SIGTERM)
        worker.says("shutting down")
        os.kill(worker.pid, signal.SIGTERM)
        assert worker.exit_code(4) == 0
    assert trio.run(ready, amqp_url, "work.acme") == [b"1", b"2", b"3"]
    assert trio.run(ready, amqp_url, "attention.standard") == [b'{"announcement_id":"a-1"}']


def test_an_installation_that_cannot_be_worked_with_ends_it_with_1(tmp_path: Path, amqp_url: str, server: LeaseServer) -> None:
    server.max_heartbeat_s = 2.0
    with server, closing(Proc(tmp_path, amqp_url, server.address, 1.0)) as worker:
        worker.launch()
        assert worker.exit_code(20) == 1
        assert "amqp_heartbeat is 5 s" in worker.log.read_text()


def test_a_refused_login_ends_it_with_1_and_without_the_password(tmp_path: Path, amqp_url: str, server: LeaseServer) -> None:
    wrong = amqp_url.replace("guest:guest@", "guest:hunter22@")
    assert wrong != amqp_url
    with server, closing(Proc(tmp_path, wrong, server.address, 1.0)) as worker:
        worker.launch()
        assert worker.exit_code(20) == 1
        assert "access refused by the broker" in worker.log.read_text()
        assert "hunter22" not in worker.log.read_text()
