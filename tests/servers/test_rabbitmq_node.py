"""The life of a private RabbitMQ node: data over restarts, freezing, vhosts, alarms, plugins, TLS, timeouts."""

import base64
import json
import socket
import ssl
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import aio_pika
import pytest
import trustme

from tests.servers import RabbitMQ, ServerError, TlsFiles, wait_for, wait_for_asyncio

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    folder, authority = tmp_path_factory.mktemp("tls"), trustme.CA()
    issued = authority.issue_cert("localhost")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    issued.cert_chain_pems[0].write_to_path(folder / "certificate.pem")
    issued.private_key_pem.write_to_path(folder / "key.pem")
    return TlsFiles(folder / "ca.pem", folder / "certificate.pem", folder / "key.pem")


@pytest.fixture(scope="module")
def node(tls: TlsFiles) -> Iterator[RabbitMQ]:
    with RabbitMQ(management=True, consumer_timeout_ms=4000, tls=tls, conf={"heartbeat": "7"}) as server:
        yield server


def management(node: RabbitMQ, path: str) -> dict[str, object]:
    request = urllib.request.Request(f"{node.management_url}{path}")
    request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
    with urllib.request.urlopen(request, timeout=20) as answer:
        found: dict[str, object] = json.load(answer)
    return found


def test_the_management_api_answers_when_asked_for(node: RabbitMQ) -> None:
    assert management(node, "/api/overview")["node"] == node.node


def test_settings_arrive(node: RabbitMQ) -> None:
    assert node.eval("application:get_env(rabbit, consumer_timeout)") == "{ok,4000}"
    assert node.eval("application:get_env(rabbit, channel_tick_interval)") == "{ok,1000}"
    assert node.eval("application:get_env(rabbit, heartbeat)") == "{ok,7}"


def test_the_tls_listener_shows_its_certificate(node: RabbitMQ, tls: TlsFiles) -> None:
    context = ssl.create_default_context(cafile=str(tls.ca))
    with (
        socket.create_connection(("localhost", node.amqps_port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        secure.sendall(b"AMQP\x00\x00\x09\x01")
        assert secure.recv(1) == b"\x01"


def test_eval_tells_values_and_exceptions(node: RabbitMQ) -> None:
    assert node.eval('{1 + 1, [a, <<"b">>]}') == '{2,[a,<<"b">>]}'
    assert node.eval_json('#{<<"a">> => [1, true]}') == {"a": [1, True]}
    with pytest.raises(ServerError, match="badarith"):
        node.eval("1 / (1 - 1)")
    assert node.eval("X = 1, X") == node.eval("X = 1, X")  # nothing stays bound


@pytest.mark.asyncio
async def test_durable_messages_survive_restart_and_crash(node: RabbitMQ) -> None:
    vhost = node.new_vhost()
    async with await aio_pika.connect(node.vhost_url(vhost)) as connection:
        channel = await connection.channel()
        await channel.declare_queue("kept", durable=True)
        message = aio_pika.Message(b"x", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await channel.default_exchange.publish(message, routing_key="kept")
    node.restart()
    assert node.queue_depths(vhost) == {"kept": 1}
    node.kill()
    node.start()
    wait_for(lambda: node.queue_depths(vhost) == {"kept": 1}, 10, "the message is there")
    assert vhost in node.ctl("list_vhosts")
    node.delete_vhost(vhost)
    assert vhost not in node.ctl("list_vhosts")


@pytest.mark.asyncio
async def test_the_server_closes_the_connections_of_one_vhost(node: RabbitMQ) -> None:
    first, second = node.new_vhost(), node.new_vhost()
    async with await aio_pika.connect(node.vhost_url(first)) as cut, await aio_pika.connect(node.vhost_url(second)) as left:
        ends: list[str] = []
        cut.close_callbacks.add(lambda _connection, reason: ends.append(str(reason)))
        left.close_callbacks.add(lambda _connection, reason: ends.append(f"the other too: {reason}"))
        await wait_for_asyncio(lambda: node.close_connections(first) == 1, 10, "the connection is listed")
        await wait_for_asyncio(lambda: ends, 10, "the client saw the close")
        assert len(ends) == 1
        assert "closed by a test" in ends[0]


def test_the_memory_alarm_is_on_for_its_block(node: RabbitMQ) -> None:
    with node.memory_alarm():
        assert "memory" in node.eval("rabbit_alarm:get_alarms()")
    assert node.eval("rabbit_alarm:get_alarms()") == "[]"


def test_a_paused_node_keeps_its_connections_and_answers_nothing(node: RabbitMQ) -> None:
    with socket.create_connection(("127.0.0.1", node.amqp_port), timeout=0.5) as client:
        node.pause()
        client.sendall(b"AMQP\x00\x00\x09\x01")
        with pytest.raises(TimeoutError):
            client.recv(1)
        node.resume()
        client.settimeout(10)
        assert client.recv(1) == b"\x01"


def test_rabbitmqctl_failures_carry_its_text(node: RabbitMQ) -> None:
    with pytest.raises(ServerError, match="does not exist"):
        node.ctl("delete_user", "nobody")


def test_each_test_has_a_vhost_of_its_own(amqp_url: str, vhost: str, rabbitmq: RabbitMQ) -> None:
    assert amqp_url.endswith(f"/{vhost}")
    assert rabbitmq.queue_depths(vhost) == {}


def test_the_shared_node_has_no_plugins(rabbitmq: RabbitMQ) -> None:
    assert rabbitmq.eval("rabbit_plugins:active()") == "[]"
    assert Path(rabbitmq.folder, "enabled_plugins").read_text() == "[].\n"
