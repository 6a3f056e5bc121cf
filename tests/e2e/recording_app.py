"""An application whose handler records starts and ends, a line each, in the file that RECORD names."""

from __future__ import annotations

import os

import trio

from slicelease.worker import SliceWorker, Work

app = SliceWorker()

_FILE = os.open(os.environ["RECORD"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
_WORK_S = float(os.environ.get("WORK_S", "0"))


@app.handler
async def handle(work: Work) -> None:
    """One short append a line: atomic, also with several processes and when one is killed."""
    mark = f"{os.getpid()} {work.tenant} {work.payload.decode()} {work.attempt} {work.fencing_token}\n".encode()
    os.write(_FILE, b"start " + mark)
    await trio.sleep(_WORK_S)
    os.write(_FILE, b"end " + mark)
