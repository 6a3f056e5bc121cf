"""No-op work, counted."""

from __future__ import annotations

from benchmarks.peers.count import Count
from slicelease.worker import SliceWorker, Work

app = SliceWorker()
_count = Count()


@app.handler
async def handle(_: Work) -> None:
    _count.tick()
