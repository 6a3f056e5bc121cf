"""The same chains of leases on the specification in memory, with no store at all. Argument: commands in one step."""

from __future__ import annotations

import asyncio
import json
import sys
import time

from benchmarks.choices.ledger_chains import CONFIG, MEASURED_S, SLOTS, WARM_UP_S, chain, first_leases
from slicelease.control_plane.memory_ledger import MemoryLedger


async def main(per_step: int) -> None:
    ledger = MemoryLedger(lambda: time.time_ns() // 1_000, CONFIG)
    slots = await first_leases(ledger.execute)
    groups = [slots[start : start + per_step] for start in range(0, SLOTS, per_step)]
    await chain(ledger.execute, groups, WARM_UP_S)
    cpu_s, begin = time.process_time(), time.perf_counter()
    leases = await chain(ledger.execute, groups, MEASURED_S)
    wall_s, cpu_s = time.perf_counter() - begin, time.process_time() - cpu_s
    print(json.dumps({"leases/s": leases / wall_s, "leases per CPU second of the caller": leases / cpu_s}))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
