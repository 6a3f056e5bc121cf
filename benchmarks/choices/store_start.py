"""How soon a private store answers, and how much memory it has then. Argument: `redis` or `valkey`."""

from __future__ import annotations

import json
import statistics
import sys
import time

from tests.servers import Redis, Valkey

STARTS = 10


def main(kind: str) -> None:
    times_ms, memory_kb = [], 0
    for _ in range(STARTS):
        begin = time.perf_counter()
        with (Valkey if kind == "valkey" else Redis)(unix=True) as store:
            times_ms.append((time.perf_counter() - begin) * 1_000)
            memory_kb = _resident_kb(store.pid)
    print(
        json.dumps(
            {
                "start to first answer, ms (lower is better)": statistics.median(times_ms),
                "memory, KB (lower is better)": memory_kb,
            }
        )
    )


def _resident_kb(pid: int) -> int:
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


if __name__ == "__main__":
    main(sys.argv[1])
