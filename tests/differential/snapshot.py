"""What a cell holds in Redis, as the specification's own LedgerState, so that the two can be compared by `==`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import redis

from slicelease.control_plane.domain.commands import Totals
from slicelease.control_plane.domain.ledger.state import (
    Attempt,
    ClassRecord,
    LeaseRecord,
    LedgerState,
    QueueRecord,
    RequestRecord,
    SlotRecord,
    TenantRecord,
)
from slicelease.control_plane.domain.names import LeaseKey, QueueKey
from slicelease.control_plane.domain.outcomes import QueueState
from slicelease.control_plane.domain.policy import ClassPolicy, QueuePolicy, QueueType, TenantPolicy
from slicelease.control_plane.redis_ledger.codec import outcome_of, terms_of
from slicelease.control_plane.redis_ledger.keys import key_of, prefix

_DUMP = """
local packed = {state = true, grant = true, life = true}
local function texts(...)
  local list = {...}
  for i, value in ipairs(list) do
    if type(value) == 'boolean' then value = value and 1 or 0 end
    list[i] = type(value) == 'number' and string.format('%d', value) or value
  end
  return list
end
local read = {
  hash = function(key)
    local flat = redis.call('HGETALL', key)
    for i = 2, #flat, 2 do
      if packed[flat[i - 1]] then flat[i] = texts(cmsgpack.unpack(flat[i])) end
    end
    return flat
  end,
  set = function(key) return redis.call('SMEMBERS', key) end,
  zset = function(key) return redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end,
  list = function(key) return redis.call('LRANGE', key, 0, -1) end,
  string = function(key)
    local kept, till, digest, answer = cmsgpack.unpack(redis.call('GET', key))
    if type(kept) == 'number' then kept = {n = kept, till = till, digest = digest, answer = answer} end
    return {kept.n or 0, kept.digest, kept.till, kept.message or '', kept.correlation or '', kept.claimed or 0,
            kept.done or 0, kept.answer or {}}
  end,
}
local dump = {}
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
  local type = redis.call('TYPE', key).ok
  dump[#dump + 1] = {string.sub(key, tonumber(ARGV[2]) + 1), type, redis.call('PTTL', key), read[type](key)}
end
return dump
"""


IDLE = ["1", "0", "0", "0", "0", "", "0", "0"]
"""The state of a queue that has none."""


class Entry(NamedTuple):
    """A key without its prefix; `ttl_ms` -1 means none; a hash or sorted set as a dict."""

    name: str
    type: str
    ttl_ms: int
    value: Any


def dump(client: redis.Redis, cell: str) -> list[Entry]:
    """Every key of the cell."""
    start = prefix(cell)
    found: Any = client.eval(_DUMP, 0, start.replace("{", "[{]") + "*", len(start))
    return [Entry(name, kind, ttl, _paired(value) if kind in ("hash", "zset") else value) for name, kind, ttl, value in found]


def _paired(flat: list[Any]) -> dict[str, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def strangers(entries: list[Entry]) -> list[str]:
    """Keys that the table does not know, or that differ from it in type or in having a TTL."""
    return [entry.name for entry in entries if not _as_listed(entry)]


def _as_listed(entry: Entry) -> bool:
    key = key_of(entry.name)
    return key is not None and key.type == entry.type and (entry.ttl_ms >= 0) == (key.ttl != "")


def state_of(entries: list[Entry]) -> LedgerState:
    """The state they hold; answers whose time is over are left out, as only their TTL collects them."""
    state = LedgerState()
    _read_meta(state, next((entry.value for entry in entries if entry.name == "meta"), {}))
    for kind in ("class", "tenant", "queue", "lease"):  # records before what speaks of them
        for entry in entries:
            if entry.name.startswith(f"{kind}:"):
                _READERS[kind](state, entry.name.partition(":")[2], entry.value)
    for entry in entries:
        kind, _, subject = entry.name.partition(":")
        if kind not in ("meta", "class", "tenant", "queue", "lease"):
            _READERS[kind](state, subject, entry.value)
    return state


def _read_meta(state: LedgerState, value: dict[str, str]) -> None:
    state.run_id = value.get("run_id", "")
    state.generation = int(value.get("generation", 0))
    state.closed_until_ms = int(value.get("closed_until", 0))
    state.last_us = int(value.get("last", 0))
    state.last_token = int(value.get("token", 0))
    state.last_etag = int(value.get("etag", 0))
    state.last_announcement = int(value.get("announcement", 0))


def _times(value: dict[str, str]) -> tuple[int, int, int]:
    return int(value["etag"]), int(value["created"]), int(value["updated"])


def _read_tenant(state: LedgerState, tenant: str, value: dict[str, str]) -> None:
    policy = TenantPolicy(value["class"], int(value["weight"]), value["name"])
    assert int(value["charge"]) == policy.charge_per_ms
    state.tenants[tenant] = TenantRecord(policy, *_times(value))


def _read_queue(state: LedgerState, member: str, value: dict[str, Any]) -> None:
    policy = QueuePolicy(value["class"], QueueType(int(value["type"])), terms_of(value["terms"]))
    state_number, since, due, token, dirty, running, suspect, paused = value.get("state", IDLE)
    state.queues[QueueKey.from_member(member)] = QueueRecord(
        policy,
        *_times(value),
        state=QueueState(int(state_number)),
        since_ms=int(since),
        due_ms=int(due),
        token=int(token),
        dirty=dirty == "1",
        paused=paused == "1",
        running_in=running,
        suspect_ms=int(suspect),
    )
    assert "state" not in value or value["state"] != IDLE, "an IDLE queue keeps more than its policy"


def _read_class(state: LedgerState, class_id: str, value: dict[str, str]) -> None:
    policy = ClassPolicy(int(value["target"]), terms_of(value["terms"]), QueueType(int(value["type"])), int(value["max"]))
    record = ClassRecord(policy, *_times(value), virtual_time=int(value["virtual"]), empty_since_ms=int(value["empty"]))
    state.classes[class_id] = record


def _lease_key(lease_id: str) -> LeaseKey:
    tenant, queue, token = lease_id.split("/")
    return LeaseKey(tenant, queue, int(token))


def _read_lease(state: LedgerState, lease_id: str, value: dict[str, Any]) -> None:
    member, token, class_id, session, slot, granted, waited, terms, tag, charge = value["grant"]
    renewed, expires, carried, revoked, totals = value["life"]
    key = _lease_key(lease_id)
    assert lease_id == f"{member}/{token}"
    state.leases[key] = LeaseRecord(
        key,
        class_id,
        session,
        int(slot),
        int(granted),
        int(renewed),
        int(expires),
        int(waited),
        terms_of(terms),
        int(tag),
        int(charge),
        int(carried),
        revoked == "1",
        Totals(*map(int, totals.split(" "))),
    )


def _scores(value: dict[str, str]) -> Iterator[tuple[str, int]]:
    return ((member, int(score)) for member, score in value.items())


def _read_turns(state: LedgerState, subject: str, value: dict[str, str]) -> None:
    class_id, _, tenant = subject.partition("/")
    state.classes[class_id].turns[tenant] = dict(_scores(value))


def _read_since(state: LedgerState, class_id: str, value: dict[str, str]) -> None:
    held = {key.member: queue.since_ms for key, queue in state.queues.items() if queue.running_in == class_id}
    assert dict(_scores(value)) == held, f"since:{class_id} differs from its queues"


def _read_class_leases(state: LedgerState, class_id: str, value: dict[str, str]) -> None:
    for lease_id, expires_ms in _scores(value):
        assert state.leases[_lease_key(lease_id)].expires_ms == expires_ms
        state.classes[class_id].leases.add(_lease_key(lease_id))


def _read_expiry(state: LedgerState, _: str, value: dict[str, str]) -> None:
    expiry = {_lease_key(lease_id): expires_ms for lease_id, expires_ms in _scores(value)}
    assert expiry == {key: lease.expires_ms for key, lease in state.leases.items()}


def _index_of(held: Callable[[LedgerState], set[str]]) -> Callable[[LedgerState, str, dict[str, str]], None]:
    def check(state: LedgerState, _: str, value: dict[str, str]) -> None:
        assert set(value) == held(state)
        assert set(value.values()) == {"0"}

    return check


def _read_attempts(state: LedgerState, member: str, value: dict[str, str]) -> None:
    counts = {message_id: Attempt(*map(int, kept.split(" "))) for message_id, kept in value.items()}
    state.attempts[QueueKey.from_member(member)] = counts


def _read_slot(state: LedgerState, subject: str, value: list[Any]) -> None:
    n, digest, until_ms, *_, answer = value
    session, _, slot = subject.partition("/")
    if until_ms > state.last_us // 1_000:
        state.slots[session, int(slot)] = SlotRecord(n, digest, outcome_of(answer), until_ms)


def _read_request(state: LedgerState, request_id: str, value: list[Any]) -> None:
    _, digest, until_ms, message_id, correlation_id, claimed_ms, done, answer = value
    if until_ms > state.last_us // 1_000:
        outcome = outcome_of(answer) if answer else None
        state.requests[request_id] = RequestRecord(digest, until_ms, outcome, message_id, correlation_id, claimed_ms, bool(done))


def _read_lapsed(state: LedgerState, _: str, value: list[str]) -> None:
    state.lapsed = [(_lease_key(lease_id), class_id) for lease_id, class_id in (report.split(" ") for report in value)]


def _set_in_class(name: str) -> Callable[[LedgerState, str, Any], None]:
    """A set (or a sorted set, as a dict of integers) that is a field of the class's record."""

    def read(state: LedgerState, class_id: str, value: Any) -> None:
        setattr(state.classes[class_id], name, dict(_scores(value)) if isinstance(value, dict) else set(value))

    return read


def _read_waiting(state: LedgerState, _: str, value: dict[str, str]) -> None:
    state.waiting = {QueueKey.from_member(member): due_ms for member, due_ms in _scores(value)}


_READERS: dict[str, Callable[[LedgerState, str, Any], None]] = {
    "tenant": _read_tenant,
    "queue": _read_queue,
    "class": _read_class,
    "lease": _read_lease,
    "tenants": _index_of(lambda state: set(state.tenants)),
    "queues": _index_of(lambda state: {key.member for key in state.queues}),
    "classes": _index_of(lambda state: set(state.classes)),
    "leased": _index_of(lambda state: {key.of_queue.member for key in state.leases}),
    "expiry": _read_expiry,
    "users": _set_in_class("users"),
    "ready": _set_in_class("ready"),
    "tags": _set_in_class("tags"),
    "owed": _set_in_class("owed"),
    "published": _set_in_class("published"),
    "turns": _read_turns,
    "since": _read_since,
    "leases": _read_class_leases,
    "waiting": _read_waiting,
    "attempts": _read_attempts,
    "slot": _read_slot,
    "req": _read_request,
    "lapsed": _read_lapsed,
}
