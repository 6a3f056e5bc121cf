"""The log: one JSON object a line, also for the libraries, and no secret in any of them."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from slicelease.control_plane.logs import Masker, configure_logs, secrets_in

URLS = ("amqp://user:p%40ss-word@host/v", "redis://:hunter2@host:6379/0")


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    stream = io.StringIO()
    configure_logs("json", "debug", URLS, stream)
    yield stream
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    structlog.reset_defaults()


def lines(log: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.getvalue().splitlines()]


def test_our_lines_are_objects(log: io.StringIO) -> None:
    structlog.get_logger("slicelease.test").info("something happened", tenant="acme", count=3)
    (line,) = lines(log)
    assert (line["event"], line["tenant"], line["count"], line["level"]) == ("something happened", "acme", 3, "info")
    assert line["timestamp"].endswith("Z")


def test_the_lines_of_libraries_are_objects_too(log: io.StringIO) -> None:
    logging.getLogger("some.library").warning("cannot reach %s", "host")
    (line,) = lines(log)
    assert (line["event"], line["logger"]) == ("cannot reach host", "some.library")


def refuse(text: str) -> None:
    raise ConnectionError(text)


@pytest.mark.parametrize("secret", ["hunter2", "p%40ss-word", "p@ss-word"])
def test_no_secret_comes_through_in_any_shape(log: io.StringIO, secret: str) -> None:
    """S04."""
    say = structlog.get_logger("slicelease.test")
    say.info(f"text with {secret}")
    say.info("fields", url=f"amqp://user:{secret}@host/v", deep={"a": [secret, {"b": (secret,)}]}, thing=ValueError(secret))
    logging.getLogger("some.library").error("connect to %s", f"redis://:{secret}@host")
    try:
        refuse(f"redis://:{secret}@host refused")
    except ConnectionError:
        say.exception("failed")
        logging.getLogger("some.library").exception("failed")
    assert len(lines(log)) == 5
    assert secret not in log.getvalue()


def test_credentials_are_hidden_though_nobody_named_them() -> None:
    masker = Masker()
    assert masker.text("at amqps://a:b/c@d@host:5671/v and so on") == "at amqps://***@host:5671/v and so on"
    assert masker.text("mail me@example.org") == "mail me@example.org"


def test_secrets_are_found_raw_decoded_and_encoded() -> None:
    assert set(secrets_in(["amqp://u:p%40ss@h"])) == {"p%40ss", "p@ss"}
    assert set(secrets_in(["amqp://u:p:w@h"])) == {"p:w", "p%3Aw"}
    assert secrets_in(["amqp://h", "amqp://u:ab@h", "unix:///tmp/x"]) == ()


@pytest.mark.parametrize(("level", "shown"), [("info", 0), ("debug", 1)])
def test_what_the_amqp_driver_says_at_each_attempt_is_for_debugging_only(log: io.StringIO, level: str, shown: int) -> None:
    configure_logs("json", level, URLS, log)
    logging.getLogger("aiormq.connection").error("error when creating transport")
    assert len(lines(log)) == shown
