"""Makes docs/benchmarks.md and its plots from the records that `make bench` left in build/benchmarks.

`python -m benchmarks.page`. May not know how anything is measured; a record that is missing is named and left out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot

from benchmarks.record import RESULTS, table, targets_table

PAGE = Path("docs/benchmarks.md")
PLOTS = Path("docs/benchmarks")
PLOTTED = {
    "drain": "messages/s",
    "lease_calls": "leases/s",
    "publish": "messages/s",
    "wakeup": "p99 ms",
    "scale": "p50 ms",
    "recovery": "longest s",
    "idle": "worker MB",
}
"""The records in the order of the page, and the figure that is drawn of each."""
INTRODUCTION = """# Benchmarks

`make bench` measures; `make bench-page` makes this page of its records. Read the ratios: rates depend on the machine, and
this one has few, shared cores on which client, control plane, Redis and RabbitMQ all run. Nothing here is a test; what a slice
costs in calls, frames and writes is one (`make bench-check`, the committed figures are at the end).

How each is measured, and with which settings of the peers, stands at the head of its program in `benchmarks/`.
"""


def main() -> None:
    PLOTS.mkdir(parents=True, exist_ok=True)
    mpl.rcParams["svg.hashsalt"] = "slicelease"
    parts, machines = [INTRODUCTION], []
    for name, figure in PLOTTED.items():
        path = RESULTS / f"{name}.json"
        if not path.exists():
            print(f"{path} is missing: make bench ONLY={name}")
            continue
        record = json.loads(path.read_text())
        _plot(record, figure, PLOTS / f"{name}.svg")
        parts.append(_section(name, record, figure))
        machines.append((name, record))
    parts.append(_budget())
    parts.append(_circumstances(machines))
    PAGE.write_text("\n".join(parts))


def _section(name: str, record: dict[str, Any], figure: str) -> str:
    lines = [f"## {record['title']}", "", table(record["rows"]), ""]
    if record["targets"]:
        lines += [targets_table(record["targets"]), ""]
    lines += [f"{note}\n" for note in record["notes"]]
    lines += [f"![{record['title']}, {figure}](benchmarks/{name}.svg)", ""]
    return "\n".join(lines)


def _budget() -> str:
    budget = json.loads(Path(__file__).with_name("budget.json").read_text())
    rows = "\n".join(f"| {name} | {value:g} |" for name, value in budget.items())
    return f"## What a slice of 20 messages costs\n\n| figure | at most |\n|---|---:|\n{rows}\n"


def _circumstances(records: list[tuple[str, dict[str, Any]]]) -> str:
    """Where and how each was measured."""
    lines = ["## Machine, versions, commands", ""]
    for name, record in records:
        machine = record["machine"]
        where = f"{machine['cpu']}, {machine['cores']} cores, {machine['system']}, Python {machine['python']}"
        loads = ", ".join(str(load) for load in machine["load average"])
        lines.append(f"- {name}: `{record['command']}`; {where}; load average at its end {loads}")
    if records:
        versions = ", ".join(f"{package} {version}" for package, version in records[-1][1]["versions"].items())
        lines += ["", f"Versions: {versions}.", ""]
    return "\n".join(lines)


def _plot(record: dict[str, Any], figure: str, path: Path) -> None:
    rows = {name: found[figure] for name, found in record["rows"].items() if figure in found}
    canvas, axes = pyplot.subplots(figsize=(8, 0.6 + 0.35 * len(rows)))
    axes.barh(list(rows), list(rows.values()), color="#4878a8")
    axes.invert_yaxis()
    axes.set_xlabel(figure)
    canvas.tight_layout()
    canvas.savefig(path, metadata={"Date": None})
    pyplot.close(canvas)


if __name__ == "__main__":
    main()
