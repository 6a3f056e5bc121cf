"""Work: who publishes how much, what its handlers do, and what they stumble over.

May know queues, bodies and the record. May not know the runtime or the ledger's rules. A body says its fate:
`o` goes well, `f` fails at its first attempt, `a` at each, `r` is rejected, `k` kills its process the first two times.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable
from itertools import accumulate
from random import Random

import trio

from slicelease.control_plane.domain.names import QueueKey
from slicelease.worker import Reject, SliceWorker, Work

from .process import SimProcess
from .record import Record, number_of
from .shape import Shape

_ZIPF = 0.8
"""Exponent: of 1,000 tenants the busiest has a fifteenth of all work, the last a four-thousandth."""
_FATES = ("o", "f", "r", "a", "k")
_FATE_WEIGHTS = (96_000, 3_000, 600, 380, 20)


class HandlerFailedError(Exception):
    """What the handlers raise."""


class Load:
    """Draws what is published."""

    def __init__(self, shape: Shape, dice: Random, keys: list[QueueKey]) -> None:
        self._dice = dice
        self._keys = keys
        self._shape = shape
        self._weights = list(accumulate((rank + 1) ** -_ZIPF for rank in range(len(keys))))

    def pause_s(self, publishers: int) -> float:
        """Until one of so many publishers has the next burst."""
        shape = self._shape
        return self._dice.expovariate(shape.messages / shape.burst / shape.publish_s / publishers)

    def key(self) -> QueueKey:
        return self._keys[bisect(self._weights, self._dice.random() * self._weights[-1])]

    def burst(self) -> int:
        """Geometric; the mean is that of the shape."""
        return 1 + int(self._dice.expovariate(1 / (self._shape.burst - 0.5)))

    def fate(self) -> str:
        return self._dice.choices(_FATES, _FATE_WEIGHTS)[0]


def make_app(process: SimProcess, record: Record, shape: Shape, kill: Callable[[SimProcess], None]) -> SliceWorker:
    """The application of one process. The first message of a slice takes time, and now and then another."""
    app, dice = SliceWorker(), process.dice

    async def work_on(work: Work, number: int, fate: str) -> str:
        if work.fencing_token != process.slice_token or dice.random() < 0.01:
            process.slice_token = work.fencing_token
            await trio.sleep(dice.expovariate(1 / shape.work_s) if dice.random() < 0.98 else 20 * dice.random())
        if process.dead:
            await trio.sleep_forever()
        if fate == "k" and record.starts[number] <= 2:
            kill(process)
            await trio.sleep_forever()
        if fate == "a" or (fate == "f" and work.attempt == 1):
            return "failed"
        return "rejected" if fate == "r" else "finished"

    @app.handler
    async def handle(work: Work) -> None:
        if process.dead:
            await trio.sleep_forever()
        _, place, fate, _ = work.payload.decode().split(" ")
        number, how = number_of(work.payload), "cancelled"
        record.started(process, work, number, int(place))
        try:
            how = await work_on(work, number, fate)
        finally:
            record.ended(process, work, number, "killed" if process.dead else how)
        if how == "failed":
            raise HandlerFailedError
        if how == "rejected":
            raise Reject("as its fate says")

    return app
