"""Records how long ago its message was published: the payload is the publisher's monotonic clock in ns; "0" is background."""

from __future__ import annotations

import os
import time

from benchmarks.world import leave_record
from slicelease.worker import SliceWorker, Work

app = SliceWorker()
_took_s: list[float] = []
_TOTAL = int(os.environ["BENCH_TOTAL"])


@app.handler
async def handle(work: Work) -> None:
    published_ns = int(work.payload)
    if published_ns:
        _took_s.append((time.monotonic_ns() - published_ns) / 1e9)
        if len(_took_s) == _TOTAL:
            leave_record(_took_s)
