"""Leases a second and their latency through one control plane process: unary calls against ExchangeLeases, from Trio tasks.

`python -m benchmarks.lease_calls`: real Redis and RabbitMQ; every call settles a lease and gets the next.
"""

from __future__ import annotations

import trio

from benchmarks.choices.grpc_ways import WAYS
from benchmarks.lease_chains import Slot, closed_loop, end_leases, first_leases, make_busy, open_loop
from benchmarks.record import Target, publish, spread_ms
from benchmarks.world import LONG_LEASES, cpu_s, tenants, world

ASKING, PER_S = (1, 16, 128), (2_000, 5_000, 8_000)
QUEUES, WARM_UP_S, MEASURED_S = 512, 0.3, 2.0
NAMES = {"bridge": "unary", "batcher": "ExchangeLeases"}

Figures = dict[str, float]


async def _measure(way: str, address: str, slots: list[Slot], pid: int) -> dict[str, Figures]:
    rows: dict[str, Figures] = {}
    async with WAYS[way](address) as ask:
        for asking in ASKING:
            await closed_loop(ask, slots[:asking], WARM_UP_S)
            used_s = cpu_s(pid)
            took_s = await closed_loop(ask, slots[:asking], MEASURED_S)
            own_us = (cpu_s(pid) - used_s) / len(took_s) * 1e6
            rows[f"{NAMES[way]}, {asking} asking"] = _figures(took_s) | {"control plane CPU µs a lease": own_us}
        for per_s in PER_S:
            took_s = await open_loop(ask, slots, per_s, MEASURED_S)
            rows[f"{NAMES[way]}, open loop {per_s}/s"] = _figures(took_s)
    return rows


def _figures(took_s: list[float]) -> Figures:
    return {"leases/s": len(took_s) / MEASURED_S, **spread_ms(took_s)}


def main() -> None:
    rows: dict[str, Figures] = {}
    with world(**LONG_LEASES) as running:
        make_busy(running, tenants(QUEUES))
        for way in NAMES:
            slots = first_leases(running.plane.address, max(ASKING))
            rows |= trio.run(_measure, way, running.plane.address, slots, running.plane.pid)
            end_leases(running.plane.address, slots)
    most = rows["ExchangeLeases, 128 asking"]["leases/s"]
    targets = [
        Target("leases/s, 128 asking", most, 15_000),
        Target("ExchangeLeases / unary, 128 asking", most / rows["unary, 128 asking"]["leases/s"], 6),
        Target("p99 ms at 5,000/s, open loop", rows["ExchangeLeases, open loop 5000/s"]["p99 ms"], 10, at_most=True),
    ]
    publish("lease_calls", "Leases through one control plane process", rows, targets)


if __name__ == "__main__":
    main()
