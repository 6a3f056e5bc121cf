"""A state of the model in words, for traces.

May live here: words. May not know: rules.
"""

from __future__ import annotations

from tests.model import state as s
from tests.model.setting import QUEUE_NAMES
from tests.model.state import Announcement, Draft, Queue, State, Worker

_PHASES = {
    s.FREE: "is free",
    s.TICKET: "holds a ticket",
    s.GRANTED: "is being granted {queue}",
    s.ANSWERED: "has no lease",
    s.OVER: "is being granted what has ended",
    s.SLICE: "works on {queue}",
    s.EMPTY: "saw {queue} empty",
    s.ENDING: "ends {queue}",
    s.FAILING: "failed on {queue}",
    s.UNLINKED: "lost the broker on {queue}",
    s.LOST: "lost its lease on {queue}",
    s.OUTDATED: "still works on {queue}",
}


def describe(state: State) -> str:
    """Everything but what is at rest, parts apart by semicolons."""
    d = Draft.of(state)
    parts = [_queue(QUEUE_NAMES[n], queue) for n, queue in enumerate(d.queues)]
    parts += [_worker(n, worker) for n, worker in enumerate(d.workers, 1) if worker.phase != s.FREE]
    parts += [f"a dead link holds {count} of {QUEUE_NAMES[index]}" for index, count in d.strays]
    parts += [_ticket(n, announcement) for n, announcement in enumerate(d.out, 1)]
    parts += [f"{count} stale of class {priority}" for priority, count in enumerate(d.stale) if count]
    if d.closed:
        parts.append("admission closed")
    return "; ".join(parts)


def _queue(name: str, queue: Queue) -> str:
    told = [f"{name} {s.QUEUE_STATES[queue.state]}"]
    told += ["paused"] * queue.paused + ["dirty"] * queue.dirty + ["suspect"] * (queue.suspect > 0)
    told += [f"{queue.work} message"] * (queue.work > 0) + ["untold"] * (queue.gap != s.TOLD)
    return " ".join(told)


def _worker(number: int, worker: Worker) -> str:
    told = f"worker {number} {_PHASES[worker.phase].format(queue=QUEUE_NAMES[worker.queue])}"
    return told + f" with {worker.hand} in hand" * (worker.hand > 0)


def _ticket(number: int, announcement: Announcement) -> str:
    told = "published" if announcement.published else "owed"
    return f"ticket {number} of class {announcement.priority} {told}, {announcement.copies} in its queue"
