"""How the ledger should be asked: lists of commands in one call of one function, or calls of one command; and what AOF costs.

`python -m benchmarks.choices.ledger_calls [rounds]`: starts private Redis servers on unix sockets.
"""

from __future__ import annotations

import sys

from benchmarks.side_by_side import Alternative, compare
from tests.servers import Redis

MODULE = "benchmarks.choices.ledger_chains"
APPEND_ONLY = {
    "AOF off": {},
    "AOF everysec": {"appendonly": "yes", "appendfsync": "everysec"},
    "AOF always": {"appendonly": "yes", "appendfsync": "always"},
}


def main(rounds: int) -> None:
    with Redis(unix=True) as store:
        ways = [
            ("one call, 16 commands", "ours", "16"),
            ("one call, 64 commands", "ours", "64"),
            ("one call, 16 commands, asyncio's own loop", "ours", "16", "asyncio"),
            ("one call, one command", "ours", "1"),
            ("one call, one command, asyncio's own loop", "ours", "1", "asyncio"),
            ("redis-py: one call, 16 commands", "driver", "16"),
            ("redis-py: pipeline of 16 calls", "pipeline", "16"),
            ("redis-py: one call, one command", "driver", "1"),
        ]
        compare("Ledger calls", [Alternative(name, MODULE, (store.url, *args)) for name, *args in ways], rounds=rounds)
    with (
        Redis(unix=True) as off,
        Redis(unix=True, config=APPEND_ONLY["AOF everysec"]) as everysec,
        Redis(unix=True, config=APPEND_ONLY["AOF always"]) as always,
    ):
        stores = dict(zip(APPEND_ONLY, (off, everysec, always), strict=True))
        persisted = [Alternative(name, MODULE, (store.url, "ours", "16")) for name, store in stores.items()]
        compare("Ledger persistence", persisted, rounds=rounds)


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 3)
