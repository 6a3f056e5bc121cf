"""Addresses: what a URL says, what is shown of it, what is refused."""

import pytest

from slicelease.control_plane.redis_ledger.store import Address

PASSWORD = "s3cret-p%40ss"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://localhost", "localhost:6379"),
        (f"redis://user:{PASSWORD}@db.example:7000/2", "db.example:7000"),
        (f"rediss://:{PASSWORD}@db.example", "db.example:6379"),
        (f"unix://user:{PASSWORD}@/run/redis.sock", "unix:///run/redis.sock"),
    ],
)
def test_an_address_is_shown_without_its_secrets(url: str, shown: str) -> None:
    address = Address.of(url)
    assert address.shown == shown
    assert "s3cret" not in repr(address)


def test_what_the_url_says_is_kept() -> None:
    options = Address.of(f"rediss://user:{PASSWORD}@h:1/3?ssl_ca_certs=/ca.pem").options
    assert {
        "username": "user",
        "password": "s3cret-p@ss",
        "db": 3,
        "tls": True,
        "ssl_ca_certs": "/ca.pem",
    }.items() <= options.items()


@pytest.mark.parametrize("url", [f"http://u:{PASSWORD}@h", f"h:{PASSWORD}", "", f"redis://u:{PASSWORD}@h?max_connections=4"])
def test_a_url_that_cannot_be_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(ValueError, match="Redis URL") as refused:
        Address.of(url)
    assert "s3cret" not in str(refused.value)


def test_the_way_to_another_node_keeps_the_credentials() -> None:
    home = Address.of(f"redis://user:{PASSWORD}@h:1")
    assert home.moved("other", 7001).shown == "other:7001"
    assert home.moved("", 7001).shown == "h:7001"
    assert home.moved("other", 7001).options["password"] == home.options["password"]
