"""Chains of leases through one way of asking the ledger: every slot settles its lease and gets the next in the same step.

Arguments: URL of a private store, which is emptied; way; commands in one call; `asyncio` for its own loop instead of uvloop.
128 slots ask, so 128 / commands calls are in flight. The ways are `ours` (the adapter's bare connection), `driver` (redis-py)
and `pipeline` (redis-py, a call for each command, sent together). CPU time is counted beside wall time: it says the same on a
machine that others use too.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import uvloop
from redis.asyncio import Redis

from slicelease.control_plane.domain.commands import Acquire, Command, CreateClass, EndReason, Settle, SlotRequest, Totals, Touch
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.outcomes import Granted, Outcome, Settled
from slicelease.control_plane.domain.policy import ClassPolicy, LedgerConfig, TenantPolicy
from slicelease.control_plane.redis_ledger import RedisLedger
from slicelease.control_plane.redis_ledger.codec import Value, command_arguments, outcome_of
from slicelease.control_plane.redis_ledger.keys import prefix
from slicelease.control_plane.redis_ledger.ledger import step_header
from slicelease.control_plane.redis_ledger.library import library

SLOTS, QUEUES, WARM_UP_S, MEASURED_S = 128, 512, 0.5, 2.0
CELL, CLASS = "bench", "standard"
CONFIG = LedgerConfig(first_lease_ms=60_000, lease_ms=60_000, open_when_new=True)

Ask = Callable[[Sequence[Command]], Awaitable[list[Outcome]]]


async def main(url: str, way: str, per_call: int) -> None:
    redis: Any = Redis.from_url(url, decode_responses=True, max_connections=2 * SLOTS)
    await redis.flushall()
    driver = await _Driver.on(redis)
    slots = await first_leases(driver.one_call)
    if way == "ours":
        ask: Ask = (await RedisLedger.connect(url, CELL, CONFIG)).execute
    else:
        ask = driver.a_call_each if way == "pipeline" else driver.one_call
    groups = [slots[start : start + per_call] for start in range(0, SLOTS, per_call)]
    await chain(ask, groups, WARM_UP_S)
    print(json.dumps(await _measured(redis, ask, groups)))
    await redis.aclose()


async def _measured(redis: Any, ask: Ask, groups: Sequence[Sequence[_Slot]]) -> dict[str, float]:
    client_s, store_s, begin = time.process_time(), await _store_cpu_s(redis), time.perf_counter()
    leases = await chain(ask, groups, MEASURED_S)
    wall_s = time.perf_counter() - begin
    client_s, store_s = time.process_time() - client_s, await _store_cpu_s(redis) - store_s
    return {
        "leases/s": leases / wall_s,
        "leases per CPU second of the caller": leases / client_s,
        "leases per CPU second of the store": leases / store_s,
    }


class _Slot:
    """A slot with its lease."""

    def __init__(self, number: int) -> None:
        self.number, self.n = number, 0
        self.granted: Granted | None = None

    def request(self) -> SlotRequest:
        self.n += 1
        return SlotRequest("bench", self.number, self.n, f"{self.n:032x}")

    def acquire(self) -> Command:
        return Acquire(self.request(), (CLASS,))

    def settle(self) -> Command:
        assert self.granted is not None
        done = Totals(messages=20, bytes=2_000, handler_ms=1)
        return Settle(self.request(), self.granted.lease, EndReason.MESSAGES, done, want_next=True, classes=(CLASS,))


class _Driver:
    """The same calls through redis-py."""

    def __init__(self, redis: Any, run_id: str) -> None:
        self._redis = redis
        self._head: list[Value] = ["FCALL", library().step, 1, prefix(CELL), run_id, 0, *step_header(CONFIG)]

    @classmethod
    async def on(cls, redis: Any) -> _Driver:
        await redis.execute_command("FUNCTION", "LOAD", "REPLACE", library().text)
        return cls(redis, (await redis.info("server"))["run_id"])

    def _call(self, commands: Sequence[Command]) -> list[Value]:
        call: list[Value] = [*self._head, len(commands)]
        for command in commands:
            command_arguments(call, command)
        return call

    async def one_call(self, commands: Sequence[Command]) -> list[Outcome]:
        reply = await self._redis.execute_command(*self._call(commands))
        return [outcome_of(answer) for answer in reply[1:]]

    async def a_call_each(self, commands: Sequence[Command]) -> list[Outcome]:
        pipeline = self._redis.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*self._call([command]))
        return [outcome_of(reply[1]) for reply in await pipeline.execute()]


async def first_leases(ask: Ask) -> list[_Slot]:
    await ask([CreateClass(CLASS, ClassPolicy(target_wait_ms=10_000))])
    await ask([Touch(QueueKey(f"t{number}", "default"), TenantPolicy(CLASS)) for number in range(QUEUES)])
    slots = [_Slot(number) for number in range(SLOTS)]
    for slot, outcome in zip(slots, await ask([slot.acquire() for slot in slots]), strict=True):
        assert isinstance(outcome, Granted), outcome
        slot.granted = outcome
    return slots


async def chain(ask: Ask, groups: Sequence[Sequence[_Slot]], for_s: float) -> int:
    end = time.perf_counter() + for_s
    return sum(await asyncio.gather(*(_chain_of(ask, group, end) for group in groups)))


async def _chain_of(ask: Ask, group: Sequence[_Slot], end: float) -> int:
    leases = 0
    while time.perf_counter() < end:
        for slot, outcome in zip(group, await ask([slot.settle() for slot in group]), strict=True):
            assert isinstance(outcome, Settled), outcome
            assert outcome.next is not None, outcome
            slot.granted = outcome.next
        leases += len(group)
    return leases


async def _store_cpu_s(redis: Any) -> float:
    used = await redis.info("cpu")
    return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])


if __name__ == "__main__":
    factory = asyncio.new_event_loop if sys.argv[4:] == ["asyncio"] else uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
