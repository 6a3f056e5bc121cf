"""The AMQP client against a RabbitMQ of its own: alarms, TLS, heartbeats, consumer timeout, a node that goes."""

import ssl
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
import trio
import trustme

from slicelease.worker.amqp import (
    Backoff,
    CannotConnect,
    Connected,
    Connection,
    ConnectionLost,
    Disconnected,
    HeartbeatMissed,
    PreconditionFailed,
    keep_connected,
    open_connection,
)
from tests.servers import RabbitMQ, TlsFiles, wait_for_trio

pytestmark = pytest.mark.servers
DEADLINE_S = 15.0


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def node(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    folder: Path = tmp_path_factory.mktemp("tls")
    certificate = authority.issue_cert("localhost")
    files = TlsFiles(ca=folder / "ca.pem", certificate=folder / "cert.pem", key=folder / "key.pem")
    authority.cert_pem.write_to_path(str(files.ca))
    certificate.private_key_pem.write_to_path(str(files.key))
    with files.certificate.open("wb") as chain:
        for blob in certificate.cert_chain_pems:
            chain.write(blob.bytes())
    with RabbitMQ(tls=files, consumer_timeout_ms=1000) as server:
        yield server


@pytest.mark.trio
async def test_tls(node: RabbitMQ, authority: trustme.CA) -> None:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    async with open_connection(node.amqps_url, ssl_context=context) as connection:
        channel = await connection.open_channel()
        await channel.declare_queue("tls", exclusive=True)
        await channel.publish("", "tls", b"x" * 300_000)
        message = await channel.get("tls")
        assert message is not None
        assert len(message.body) == 300_000


@pytest.mark.trio
async def test_tls_without_trust_or_with_another_name_is_refused(node: RabbitMQ, authority: trustme.CA) -> None:
    with pytest.raises(CannotConnect, match=r"no TLS with localhost.*certificate verify failed"):
        async with open_connection(node.amqps_url):
            pytest.fail("opened")
    context = ssl.create_default_context()
    authority.configure_trust(context)
    with pytest.raises(CannotConnect, match="certificate verify failed"):
        async with open_connection(f"amqps://guest:guest@127.0.0.1:{node.amqps_port}", ssl_context=context):
            pytest.fail("opened")


@pytest.mark.trio
async def test_a_plain_dial_to_a_tls_port_and_the_other_way_fail_in_time(node: RabbitMQ) -> None:
    for url in (f"amqp://127.0.0.1:{node.amqps_port}", f"amqps://localhost:{node.amqp_port}"):
        with pytest.raises(ConnectionLost):
            async with open_connection(url, connect_timeout_s=3):
                pytest.fail("opened")


@pytest.mark.trio
async def test_under_a_memory_alarm_publishing_waits_and_acks_of_another_connection_go_on(node: RabbitMQ) -> None:
    """Field trial A08, the part of the client."""
    async with open_connection(node.url) as publishing, open_connection(node.url) as consuming:
        publisher, taker = await publishing.open_channel(), await consuming.open_channel()
        await taker.declare_queue("alarm", exclusive=True)
        lines = await consuming.open_channel()
        await lines.declare_queue("shared")
        for number in range(50):
            await publisher.publish("", "shared", str(number).encode())
        alarm = node.memory_alarm()
        await trio.to_thread.run_sync(alarm.__enter__)
        try:
            with trio.move_on_after(0.3) as gave_up:  # the broker says "blocked" only to who publishes
                await publisher.publish("", "shared", b"blocked")
            assert gave_up.cancelled_caught
            await wait_for_trio(lambda: publishing.blocked, DEADLINE_S, "blocked")
            assert "memory" in (publishing.blocked or "")
            for message in await lines.get_many("shared", 50):
                message.ack()
            await lines.close()
            assert consuming.closed is None
        finally:
            await trio.to_thread.run_sync(alarm.__exit__, None, None, None)
        with trio.fail_after(DEADLINE_S):
            await publishing.wait_unblocked()
            await publisher.publish("", "shared", b"after")
        assert publishing.blocked is None
        taker = await consuming.open_channel()
        bodies = [message.body for message in await taker.get_many("shared", 60)]
        assert bodies in ([b"after"], [b"blocked", b"after"])  # all 50 acks were taken
        await taker.delete_queue("shared")


@pytest.mark.trio
async def test_a_blocked_connection_still_closes_in_time(node: RabbitMQ) -> None:
    alarm = node.memory_alarm()
    await trio.to_thread.run_sync(alarm.__enter__)
    try:
        with trio.fail_after(5):
            async with open_connection(node.url) as connection:
                channel = await connection.open_channel()
                with trio.move_on_after(0.2):
                    await channel.publish("", "nowhere", b"x")
    finally:
        await trio.to_thread.run_sync(alarm.__exit__, None, None, None)


@pytest.mark.trio
async def test_the_consumer_timeout_closes_the_channel_and_no_old_tag_is_sent_again(node: RabbitMQ) -> None:
    """Field trial A01, the part of the client."""
    async with open_connection(node.url) as connection:
        channel = await connection.open_channel()
        await channel.declare_queue("slow", exclusive=True)
        await channel.publish("", "slow", b"x")
        message = await channel.get("slow")
        assert message is not None
        await wait_for_trio(lambda: channel.closed, DEADLINE_S, "the channel is closed")
        assert isinstance(channel.closed, PreconditionFailed)
        other = await connection.open_channel()
        with pytest.raises(PreconditionFailed):
            message.ack()
        again = await other.get("slow")
        assert again is not None
        assert again.redelivered


@pytest.mark.trio
async def test_heartbeats_keep_an_idle_connection_on_both_sides(node: RabbitMQ) -> None:
    async with open_connection(node.url, heartbeat_s=1) as connection:
        assert connection.state.heartbeat_s == 1
        opened, before = trio.current_time(), connection.statistics()
        await wait_for_trio(lambda: trio.current_time() - opened > 4, DEADLINE_S, "four intervals went by")
        after = connection.statistics()
        assert after.frames_sent - before.frames_sent >= 4
        assert after.frames_received - before.frames_received >= 4
        await (await connection.open_channel()).close()


@pytest.mark.trio
async def test_a_frozen_node_is_noticed_and_a_restarted_one_is_found_again() -> None:
    told: list[Connected | Disconnected] = []
    served = 0

    async def use(connection: Connection) -> None:
        nonlocal served
        await (await connection.open_channel()).declare_queue("q")
        served += 1
        await trio.sleep_forever()

    with RabbitMQ() as own:

        def dial() -> AbstractAsyncContextManager[Connection]:
            return open_connection(own.url, heartbeat_s=1, connect_timeout_s=3)

        async with trio.open_nursery() as nursery:

            async def keep() -> None:
                await keep_connected(
                    dial,
                    use,
                    random_number=lambda: 0.5,
                    backoff=Backoff(0.1, 2, 0.5),
                    on_state=told.append,
                )

            nursery.start_soon(keep)
            await wait_for_trio(lambda: served == 1, DEADLINE_S, "connected")
            own.pause()
            await wait_for_trio(lambda: len(told) >= 2, DEADLINE_S, "noticed")
            loss = told[1]
            assert isinstance(loss, Disconnected)
            assert isinstance(loss.reason, HeartbeatMissed)
            own.resume()
            await wait_for_trio(lambda: served == 2, DEADLINE_S, "found again")
            nursery.cancel_scope.cancel()
