"""The RabbitMQ permissions that the pages give are enough, with each part under a user of its own.

The regular expressions are read from the page, so that page and test cannot differ.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from slicelease.v1 import admin_service_pb2, admin_service_pb2_grpc, work_service_pb2, work_service_pb2_grpc
from tests.e2e.processes import ControlPlane, Worker
from tests.servers import RabbitMQ, wait_for

pytestmark = pytest.mark.servers

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "deploy.md"
_LINE = re.compile(r"^rabbitmqctl set_permissions -p slicelease (?P<user>\S+) '(.+)' '(.+)' '(.+)'$", re.MULTILINE)


def permissions() -> dict[str, tuple[str, ...]]:
    """By user, as the page gives them: configure, write, read."""
    return {found["user"]: found.groups()[1:] for found in _LINE.finditer(PAGE.read_text())}


@pytest.fixture
def node() -> Iterator[RabbitMQ]:
    with RabbitMQ() as server:
        server.eval('rabbit_vhost:add(<<"slicelease">>, <<"test">>)')
        for user, expressions in permissions().items():
            server.eval(f'rabbit_auth_backend_internal:add_user(<<"{user}">>, <<"secret">>, <<"test">>)')
            arguments = ", ".join(f"<<{json.dumps(text)}>>" for text in (user, "slicelease", *expressions, "test"))
            server.eval(f"rabbit_auth_backend_internal:set_permissions({arguments})")
        yield server


def publish(address: str, tenant: str, kind: str, queue: str = "default") -> None:
    with grpc.insecure_channel(address) as channel:
        request = work_service_pb2.PublishWorkRequest(queue=f"tenants/{tenant}/queues/{queue}", type=kind, payload=b"{}")
        work_service_pb2_grpc.WorkServiceStub(channel).PublishWork(request, timeout=10)


def delete_tenant(address: str, tenant: str) -> None:
    with grpc.insecure_channel(address) as channel:
        request = admin_service_pb2.DeleteTenantRequest(name=f"tenants/{tenant}", force=True)
        admin_service_pb2_grpc.AdminServiceStub(channel).DeleteTenant(request, timeout=10)


def test_the_page_gives_each_part_a_user_and_three_expressions() -> None:
    assert sorted(permissions()) == ["slicelease-control-plane", "slicelease-worker"]


def test_work_dead_letters_and_deletion_go_through_with_the_pages_permissions(
    node: RabbitMQ, redis_url: str, cell: str, tmp_path: Path
) -> None:
    def url(user: str) -> str:
        return f"amqp://{user}:secret@127.0.0.1:{node.amqp_port}/slicelease"

    def depths() -> dict[str, int]:
        return node.queue_depths("slicelease")

    settings = {"SLICELEASE_UNKNOWN_TENANTS": "create"}
    with (
        ControlPlane(url("slicelease-control-plane"), redis_url, cell, settings) as plane,
        Worker(url("slicelease-worker"), plane.address, "examples.invoices:app") as worker,
    ):
        publish(plane.address, "acme", "nobody.knows")
        wait_for(lambda: depths().get("dead.acme") == 1, 20, "what no handler takes is dead-lettered")
        node.eval(_RAISE_NONSENSE)
        wait_for(lambda: depths().get("dead.unsorted") == 1, 20, "what is no attention is set apart")
        delete_tenant(plane.address, "acme")
        assert "work.acme" not in depths()
        assert depths()["attention.standard"] == 0
        said = plane.log_tail(1_000_000) + worker.log_tail(1_000_000)
    assert "ACCESS_REFUSED" not in said
    assert "refused a call" not in said


_RAISE_NONSENSE = (
    'X = rabbit_misc:r(<<"slicelease">>, exchange, <<"attention.exchange">>),'
    'M = rabbit_basic:message(X, <<"work">>, [], <<"no json">>),'
    "rabbit_basic:publish(rabbit_basic:delivery(false, false, M, undefined))"
)
"""A producer's message, published inside the node: no further user is needed."""
