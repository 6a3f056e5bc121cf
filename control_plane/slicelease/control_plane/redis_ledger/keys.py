"""The one table of keys: every key that the ledger has in Redis, its type, how it ends, what for.

May live here: patterns and what they mean. May not know: how keys are used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

ATTEMPTS_TTL_MS = 7 * 24 * 3_600_000
"""How long counted attempts outlive the last count."""

_ID = r"[^/]+"
_PLACEHOLDERS = re.compile(r"<(\w+)>")


def prefix(cell: str) -> str:
    """What every key of a cell begins with; the braces keep them on one node of a cluster."""
    return f"{{slicelease:{cell}}}:"


@dataclass(frozen=True, slots=True)
class Key:
    """A kind of key. `ttl` empty: without; such a key ends with what it tells of."""

    pattern: str
    type: str
    ttl: str
    what: str

    def matches(self, name: str) -> bool:
        """Whether the key, without its prefix, is of this kind."""
        pieces = re.split(_PLACEHOLDERS, self.pattern)
        form = "".join(_piece(piece, index % 2 == 1) for index, piece in enumerate(pieces))
        return re.fullmatch(form, name, re.DOTALL) is not None


def _piece(piece: str, placeholder: bool) -> str:
    if not placeholder:
        return re.escape(piece)
    return ".+" if piece == "request_id" else _ID


_REQUEST_TTL = "request_ttl + 60 s; it ends by its own field `till`"

TABLE = (
    Key("meta", "hash", "", "schema, run_id, generation, closed_until, the clock, the last token, etag and announcement"),
    Key("tenants", "zset", "", "ids of all tenants, for paging: every score is 0"),
    Key("queues", "zset", "", "`tenant/queue` of all queues, likewise"),
    Key("classes", "zset", "", "ids of all priority classes, likewise"),
    Key("leased", "zset", "", "`tenant/queue` of the queues with a lease, likewise"),
    Key("tenant:<tenant>", "hash", "", "a tenant's policy, its compiled charge per millisecond, etag and times"),
    Key("queue:<tenant>/<queue>", "hash", "", "a queue's policy, etag and times; its `state` (MessagePack), unless it is IDLE"),
    Key("class:<class>", "hash", "", "a class's policy, etag and times; its virtual time; since when its tickets are missed"),
    Key("users:<class>", "set", "", "tenants (`t:`) and queues (`q:`) whose policy names the class"),
    Key("ready:<class>", "zset", "", "tenants with competing queues, by start tag"),
    Key("turns:<class>/<tenant>", "zset", "", "a tenant's competing queues, by the time (ms) since when they are READY"),
    Key("since:<class>", "zset", "", "all competing queues of the class, by the same time: how many, how long"),
    Key("tags:<class>", "zset", "", "finish tags of tenants; dropped when the class falls idle"),
    Key("leases:<class>", "zset", "", "leases granted under the class and not ended, by expiry (ms)"),
    Key("owed:<class>", "zset", "", "announcement ids owed, by the time (ms) until which each is claimed; 0: unclaimed"),
    Key("published:<class>", "set", "", "announcement ids published and not yet asked with"),
    Key("expiry", "zset", "", "all leases that have not ended, by expiry (ms)"),
    Key("waiting", "zset", "", "WAITING queues, by due time (ms)"),
    Key("lease:<tenant>/<queue>/<token>", "hash", "", "a lease: what was granted, its life (MessagePack); deleted when it ends"),
    Key("lapsed", "list", "", "leases that ended for lapse of time and were not reported yet; at most 10,000"),
    Key("attempts:<tenant>/<queue>", "hash", "7 days", "by message id: its count, and the token of the lease that last counted"),
    Key("slot:<session>/<slot>", "string", _REQUEST_TTL, "the last answer of a worker's slot (MessagePack)"),
    Key("req:<request_id>", "string", _REQUEST_TTL, "the answer to a request, or the claim of a publish (MessagePack)"),
)  # fmt: skip


def key_of(name: str) -> Key | None:
    """The kind of a key that is given without its prefix; None for a stranger."""
    return next((key for key in TABLE if key.matches(name)), None)


def keys_page() -> str:
    """docs/keys.md, made by `make docs`."""
    rows = [f"| `{key.pattern}` | {key.type} | {key.ttl or '–'} | {key.what} |" for key in TABLE]
    return _PAGE.format(prefix=prefix("<cell>"), rows="\n".join(rows))


_PAGE = """# Keys of the ledger in Redis

Every key begins with `{prefix}`, where the cell is `SLICELEASE_CELL`. The braces are the hash tag of Redis Cluster: a
cell lives on one node. Made from the table in `control_plane/slicelease/control_plane/redis_ledger/keys.py` by `make docs`; the
differential tests compare every key that there is with it.

A key without TTL ends with what it tells of: nothing of it is left when the last tenant, queue, lease or announcement of
its kind is gone. TTLs only collect: what ends an answer is a field, compared with the ledger's clock. Redis must not evict
(`maxmemory-policy noeviction`): the control plane refuses to start otherwise.

| key | type | TTL | what for |
|---|---|---|---|
{rows}

Times are milliseconds of the ledger's clock (`last` and `offset` of `meta`: microseconds), which is the store's own and never
goes back. The functions that read and write these keys are named `slicelease_<schema>_<digest of the text>_step`, so that
versions of the software live side by side. What a queue or a lease is doing is told by `GetQueue` and `ListLeases`; to look at
a cell itself, with redis-cli:

```sh
redis-cli --scan --pattern '*slicelease:default*' | head
redis-cli HGETALL '{{slicelease:default}}:meta'
redis-cli ZRANGE '{{slicelease:default}}:ready:standard' 0 9 WITHSCORES
```
"""
