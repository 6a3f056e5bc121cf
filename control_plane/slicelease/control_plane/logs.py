"""The log: structured lines on standard error, of our own events and of the libraries', with every secret masked.

May live here: how a line is made. May not know: what is logged. No payload is ever given to a log.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any, TextIO
from urllib.parse import quote, unquote, urlsplit

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

MASK = "***"
_CREDENTIALS = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)[^\s\"'<>]*@")
_LEAST_SECRET = 3
"""Shorter passwords would mask half of every line."""

_NOISY = {"aio_pika": logging.WARNING, "aiormq": logging.WARNING, "asyncio": logging.WARNING}
"""Libraries whose own levels say less, or more of the wire, than ours."""

_SAID_BY_US = ("aiormq.connection",)
"""Loggers whose lines only repeat, at each attempt, what one of ours says once; shown at the level debug."""


def secrets_in(urls: Iterable[str]) -> tuple[str, ...]:
    """The passwords of the URLs, as written, decoded and encoded, the longest first."""
    found: set[str] = set()
    for url in urls:
        password = _password(url)
        found |= {password, unquote(password), quote(unquote(password), safe="")}
    return tuple(sorted((secret for secret in found if len(secret) >= _LEAST_SECRET), key=len, reverse=True))


def _password(url: str) -> str:
    try:
        return urlsplit(url).password or ""
    except ValueError:  # not a URL after all: what stands before the host is taken for a secret
        return url.partition("://")[2].rpartition("@")[0].partition(":")[2]


class Masker:
    """A structlog processor that hides credentials in URLs, and the given secrets wherever they stand."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = tuple(secrets)

    def text(self, value: str) -> str:
        """The text without secrets."""
        if "@" in value:
            value = _CREDENTIALS.sub(rf"\g<scheme>{MASK}@", value)
        for secret in self._secrets:
            value = value.replace(secret, MASK)
        return value

    def any(self, value: Any) -> Any:
        """The value without secrets, to its depth; what is not text is shown as text only if it is no plain value."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.any(key): self.any(each) for key, each in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.any(each) for each in value]
        return value if value is None or isinstance(value, bool | int | float) else self.text(str(value))

    def __call__(self, _logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        """The event without secrets; structlog's own fields, which end in the renderer, stay as they are."""
        return {key: value if key in ("_record", "_from_structlog") else self.any(value) for key, value in event.items()}


def configure_logs(form: str, level: str, urls: Iterable[str] = (), stream: TextIO | None = None) -> None:
    """Sends all logs, ours and those of the libraries, through one chain; `form` is json or console."""
    stream = sys.stderr if stream is None else stream
    masker = Masker(secrets_in(urls))
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.PositionalArgumentsFormatter(), *shared],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                masker,
                _renderer(form),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name, least in _NOISY.items():
        logging.getLogger(name).setLevel(max(least, root.level))
    for name in _SAID_BY_US:
        logging.getLogger(name).setLevel(logging.WARNING if root.level <= logging.DEBUG else logging.CRITICAL)


def _renderer(form: str) -> Processor:
    if form == "console":
        return structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    return structlog.processors.JSONRenderer(ensure_ascii=False)
