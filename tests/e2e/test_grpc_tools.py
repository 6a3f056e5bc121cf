"""G07: grpcurl 1.8.6 and `buf curl` list, describe and call everything through reflection, in plaintext and over TLS."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from slicelease.v1 import admin_service_pb2
from tests.e2e.processes import ControlPlane
from tests.servers import RabbitMQ, Redis, wait_for
from tests.tools import buf_path, grpcurl_path

SERVICES = {"slicelease.v1.AdminService", "slicelease.v1.LeaseService", "slicelease.v1.WorkService", "grpc.health.v1.Health"}

SCRIPT: list[tuple[str, dict[str, object]]] = [
    ("CreatePriorityClass", {"priority_class_id": "gold", "priority_class": {"target_wait": "0.5s"}}),
    ("GetPriorityClass", {"name": "priorityClasses/gold"}),
    ("ListPriorityClasses", {}),
    ("UpdatePriorityClass", {"priority_class": {"name": "priorityClasses/gold", "target_wait": "0.7s"}}),
    ("CreateTenant", {"tenant_id": "acme", "tenant": {"priority_class": "priorityClasses/gold"}}),
    ("GetTenant", {"name": "tenants/acme"}),
    ("ListTenants", {"page_size": 1}),
    ("UpdateTenant", {"tenant": {"name": "tenants/acme", "weight": 50}}),
    ("CreateQueue", {"parent": "tenants/acme", "queue_id": "mail", "queue": {}}),
    ("GetQueue", {"name": "tenants/acme/queues/mail"}),
    ("ListQueues", {"parent": "tenants/-"}),
    ("UpdateQueue", {"queue": {"name": "tenants/acme/queues/mail", "slice_limits": {"max_messages": 3}}}),
    ("PauseQueue", {"name": "tenants/acme/queues/mail"}),
    ("ResumeQueue", {"name": "tenants/acme/queues/mail"}),
    ("ListLeases", {"parent": "tenants/-/queues/-"}),
    ("DeleteQueue", {"name": "tenants/acme/queues/mail"}),
    ("DeleteTenant", {"name": "tenants/acme"}),
]
"""Every admin call but RevokeLease, which needs a lease, and DeletePriorityClass, which must wait for the last lease."""


@dataclass(frozen=True)
class Tool:
    """A command line that lists, describes and calls."""

    name: str
    address: str
    ca: Path | None

    def list_services(self) -> set[str]:
        if self.name == "grpcurl":
            return set(self._run(self._grpcurl("list")).split())
        methods = self._run(self._buf("", "--list-methods")).split()
        return {method.rpartition("/")[0] for method in methods}

    def call(self, method: str, request: Mapping[str, object]) -> dict[str, object]:
        if self.name == "grpcurl":
            answer = self._run(self._grpcurl("-d", json.dumps(request), method=method))
        else:
            answer = self._run(self._buf(method, "-d", json.dumps(request)))
        return dict(json.loads(answer))

    def _grpcurl(self, *args: str, method: str = "") -> list[str]:
        security = ["-plaintext"] if self.ca is None else ["-cacert", str(self.ca)]
        before, after = (args, (method,)) if method else ((), args)
        return [grpcurl_path(), *security, *before, self.address, *after]

    def _buf(self, method: str, *args: str) -> list[str]:
        scheme = "http" if self.ca is None else "https"
        security = ["--http2-prior-knowledge"] if self.ca is None else ["--cacert", str(self.ca)]
        url = f"{scheme}://{self.address}" + (f"/{method}" if method else "")
        return [buf_path(), "curl", "--protocol", "grpc", *security, *args, url]

    def _run(self, command: list[str]) -> str:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"
        return ended.stdout


@pytest.fixture(scope="module", params=["plaintext", "TLS"])
def server(
    request: pytest.FixtureRequest, rabbitmq: RabbitMQ, redis_server: Redis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path | None]]:
    folder = tmp_path_factory.mktemp("tls")
    tls = request.param == "TLS"
    vhost = rabbitmq.new_vhost()
    settings = {"SLICELEASE_UNKNOWN_TENANTS": "create"} | (certificates(folder) if tls else {})
    ca = folder / "ca.pem" if tls else None
    with ControlPlane(rabbitmq.vhost_url(vhost), redis_server.url, f"tools-{request.param}", settings, ca) as plane:
        yield plane.address, ca
    rabbitmq.delete_vhost(vhost)


def certificates(folder: Path) -> dict[str, str]:
    """Settings that name a certificate for loopback, from an authority in ca.pem."""
    authority = trustme.CA()
    own = authority.issue_cert("127.0.0.1", "localhost")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    own.private_key_pem.write_to_path(folder / "key.pem")
    for pem in own.cert_chain_pems:
        pem.write_to_path(folder / "cert.pem", append=True)
    return {"SLICELEASE_TLS_CERT": str(folder / "cert.pem"), "SLICELEASE_TLS_KEY": str(folder / "key.pem")}


@pytest.fixture(params=["grpcurl", "buf"])
def tool(request: pytest.FixtureRequest, server: tuple[str, Path | None]) -> Tool:
    return Tool(request.param, *server)


def test_g07_the_tools_list_every_service(tool: Tool) -> None:
    assert tool.list_services() >= SERVICES


def test_g07_grpcurl_describes_every_service(server: tuple[str, Path | None]) -> None:
    address, ca = server
    security = ["-plaintext"] if ca is None else ["-cacert", str(ca)]
    for service in sorted(SERVICES):
        command = [grpcurl_path(), *security, address, "describe", service]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert f"{service} is a service" in ended.stdout, ended.stderr


def test_g07_every_admin_call_works_through_reflection(tool: Tool) -> None:
    for method, request in SCRIPT:
        tool.call(f"slicelease.v1.AdminService/{method}", request)
    tool.call("slicelease.v1.WorkService/PublishWork", {"queue": "tenants/other", "payload": "MQ=="})
    delete = {"name": "priorityClasses/gold"}
    wait_for(lambda: _deleted(tool, delete), 30, "no lease of the class is live")


def _deleted(tool: Tool, request: Mapping[str, object]) -> bool:
    try:
        tool.call("slicelease.v1.AdminService/DeletePriorityClass", request)
    except AssertionError:
        return False
    return True


def test_the_script_calls_every_admin_method() -> None:
    methods = {method.name for method in admin_service_pb2.DESCRIPTOR.services_by_name["AdminService"].methods}
    assert methods - {method for method, _ in SCRIPT} == {"RevokeLease", "DeletePriorityClass"}
