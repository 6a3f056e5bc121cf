"""The life of `slicelease dev` as a process: its start, what it prints, and that nothing of it is left behind."""

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.e2e.dev_process import dev, is_alive
from tests.servers import wait_for
from tests.tools import buf_path, grpcurl_path, slicelease_path


def folders_of(pid: int) -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"slicelease-dev-{pid}-*"))


def printed_lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip().startswith("grpcurl ")]


def test_the_printed_lines_work_as_they_are_printed(tmp_path: Path) -> None:
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "grpcurl").symlink_to(grpcurl_path())
    with dev(tmp_path, "--no-demo") as run:
        lines = printed_lines(run.wait_greeting())
        assert len(lines) == 3
        answers = [
            json.loads(
                subprocess.run(
                    ["/bin/sh", "-c", line],
                    env={"PATH": f"{bin_folder}:/bin:/usr/bin"},
                    capture_output=True,
                    text=True,
                    check=True,
                    timeout=30,
                ).stdout
            )
            for line in lines
        ]
        assert answers[0]["queue"] == "tenants/acme/queues/default"
        assert answers[1]["queue"]["name"] == "tenants/acme/queues/default"
        assert answers[2] == {} or answers[2]["leases"]
        handled = wait_for(lambda: [x for x in run.stderr.splitlines() if "message handled" in x], 20, "it is handled")
        assert answers[0]["message_id"] in handled[0]
        assert "acme" in handled[0]
        run.signal(signal.SIGTERM)
        assert run.wait_end() == 0, run.stderr


def test_own_handlers_run_in_it_and_a_message_that_none_takes_is_named(tmp_path: Path) -> None:
    """`slicelease dev --app examples.invoices:app`, as the pages show it."""
    with dev(tmp_path, "--app", "examples.invoices:app") as run:
        publish = printed_lines(run.wait_greeting())[0].replace("grpcurl", grpcurl_path(), 1)
        for line in (publish, publish.replace("greeting", "invoice.created").replace("aGVsbG8=", "eyJ0b3RhbCI6IDk5fQ==")):
            subprocess.run(["/bin/sh", "-c", line], capture_output=True, check=True, timeout=30)
        wait_for(lambda: "acme: invoice over 99.0 sent" in run.stdout, 20, "the handler runs")
        (dead,) = [line for line in run.stderr.splitlines() if "dead-lettered" in line]
        assert "no_handler" in dead
        run.signal(signal.SIGINT)
        assert run.wait_end() == 0, run.stderr


def test_buf_curl_reaches_it_through_reflection(tmp_path: Path) -> None:
    with dev(tmp_path, "--no-demo") as run:
        call = [
            buf_path(), "curl", "--http2-prior-knowledge", "--protocol", "grpc", "-d", '{"queue":"tenants/acme"}',
            f"http://{run.address}/slicelease.v1.WorkService/TouchQueue",
        ]  # fmt: skip
        done = subprocess.run(call, capture_output=True, text=True, check=False, timeout=30, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["queue"] == "tenants/acme/queues/default"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_within_seconds_and_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    with dev(tmp_path, "--tenants", "10", "--json") as run:
        run.wait_greeting()
        children = run.descendants()
        assert children, "the embedded Valkey"
        wait_for(lambda: "processed" in run.stderr, 20, "the load runs")
        run.signal(number)
        assert run.wait_end(15) == 0, run.stderr
        result = run.result()
    assert result["published"] == result["processed"] > 0
    assert not any(map(is_alive, children))
    assert folders_of(run.process.pid) == []
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_start_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    """Field trial T04."""
    with dev(tmp_path, "--no-demo") as run:
        children = wait_for(run.descendants, 20, "the embedded Valkey is started")
        run.signal(number)
        assert run.wait_end(20) in (0, 1), run.stderr
    wait_for(lambda: not any(map(is_alive, children)), 5, "its children are gone")
    assert folders_of(run.process.pid) == []
    assert "Traceback" not in run.stderr


def test_a_signal_while_tenants_are_made_ends_it_soon(tmp_path: Path) -> None:
    with dev(tmp_path, *["--tenants", "100000", "--messages", "10", "--json", "--log-level", "info"]) as run:
        wait_for(lambda: "readiness changed" in run.stderr, 30, "it is up")
        run.signal(signal.SIGTERM)
        assert run.wait_end(15) == 0, run.stderr
        assert run.result()["published"] == 0


def test_a_signal_in_the_middle_of_a_bounded_load_loses_nothing(tmp_path: Path) -> None:
    options = "--tenants 10 --messages 5000 --work-ms 20 --json"
    with dev(tmp_path, *options.split()) as run:
        wait_for(lambda: "processed" in run.stderr, 60, "the load runs")
        run.signal(signal.SIGINT)
        assert run.wait_end(20) == 3, run.stderr
        result = run.result()
    assert result["lost"] == 0
    assert result["remaining"] == result["published"] - result["processed"] > 0


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with dev(tmp_path, *["--tenants", "4", "--messages", "400", "--work-ms", "20000"]) as run:
        run.wait_greeting()
        children = run.descendants()
        run.signal(signal.SIGINT)
        run.signal(signal.SIGTERM)
        assert run.wait_end(10) == 130
    assert not any(map(is_alive, children))


def test_kill_9_leaves_no_process_and_the_next_start_sweeps_the_folder(tmp_path: Path) -> None:
    with dev(tmp_path / "one", "--tenants", "10") as run:
        run.wait_greeting()
        children = run.descendants()
        assert children
        run.process.kill()
        run.process.wait()
        wait_for(lambda: not any(map(is_alive, children)), 5, "its children are gone")
        assert folders_of(run.process.pid), "nobody could remove it"
    with dev(tmp_path / "two", "--no-demo") as next_run:
        next_run.wait_greeting()
        assert folders_of(run.process.pid) == []


def test_it_ends_with_an_error_when_its_valkey_is_gone(tmp_path: Path) -> None:
    with dev(tmp_path, "--tenants", "10", "--json") as run:
        wait_for(lambda: "processed" in run.stderr, 30, "the load runs")
        (valkey,) = run.descendants()
        os.kill(valkey, signal.SIGKILL)
        assert run.wait_end(60) == 1
    assert "Error: the embedded Valkey has ended" in run.stderr
    assert run.stdout == ""


def test_a_port_in_use_is_named_with_what_to_do(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with dev(tmp_path, "--listen", address) as run:
            assert run.wait_end(30) == 1
        assert f"Error: {address} is in use: give another address with --listen" in run.stderr
        with dev(tmp_path, "--metrics-listen", address) as run:
            assert run.wait_end(30) == 1
        assert f"Error: {address} is in use: give another address with --metrics-listen" in run.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("--no-demo --json", "--no-demo has no load"),
        ("--app examples.invoices:app --messages 3", "--app has no load"),
        ("--app examples.invoices:nothing", "has no attribute 'nothing'"),
        ("--data-dir /tmp/x --redis-url redis://127.0.0.1:1/0", "does not go with a Redis of yours"),
        ("--slots 0", "--slots: '0' is not valid"),
        ("--tenants 0", "--tenants"),
        ("--amqp-url http://h", "--amqp-url: a URL that begins with amqp://"),
        ("--control-plane h:1", "No such option"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, args: str, said: str) -> None:
    with dev(tmp_path, *args.split()) as run:
        assert run.wait_end(30) == 2
    assert said in run.stderr


def test_a_data_dir_keeps_the_ledger_and_opens_at_once(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with dev(tmp_path / "one", "--no-demo", "--data-dir", str(data)) as run:
        line = printed_lines(run.wait_greeting())[0]
        publish = shlex.split(line)
        subprocess.run([grpcurl_path(), *publish[1:]], check=True, capture_output=True, timeout=30)
        run.signal(signal.SIGTERM)
        assert run.wait_end() == 0, run.stderr
    with dev(tmp_path / "two", "--no-demo", "--data-dir", str(data)) as run:
        get, address = printed_lines(run.wait_greeting())[1], run.address
        done = subprocess.run([grpcurl_path(), *shlex.split(get)[1:]], check=True, capture_output=True, text=True, timeout=30)
        assert json.loads(done.stdout)["queue"]["name"] == "tenants/acme/queues/default"
        health = [slicelease_path(), "health", "--control-plane", address, "--service", "slicelease.ledger"]
        wait_for(lambda: subprocess.run(health, check=False, capture_output=True).returncode == 0, 10, "it grants at once")
        with dev(tmp_path / "three", "--no-demo", "--data-dir", str(data)) as other:
            assert other.wait_end(30) == 1
        assert "is in use by another slicelease dev" in other.stderr
    shutil.rmtree(data)


def test_a_run_with_a_data_dir_takes_its_demo_tenants_away(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    for attempt in ("one", "two"):
        with dev(tmp_path / attempt, *["--tenants", "5", "--messages", "50", "--json", "--data-dir"], data) as run:
            assert run.wait_end() == 0, run.stderr
            assert run.result()["processed"] == 50
    with dev(tmp_path / "three", "--no-demo", "--data-dir", data) as run:
        call = [grpcurl_path(), "-plaintext", run.address, "slicelease.v1.AdminService/ListTenants"]
        done = subprocess.run(call, check=True, capture_output=True, text=True, timeout=30)
        assert json.loads(done.stdout) == {}


def test_health_says_serving_and_not(tmp_path: Path) -> None:
    def health(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([slicelease_path(), "health", *args], check=False, capture_output=True, text=True, timeout=30)

    with dev(tmp_path, "--no-demo") as run:
        address = run.address
        assert health("--control-plane", address).stdout == f"{address} SERVING\n"
        for service in ("slicelease.redis", "slicelease.rabbitmq", "slicelease.ledger"):
            assert health("--control-plane", address, "--service", service).returncode == 0
        unknown = health("--control-plane", address, "--service", "nothing")
        assert (unknown.returncode, unknown.stderr) == (1, f"{address} UNKNOWN_SERVICE\n")
    gone = health("--control-plane", f"{address}", "--timeout", "0.5")
    assert (gone.returncode, gone.stderr) == (1, f"{address} NO_ANSWER\n")
