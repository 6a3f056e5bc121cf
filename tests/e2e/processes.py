"""Our own commands as child processes, as an operator would start them. Knows no test."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.servers import ServerProcess, free_port, spawn
from tests.tools import slicelease_path


def serving(address: str, ca: Path | None = None) -> bool:
    """Whether the overall health there is SERVING; over TLS with the given authority."""
    with _channel(address, ca) as channel:
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=1)
        except grpc.RpcError:
            return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def _channel(address: str, ca: Path | None) -> grpc.Channel:
    if ca is None:
        return grpc.insecure_channel(address)
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(ca.read_bytes()))


class SliceleaseProcess(ServerProcess):
    """One `slicelease` command with an environment of its own: nothing of the test run's settings reaches it."""

    kind = "slicelease"
    stop_deadline_s = 30.0

    def __init__(self, *args: str, env: Mapping[str, str]) -> None:
        super().__init__()
        self._args = args
        own = {key: value for key, value in os.environ.items() if not key.startswith("SLICELEASE_")}
        self._env = own | dict(env)

    def spawn_process(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        """The command, its output in the log."""
        return spawn([slicelease_path(), *self._args], env=self._env, stdout=log, stderr=log)

    def end(self) -> int:
        """Ends it in an orderly way and returns its exit code."""
        process = self.process
        assert process is not None, "it does not run"
        self.stop()
        return process.returncode


class ControlPlane(SliceleaseProcess):
    """A control plane process; ready when its health says so."""

    kind = "control-plane"

    def __init__(self, amqp_url: str, redis_url: str, cell: str, settings: Mapping[str, str], ca: Path | None = None) -> None:
        self._port, self._metrics, self._ca = free_port(), free_port(), ca
        self.address = f"127.0.0.1:{self._port.number}"
        self.metrics_address = f"127.0.0.1:{self._metrics.number}"
        own = {
            "SLICELEASE_AMQP_URL": amqp_url,
            "SLICELEASE_REDIS_URL": redis_url,
            "SLICELEASE_CELL": cell,
            "SLICELEASE_LISTEN": self.address,
            "SLICELEASE_METRICS_LISTEN": self.metrics_address,
            "SLICELEASE_NEW_LEDGER": "open",
        }
        super().__init__("control-plane", env=own | dict(settings))

    def is_ready(self) -> bool:
        """Whether the overall health is SERVING."""
        return serving(self.address, self._ca)

    def release(self) -> None:
        """Gives the ports back."""
        self._port.release()
        self._metrics.release()


class Worker(SliceleaseProcess):
    """A worker process of a recording application; ready when the application was loaded."""

    kind = "worker"

    def __init__(self, amqp_url: str, control_planes: str, app: str, *args: str, **env: str) -> None:
        settings = {"SLICELEASE_AMQP_URL": amqp_url, "SLICELEASE_CONTROL_PLANE": control_planes}
        super().__init__("worker", "--app", app, *args, env=settings | env)

    def is_ready(self) -> bool:
        """Whether it says that it serves."""
        return "worker ready" in self.log_tail(1_000_000)


class Dev(SliceleaseProcess):
    """`slicelease dev`, everything embedded; ready when its health says so."""

    kind = "dev"

    def __init__(self, *args: str, **env: str) -> None:
        self._port = free_port()
        self.address = f"127.0.0.1:{self._port.number}"
        super().__init__("dev", "--listen", self.address, "--metrics-listen", "127.0.0.1:0", *args, env=env)

    def is_ready(self) -> bool:
        """Whether the overall health is SERVING."""
        return serving(self.address)

    def release(self) -> None:
        """Gives the port back."""
        self._port.release()
