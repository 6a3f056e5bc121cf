"""The RabbitMQ adapter over TLS, on the event loop that the control plane uses."""

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
import uvloop

from slicelease.control_plane.broker import RabbitBroker
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.policy import QueueType
from slicelease.control_plane.ports import WorkMessage
from tests.servers import RabbitMQ, TlsFiles, wait_for_asyncio

pytestmark = pytest.mark.servers

ACME = QueueKey("acme", "default")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    folder: Path = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    files = TlsFiles(ca=folder / "ca.pem", certificate=folder / "cert.pem", key=folder / "key.pem")
    authority.cert_pem.write_to_path(str(files.ca))
    certificate.private_key_pem.write_to_path(str(files.key))
    files.certificate.write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    return files


@pytest.fixture(scope="module")
def node(files: TlsFiles) -> Iterator[RabbitMQ]:
    with RabbitMQ(tls=files) as server:
        yield server


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(coroutine)


def test_everything_goes_through_tls(node: RabbitMQ, files: TlsFiles) -> None:
    async def scenario() -> None:
        async with RabbitBroker(f"{node.amqps_url}?cafile={files.ca}") as broker:
            await wait_for_asyncio(lambda: broker.unready_reason() is None, 20, "the broker is ready")
            await broker.declare_work_queue(ACME, QueueType.CLASSIC)
            await asyncio.gather(*(broker.publish_work(ACME, WorkMessage(b"x" * 200_000, f"m-{n}", "c")) for n in range(20)))
            assert await broker.message_counts([ACME]) == {ACME: 20}

    run(scenario())


def test_a_certificate_that_is_not_trusted_is_said(node: RabbitMQ) -> None:
    async def scenario() -> None:
        async with RabbitBroker(node.amqps_url) as broker:
            await wait_for_asyncio(lambda: broker.unready_reason() == "TLS with RabbitMQ failed", 20, "it says why")

    run(scenario())
