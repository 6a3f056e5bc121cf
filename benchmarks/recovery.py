"""How long the queues of a worker that was killed with -9 wait until another serves them again.

`python -m benchmarks.recovery`: work that takes a while on 8 queues; two workers, one is killed in the middle of its slices. The
queues keep their order, so each waits until the dead worker's link can hold nothing any more.
"""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.record import Target, publish
from benchmarks.world import World, publish_one_each, tenants, world
from tests.e2e.record import Record
from tests.servers import wait_for

QUEUES, EACH, WORK_S = 8, 200, "0.1"
BOUND_S = 15 + 16 + 1.0
"""Of the defaults: lease length, then H for what the dead link may still hold (docs/adr/0007), and a second."""


def main() -> None:
    with world() as running:
        names = tenants(QUEUES)
        publish_one_each(running.plane.address, names, b"0")
        _number(running, names)
        rows = {"killed while working": _kill_one(running)}
    publish(
        "recovery",
        "Served again after kill -9",
        rows,
        [Target("longest wait, s", rows["killed while working"]["longest s"], BOUND_S, at_most=True)],
    )


def _number(running: World, names: list[str]) -> None:
    for number in range(1, EACH):
        publish_one_each(running.plane.address, names, str(number).encode())


def _kill_one(running: World) -> dict[str, float]:
    record = Record(Path(running.redis.folder, "record"))
    env = {"RECORD": str(record.path), "WORK_S": WORK_S}
    with running.worker("recording", **env) as doomed:
        wait_for(lambda: len({mark.tenant for mark in record.marks()}) == QUEUES, 30, "every queue is served")
        dead = doomed.pid
        with running.worker("recording", **env):
            killed_at = time.monotonic()
            doomed.kill()
            waits = _served_again(record, dead, killed_at)
    return {"shortest s": min(waits), "longest s": max(waits), "messages repeated": float(_repeats(record, dead))}


def _served_again(record: Record, dead: int, killed_at: float) -> list[float]:
    waits: dict[str, float] = {}

    def look() -> bool:
        for mark in record.marks():
            if mark.pid != dead:
                waits.setdefault(mark.tenant, time.monotonic() - killed_at)
        return len(waits) == QUEUES

    wait_for(look, 60, "every queue is served again")
    return list(waits.values())


def _repeats(record: Record, dead: int) -> int:
    """Messages that the dead worker had begun and another began again."""
    begun = [{(mark.tenant, mark.number) for mark in record.marks() if (mark.pid == dead) is died} for died in (True, False)]
    return len(begun[0] & begun[1])


if __name__ == "__main__":
    main()
