"""AMQP URLs: what is read, what is refused, and that no error shows a piece of them (field trial S04)."""

import traceback

import pytest

from slicelease.worker.amqp import ConnectionParameters, UrlError


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("amqp://", ConnectionParameters()),
        ("amqp://h", ConnectionParameters(host="h")),
        ("amqp://h/", ConnectionParameters(host="h")),
        ("amqp://h/%2F", ConnectionParameters(host="h")),
        ("amqp://h/v%2Fw", ConnectionParameters(host="h", vhost="v/w")),
        ("amqps://h", ConnectionParameters(host="h", port=5671, tls=True)),
        ("amqp://u:p%40%2F%3A@h:1234/v", ConnectionParameters("h", 1234, "u", "p@/:", "v")),
        ("amqp://u@[::1]:7/v", ConnectionParameters("::1", 7, "u", "guest", "v")),
        ("AMQP://H", ConnectionParameters(host="h")),
    ],
)
def test_urls(url: str, expected: ConnectionParameters) -> None:
    assert ConnectionParameters.from_url(url) == expected


@pytest.mark.parametrize(
    "url",
    [
        "",
        "h:5672",
        "http://u:Pa55word@h",
        "amqp://u:Pa55word/x@h",
        "amqp://u:Pa55word?x@h",
        "amqp://u:Pa55word#x@h",
        "amqp://u:1/Pa55word@h",
        "amqp://u:Pa55word@h:port",
        "amqp://u:Pa55word@h:99999",
        "amqp://u:Pa55word@h:0",
        "amqp://u:Pa55word@h/v?heartbeat=5",
        "amqp://u:Pa55word@h/v/w",
        "amqp://u:Pa55word@[h/v",
        "amqp://u:Pa55word @h/v",
        "amqp://u:Pa55word%00@h/v",
        "amqp://u:Pa55word%ff@h/v",
        "amqp://u:Pa55word@h/" + "v" * 128,
    ],
)
def test_bad_urls_are_refused_without_being_quoted(url: str) -> None:
    with pytest.raises(UrlError) as caught:
        ConnectionParameters.from_url(url)
    shown = "".join(traceback.format_exception(caught.value))
    shown = "".join(line for line in shown.splitlines() if "in from_url" not in line)
    assert "Pa55word" not in shown
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_parameters_never_show_the_password() -> None:
    assert "Pa55word" not in repr(ConnectionParameters.from_url("amqp://u:Pa55word@h"))
    assert ConnectionParameters(host="::1").address == "[::1]:5672"
