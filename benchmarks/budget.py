"""What a slice costs in calls, frames and writes: figures that no machine changes, held to benchmarks/budget.json.

`python -m benchmarks.budget` fails when a figure is above its committed one; `--update` writes what was found. A fixed small run
on private servers: one slot drains one queue in slices of 20, and what eight whole slices in its midst cost is counted; then one
grant, and chains of settle and grant, in the ledger alone.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import redis
import structlog
import trio
from pydantic import SecretStr

from benchmarks.world import BODY, CELL, fill, publish_one_each
from slicelease.control_plane.app import serve
from slicelease.control_plane.config import ControlPlaneSettings
from slicelease.control_plane.domain.commands import (
    Acquire,
    Command,
    CreateClass,
    EndReason,
    Renew,
    Settle,
    SlotRequest,
    Totals,
    Touch,
)
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.outcomes import Granted, Outcome, Settled
from slicelease.control_plane.domain.policy import ClassPolicy, LedgerConfig, TenantPolicy
from slicelease.control_plane.ports import Ledger
from slicelease.control_plane.redis_ledger import RedisLedger
from slicelease.worker import SliceWorker, Work, amqp
from slicelease.worker.amqp_broker import AmqpBroker
from slicelease.worker.app import work
from slicelease.worker.config import WorkerSettings
from tests.e2e.processes import serving
from tests.servers import RabbitMQ, Redis, wait_for

BUDGET = Path(__file__).with_name("budget.json")
SLICE, FIRST, LAST = 20, 2, 10
"""Messages in a slice; the first and last slice between whose beginnings is counted."""
CHAINS = 50
QUEUE = QueueKey("acme", "default")


def main(*, update: bool) -> int:
    found = _slices() | _commands()
    if update:
        BUDGET.write_text(json.dumps(found, indent=2) + "\n")
        print(f"{BUDGET} holds what was found now: {found}")
        return 0
    budget: dict[str, float] = json.loads(BUDGET.read_text())
    for name in budget.keys() | found.keys():
        if name not in budget or name not in found:
            print(f"{name}: only in {'the budget' if name in budget else 'this run'}")
    above = [name for name, value in found.items() if value > budget.get(name, 0)]
    for name, value in found.items():
        verdict = "ABOVE" if name in above else "below: lower the budget" if value < budget[name] else "as committed"
        print(f"{name:48} {value:8.2f}  budget {budget.get(name, 0):8.2f}  {verdict}")
    if above or budget.keys() != found.keys():
        print("\nA slice costs more than before. If it must, say why in the commit, and: python -m benchmarks.budget --update")
        return 1
    return 0


# ---- a worker's slices ---------------------------------------------------------------------------------------------------


@dataclass
class CountingLedger:
    """Counts the steps that carry lease calls; those of the loops depend on time."""

    inner: Ledger
    lease_steps: int = 0

    async def execute(self, commands: Sequence[Command]) -> list[Outcome]:
        self.lease_steps += any(isinstance(command, Acquire | Settle | Renew) for command in commands)
        return await self.inner.execute(commands)


@dataclass
class Counts:
    """What is counted, read at the beginning of a slice."""

    ledger: CountingLedger
    broker: AmqpBroker
    seen: list[dict[str, int]] = field(default_factory=list)
    exchanges: Any = None

    def read(self) -> None:
        link = self.broker.statistics()
        self.seen.append(
            {
                "ledger calls a slice": self.ledger.lease_steps,
                "RPCs a slice": self.exchanges(),
                "AMQP frames sent a slice": link.frames_sent,
                "AMQP frames received a slice": link.frames_received,
                "AMQP writes a slice": link.sends,
            }
        )

    def a_slice(self) -> dict[str, float]:
        first, last = self.seen
        found = {name: (last[name] - first[name]) / (LAST - FIRST) for name in first}
        return found | {"AMQP writes a message": found["AMQP writes a slice"] / SLICE}


def _slices() -> dict[str, float]:
    structlog.configure(processors=[lambda *_: (_ for _ in ()).throw(structlog.DropEvent)])
    with RabbitMQ() as rabbitmq, Redis() as store:
        ledger = CountingLedger(
            RedisLedger(store.url, CELL, LedgerConfig(first_lease_ms=60_000, lease_ms=60_000, open_when_new=True))
        )
        with _control_plane(rabbitmq.url, store.url, ledger) as address:
            publish_one_each(address, [QUEUE.tenant], BODY)
            fill(rabbitmq.url, [f"work.{QUEUE.tenant}"], SLICE * (LAST + 1))
            return trio.run(_drain, rabbitmq.url, address, ledger)


async def _drain(url: str, address: str, ledger: CountingLedger) -> dict[str, float]:
    where = amqp.ConnectionParameters.from_url(url)
    broker = AmqpBroker(where, heartbeat_s=5, name="budget", random_number=lambda: 0.5)
    app, counts, stop, number = SliceWorker(), Counts(ledger, broker), trio.Event(), 0

    @app.handler
    async def handle(_: Work) -> None:
        nonlocal number
        number += 1
        if number in (SLICE * FIRST + 1, SLICE * LAST + 1):
            counts.read()
        if number == SLICE * LAST + 1:
            stop.set()

    settings = WorkerSettings(amqp_url=url, control_plane=address, slots=1)  # type: ignore[arg-type]
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            runtime = await nursery.start(partial(work, settings, app, broker=broker, stop=stop))
            counts.exchanges = lambda: int(_sample(runtime, "slicelease_worker_lease_exchanges_total"))
    return counts.a_slice()


def _sample(runtime: Any, name: str) -> float:
    value: float | None = runtime.metrics.registry.get_sample_value(name)
    assert value is not None, name
    return value


@contextmanager
def _control_plane(amqp_url: str, redis_url: str, ledger: Ledger) -> Iterator[str]:
    """A control plane in a thread of this process, so that what it asks of the ledger can be counted."""
    settings = ControlPlaneSettings(
        amqp_url=SecretStr(amqp_url), redis_url=SecretStr(redis_url), cell=CELL, listen="127.0.0.1:0", metrics_listen=None,
        unknown_tenants="create", new_ledger="open", reconcile_period=timedelta(hours=1),
    )  # fmt: skip
    ready, address, handles = threading.Event(), list[str](), list[tuple[asyncio.AbstractEventLoop, asyncio.Event]]()

    def bound(to: str) -> None:
        address.append(to)
        ready.set()

    async def run() -> None:
        stop = asyncio.Event()
        handles.append((asyncio.get_running_loop(), stop))
        await serve(settings, ledger=ledger, on_ready=bound, stop=stop)

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    assert ready.wait(20), "the control plane does not start"
    try:
        wait_for(lambda: serving(address[0]), 20, "the control plane is ready")
        yield address[0]
    finally:
        loop, stop = handles[0]
        loop.call_soon_threadsafe(stop.set)
        thread.join()


# ---- commands of the store -----------------------------------------------------------------------------------------------


def _commands() -> dict[str, float]:
    with Redis(unix=True) as store:
        return asyncio.run(_count_commands(store.url))


async def _count_commands(url: str) -> dict[str, float]:
    config = LedgerConfig(first_lease_ms=60_000, lease_ms=60_000, open_when_new=True)
    ledger, stats = await RedisLedger.connect(url, CELL, config), redis.Redis.from_url(url)
    await ledger.execute([CreateClass("standard", ClassPolicy(target_wait_ms=10_000))])
    await ledger.execute([Touch(QueueKey(f"t{number}", "default"), TenantPolicy("standard")) for number in range(20)])
    requests = (SlotRequest("budget", 0, n, f"{n:032x}") for n in range(1, CHAINS + 2))
    before = _script_commands(stats)
    (granted,) = await ledger.execute([Acquire(next(requests), ("standard",))])
    assert isinstance(granted, Granted), granted
    grant = _script_commands(stats) - before
    for request in requests:
        settle = Settle(request, granted.lease, EndReason.MESSAGES, Totals(messages=20), want_next=True, classes=("standard",))
        (settled,) = await ledger.execute([settle])
        assert isinstance(settled, Settled), settled
        assert settled.next is not None, settled
        granted = settled.next
    chains = _script_commands(stats) - before - grant
    stats.close()
    await ledger.close()
    return {"Redis commands a grant": float(grant), "Redis commands a settle and grant": chains / CHAINS}


def _script_commands(stats: Any) -> int:
    """Commands so far that were called from the library; what the client itself calls is left out."""
    ours = {"cmdstat_fcall", "cmdstat_info", "cmdstat_hello", "cmdstat_client|setinfo", "cmdstat_function|load", "cmdstat_select"}
    return sum(row["calls"] for name, row in stats.info("commandstats").items() if name not in ours)


if __name__ == "__main__":
    sys.exit(main(update="--update" in sys.argv))
