"""`python -m tests.simulation --seed 7 --seeds 20 [--small]`: runs seeds one after another and prints a line for each."""

from __future__ import annotations

import argparse
import sys

from .record import BrokenPromiseError
from .run import simulate
from .shape import FULL, SMALL


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many, counted up from the first")
    parser.add_argument("--small", action="store_true", help="the size that `make test` runs")
    arguments = parser.parse_args()
    failed = 0
    for seed in range(arguments.seed, arguments.seed + arguments.seeds):
        try:
            print(simulate(seed, SMALL if arguments.small else FULL), flush=True)
        except BrokenPromiseError as error:
            failed += 1
            print(f"BROKEN: {error}", flush=True)
    return 1 if failed else 0


sys.exit(main())
