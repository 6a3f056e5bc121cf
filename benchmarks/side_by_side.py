"""Runs alternatives in turn, several rounds, each in a process of its own, and prints their medians and ratios.

An alternative is a Python module that prints one JSON object {figure: number} on its last line of output; higher is better.
May live here: running and tables. May not know: what is measured.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.record import write


@dataclass(frozen=True, slots=True)
class Alternative:
    """A name for the table, and the module with its arguments."""

    name: str
    module: str
    args: tuple[str, ...] = ()


def compare(title: str, alternatives: Sequence[Alternative], *, rounds: int = 3, timeout_s: float = 120) -> None:
    """Runs A B C, A B C, ..., prints a table with the ratio to the first alternative, and writes build/benchmarks/*.json."""
    samples: dict[str, dict[str, list[float]]] = {each.name: {} for each in alternatives}
    failures: dict[str, str] = {}
    for number in range(rounds):
        for each in alternatives:
            print(f"  round {number + 1}/{rounds}: {each.name}", file=sys.stderr, flush=True)
            _sample(each, samples[each.name], failures, timeout_s)
    medians = {name: {figure: statistics.median(values) for figure, values in found.items()} for name, found in samples.items()}
    _print_table(title, medians, failures)
    _write(title, medians, samples, failures)


def output_of(module: str, *args: str) -> str:
    """The last line that the module prints, or its last error."""
    ended = subprocess.run([sys.executable, "-m", module, *args], capture_output=True, text=True, timeout=120, check=False)
    return ((ended.stdout if ended.returncode == 0 else ended.stderr).strip().splitlines() or ["nothing"])[-1]


def _sample(each: Alternative, found: dict[str, list[float]], failures: dict[str, str], timeout_s: float) -> None:
    command = [sys.executable, "-m", each.module, *each.args]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        failures[each.name] = f"no end within {timeout_s:.0f} s"
        return
    if ended.returncode != 0:
        failures[each.name] = (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1]
        return
    for figure, value in json.loads(ended.stdout.strip().splitlines()[-1]).items():
        found.setdefault(figure, []).append(float(value))


def _print_table(title: str, medians: Mapping[str, Mapping[str, float]], failures: Mapping[str, str]) -> None:
    first = next(iter(medians.values()))
    figures = list(dict.fromkeys(figure for found in medians.values() for figure in found))
    print(f"\n{title}\n")
    print("| " + " | ".join(["alternative", *figures]) + " |")
    print("|" + "---|" * (len(figures) + 1))
    for name, found in medians.items():
        cells = [_cell(found.get(figure), first.get(figure)) for figure in figures]
        print("| " + " | ".join([name, *cells]) + " |")
    for name, failure in failures.items():
        print(f"\n{name}: {failure}")


def _cell(value: float | None, first: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f} ({value / first:.2f})" if first else f"{value:,.0f}"


def _write(title: str, medians: object, samples: object, failures: object) -> None:
    name = "".join(letter if letter.isalnum() else "-" for letter in title.lower())
    write(name, {"title": title, "medians": medians, "samples": samples, "failures": failures})
