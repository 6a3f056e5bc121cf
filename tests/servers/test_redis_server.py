"""The life of a private Redis and Valkey: data over restarts, freezing, both addresses."""

from collections.abc import Callable

import pytest

from tests.servers import Redis, ServerError, Valkey, wait_for

pytestmark = pytest.mark.servers


@pytest.mark.parametrize("server_type", [Redis, Valkey])
@pytest.mark.parametrize("unix", [False, True])
def test_append_only_data_survives_restart_and_crash(server_type: Callable[..., Redis], unix: bool) -> None:
    with server_type(unix=unix, appendonly=True) as server:
        before = server.url
        assert server.command("SET kept 1") == "+OK"
        server.restart()
        assert server.command("EXISTS kept") == ":1"
        server.kill()
        assert not server.running
        server.start()
        assert server.command("EXISTS kept") == ":1"
        assert server.url == before
        server.flushall()
        assert server.command("EXISTS kept") == ":0"
    assert not server.folder.exists()


def test_nothing_is_saved_unless_asked() -> None:
    with Redis() as server:
        server.command("SET gone 1")
        server.restart()
        assert server.command("EXISTS gone") == ":0"


def test_a_paused_server_answers_after_it_is_resumed() -> None:
    with Redis() as server:
        server.pause()
        with pytest.raises(TimeoutError):
            server.command("PING")
        server.resume()
        wait_for(server.is_ready, 5, "redis answers again")


def test_settings_are_passed_on_and_a_running_server_is_not_started_twice() -> None:
    with Redis(config={"maxmemory": "5mb"}) as server:
        assert server.command("CONFIG GET maxmemory") == "*2"
        with pytest.raises(ServerError, match="runs already"):
            server.start()


def test_each_test_has_a_cell_of_its_own(redis_url: str, cell: str, redis_server: Redis) -> None:
    assert redis_url == redis_server.url
    assert redis_server.command(f"EXISTS {{{cell}}}:x") == ":0"
