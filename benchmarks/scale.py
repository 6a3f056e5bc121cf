"""Whether a grant costs more when more tenants are known: 100 against 100,000, the latter with 1,000 busy.

`python -m benchmarks.scale [tenants]`: leases through ExchangeLeases, 16 asking; the tenants are made in the ledger alone.
"""

from __future__ import annotations

import sys

import redis
import trio

from benchmarks.choices.grpc_ways import WAYS
from benchmarks.lease_chains import closed_loop, first_leases, make_busy
from benchmarks.ledger_state import execute
from benchmarks.record import Target, publish, spread_ms
from benchmarks.world import LONG_LEASES, tenants, world
from slicelease.control_plane.domain.commands import Command, CreateTenant
from slicelease.control_plane.domain.policy import TenantPolicy

FEW, BUSY, ASKING, MEASURED_S = 100, 1_000, 16, 4.0

Figures = dict[str, float]


def main(many: int) -> None:
    few, lots = _measure(FEW, FEW), _measure(many, min(BUSY, many))
    rows = {f"{FEW} tenants known and busy": few, f"{many} tenants known, {min(BUSY, many)} busy": lots}
    ratio = Target(f"p50 with {many} tenants / with {FEW}", lots["p50 ms"] / few["p50 ms"], 1.5, at_most=True)
    publish("scale", "Many tenants known", rows, [ratio])


def _measure(known: int, busy: int) -> Figures:
    with world(**LONG_LEASES) as running:
        names = tenants(known)
        made: list[Command] = [CreateTenant(name, TenantPolicy("standard")) for name in names]
        execute(running, made)
        make_busy(running, names[:busy])
        took_s = trio.run(_chains, running.plane.address)
        store = redis.Redis.from_url(running.redis.url)
        memory_mb = float(store.info("memory")["used_memory"]) / 2**20
        store.close()
    return {"leases/s": len(took_s) / MEASURED_S, **spread_ms(took_s), "Redis MB": memory_mb}


async def _chains(address: str) -> list[float]:
    slots = first_leases(address, ASKING)
    async with WAYS["batcher"](address) as ask:
        await closed_loop(ask, slots, 0.5)
        return await closed_loop(ask, slots, MEASURED_S)


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 100_000)
