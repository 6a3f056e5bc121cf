"""Counts handled messages; with the last of BENCH_TOTAL it leaves the figures behind."""

from __future__ import annotations

import itertools
import os
import time

from benchmarks.world import leave_record

TOTAL = int(os.environ.get("BENCH_TOTAL", "0"))


class Count:
    """`tick` once for each message; safe in threads."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._began_s = self._cpu_s = 0.0

    def tick(self, **more: float) -> bool:
        """Whether this was the last one."""
        number = next(self._numbers)
        if number == 1:
            self._began_s, self._cpu_s = time.perf_counter(), time.process_time()
        if number != TOTAL:
            return False
        leave_record({"seconds": time.perf_counter() - self._began_s, "cpu_s": time.process_time() - self._cpu_s, **more})
        return True
