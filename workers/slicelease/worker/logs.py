"""The worker's log: structured lines on standard error, of our own events and of the application's, secrets masked.

May live here: how a line is made. May not know: what is logged. No payload is ever given to a log.
"""

from __future__ import annotations

import logging
import re
import sys
from typing import TextIO
from urllib.parse import quote

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

_CREDENTIALS = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)[^\s\"'<>]*@")
_LEAST_SECRET = 3
"""Shorter passwords would mask half of every line."""
MOST_TRACE_CHARACTERS = 16_384
"""Of an exception in a line; a message in its text would be logged at every attempt. The end, which says what it was, stays."""


class Masker:
    """Hides credentials in URLs, and the broker's password wherever it stands in a text."""

    def __init__(self, password: str = "") -> None:
        forms = {password, quote(password, safe="")}
        self._secrets = sorted((form for form in forms if len(form) >= _LEAST_SECRET), key=len, reverse=True)

    def __call__(self, _logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        """A structlog processor."""
        return {key: value if key in ("_record", "_from_structlog") else self._masked(value) for key, value in event.items()}

    def _masked(self, value: object) -> object:
        if value is None or isinstance(value, bool | int | float):
            return value
        text = value if isinstance(value, str) else str(value)
        if "@" in text:
            text = _CREDENTIALS.sub(r"\g<scheme>***@", text)
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


def shorten_trace(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """A structlog processor: cuts the middle out of a formatted exception that is too long."""
    trace = event.get("exception")
    if isinstance(trace, str) and len(trace) > MOST_TRACE_CHARACTERS:
        half = MOST_TRACE_CHARACTERS // 2
        event["exception"] = f"{trace[:half]}\n... {len(trace) - 2 * half} characters left out ...\n{trace[-half:]}"
    return event


def configure_logs(form: str, level: str, *, password: str = "", stream: TextIO | None = None) -> None:
    """Sends all logs through one chain; `form` is json or console."""
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
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.PositionalArgumentsFormatter(), *shared],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                Masker(password),
                shorten_trace,
                _renderer(form),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def _renderer(form: str) -> Processor:
    if form == "console":
        return structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    return structlog.processors.JSONRenderer(ensure_ascii=False)
