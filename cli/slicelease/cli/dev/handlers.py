"""The handlers of `slicelease dev`.

May live here: what a demo message and anybody else's message is met with. May not know: who runs the handlers.
"""

from __future__ import annotations

import structlog
import trio

from slicelease.worker import SliceWorker, Work

from .journal import Journal
from .load import MESSAGE_TYPE, read_payload

_log = structlog.get_logger("slicelease.dev")


def demo_app(journal: Journal, work_ms: int) -> SliceWorker:
    """Takes `work_ms` for each message and writes our own into the journal; others are logged."""
    app = SliceWorker()
    work_s = work_ms / 1_000

    @app.handler(type=MESSAGE_TYPE)
    async def demo(work: Work) -> None:
        read = read_payload(work.payload)
        if read is None or read[0] not in journal.tenants or read[0] != work.tenant:
            _log_work(work)
            return
        journal.was_started(*read)
        if work_s:
            await trio.sleep(work_s)
        journal.was_finished(*read)

    _add_logging_handler(app, work_s)
    return app


def logging_app(work_ms: int) -> SliceWorker:
    """Logs every message."""
    app = SliceWorker()
    _add_logging_handler(app, work_ms / 1_000)
    return app


def _add_logging_handler(app: SliceWorker, work_s: float) -> None:
    @app.handler
    async def log(work: Work) -> None:
        if work_s:
            await trio.sleep(work_s)
        _log_work(work)


def _log_work(work: Work) -> None:
    _log.info(
        "message handled",
        tenant=work.tenant,
        queue=work.queue,
        message_id=work.message_id,
        correlation_id=work.correlation_id,
        type=work.type,
        bytes=len(work.payload),
        attempt=work.attempt,
    )
