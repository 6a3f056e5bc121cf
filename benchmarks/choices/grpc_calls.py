"""Calls a second from Trio tasks. Arguments: kind of server (see grpc_server), way of calling (see grpc_ways).

CPU time is counted for the last and largest number of tasks: it says the same on a machine that others use too.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import trio

from benchmarks.choices.grpc_server import running
from benchmarks.choices.grpc_ways import WAYS, Ask
from slicelease.v1 import lease_service_pb2 as pb

ASKING, WARM_UP_S, MEASURED_S = (1, 16, 128), 0.3, 1.5
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


async def main(kind: str, way: str) -> None:
    figures: dict[str, float] = {}
    with running(kind) as (address, server, _):
        async with WAYS[way](address) as ask:
            for asking in ASKING:
                await _ask_for(ask, asking, WARM_UP_S)
                begin, client_s, server_s = time.perf_counter(), time.process_time(), _cpu_s(server.pid)
                calls = await _ask_for(ask, asking, MEASURED_S)
                figures[f"calls/s, {asking} asking"] = calls / (time.perf_counter() - begin)
                per_cpu_s = calls / (time.process_time() - client_s), calls / (_cpu_s(server.pid) - server_s)
    figures["per CPU second of the client"], figures["per CPU second of the server"] = per_cpu_s
    print(json.dumps(figures))


async def _ask_for(ask: Ask, asking: int, for_s: float) -> int:
    calls, end = 0, time.perf_counter() + for_s

    async def slot(number: int) -> None:
        nonlocal calls
        n = 0
        while time.perf_counter() < end:
            n += 1
            await ask(_settle(number, n))
            calls += 1

    async with trio.open_nursery() as nursery:
        for number in range(asking):
            nursery.start_soon(slot, number)
    return calls


def _settle(slot: int, n: int) -> pb.SettleLeaseRequest:
    return pb.SettleLeaseRequest(
        lease="tenants/acme/queues/default/leases/1764536098000001",
        fencing_token=1764536098000001,
        end_reason=pb.END_REASON_MESSAGES,
        totals=pb.SliceTotals(messages=20, bytes=2_000),
        want_next=True,
        classes=["interactive", "standard", "bulk"],
        request_id=f"bench/{slot}/{n}",
    )


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2])
