"""How workers under Trio call the control plane, which server answers them, and what a cancelled scope does to a call.

`python -m benchmarks.choices.grpc_from_trio [rounds]`: server and client are processes of their own over loopback.
"""

from __future__ import annotations

import sys

from benchmarks.choices import grpc_cancellation
from benchmarks.side_by_side import Alternative, compare

MODULE = "benchmarks.choices.grpc_calls"
CLIENTS = {
    "our bridge, unary": "bridge",
    "our batcher (ExchangeLeases)": "batcher",
    "a thread for each call": "threads",
    "grpc.aio under trio-asyncio": "trio-asyncio",
}
SERVERS = {"grpc.aio, uvloop": "uvloop", "grpc.aio, asyncio's own loop": "asyncio", "synchronous, 16 threads": "threads"}


def main(rounds: int) -> None:
    clients = [Alternative(name, MODULE, ("uvloop", way)) for name, way in CLIENTS.items()]
    compare("gRPC from Trio, clients", clients, rounds=rounds)
    for way in ("bridge", "batcher"):
        servers = [Alternative(name, MODULE, (kind, way)) for name, kind in SERVERS.items()]
        compare(f"gRPC from Trio, servers, asked by the {way}", servers, rounds=rounds)
    grpc_cancellation.main()


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 3)
