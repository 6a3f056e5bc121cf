"""`slicelease dev` on a RabbitMQ and a Redis of the user's: it works there, and leaves them as they were."""

import signal
from pathlib import Path

import pytest
import redis

from tests.e2e.dev_process import dev
from tests.servers import RabbitMQ

pytestmark = pytest.mark.servers

LOAD = ["--tenants", "20", "--messages", "1000", "--seed", "7", "--seconds", "100", "--json"]
STANDING = {"attention.work", "attention.interactive", "attention.standard", "attention.bulk", "dead.unsorted"}


def keys(redis_url: str) -> set[str]:
    """All keys of the server that are ledgers'."""
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        return set(client.scan_iter(match="*slicelease*", count=1_000))


def test_on_both_servers_it_cleans_up_behind_itself(
    tmp_path: Path, rabbitmq: RabbitMQ, vhost: str, amqp_url: str, redis_url: str
) -> None:
    before = keys(redis_url)
    with dev(tmp_path, *LOAD, "--amqp-url", amqp_url, "--redis-url", redis_url) as run:
        assert run.wait_end(120) == 0, run.stderr
        result = run.result()
    assert (result["processed"], result["lost"], result["repeated"], result["out_of_order"]) == (1_000, 0, 0, 0)
    assert "guest:guest" not in run.stderr
    depths = rabbitmq.queue_depths(vhost)
    assert set(depths) <= STANDING, "the demo's work queues are deleted"
    assert keys(redis_url) == before


@pytest.mark.parametrize("embedded", ["store", "broker"])
def test_with_one_server_the_other_part_is_embedded(
    tmp_path: Path, rabbitmq: RabbitMQ, vhost: str, amqp_url: str, redis_url: str, embedded: str
) -> None:
    before = keys(redis_url)
    given = ["--amqp-url", amqp_url] if embedded == "store" else ["--redis-url", redis_url]
    with dev(tmp_path, *LOAD, *given) as run:
        assert run.wait_end(120) == 0, run.stderr
        assert run.result()["processed"] == 1_000
    assert set(rabbitmq.queue_depths(vhost)) <= STANDING
    assert keys(redis_url) == before


def test_a_run_that_is_broken_off_takes_its_rest_away(
    tmp_path: Path, rabbitmq: RabbitMQ, vhost: str, amqp_url: str, redis_url: str
) -> None:
    before = keys(redis_url)
    slow = "--tenants 6 --messages 600 --work-ms 200 --workers 1 --slots 1 --seconds 3 --json"
    options = slow.split()  # far too much for the time
    with dev(tmp_path, *options, "--amqp-url", amqp_url, "--redis-url", redis_url) as run:
        assert run.wait_end(60) == 3, run.stderr
        result = run.result()
    assert result["lost"] == 0
    assert result["remaining"] > 0
    assert set(rabbitmq.queue_depths(vhost)) <= STANDING
    assert keys(redis_url) == before


def test_a_vhost_that_somebody_works_in_is_refused(tmp_path: Path, amqp_url: str, redis_url: str) -> None:
    servers = ["--amqp-url", amqp_url, "--redis-url", redis_url]
    with dev(tmp_path / "one", "--no-demo", *servers) as first:
        first.wait_greeting()
        with dev(tmp_path / "two", *LOAD, *servers) as second:
            assert second.wait_end(60) == 1
        assert "the vhost of --amqp-url is in use: attention.work has 1 consumers" in second.stderr
        first.signal(signal.SIGTERM)
        assert first.wait_end(30) == 0, first.stderr


def test_servers_that_are_away_are_named_without_secrets(tmp_path: Path, amqp_url: str) -> None:
    nowhere = "127.0.0.1:1"
    with dev(tmp_path / "amqp", *LOAD, "--amqp-url", f"amqp://u:hunter2@{nowhere}/") as run:
        assert run.wait_end(60) == 1
    assert "RabbitMQ cannot be used" in run.stderr
    assert "hunter2" not in run.stderr
    with dev(tmp_path / "redis", *LOAD, "--redis-url", f"redis://u:hunter2@{nowhere}/0") as run:
        assert run.wait_end(60) == 1
    assert f"Redis at {nowhere}" in run.stderr
    assert "hunter2" not in run.stderr
