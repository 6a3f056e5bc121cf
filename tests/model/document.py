"""The tables of docs/model.md: `python -m tests.model.document` explores everything and writes them.

It takes minutes; `--fast` leaves the slow configurations as they are.

May live here: tables. May not know: rules.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.model.attention_model import AttentionModel
from tests.model.configurations import FAST, SLOW
from tests.model.explorer import Report, explore
from tests.model.properties import goal, invariants
from tests.model.setting import EVENTS, Setting
from tests.model.variants import VARIANTS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/model.md"
LIMIT = 5_000_000


def check(setting: Setting, limit: int = LIMIT) -> Report:
    """One setting explored whole, or until something breaks."""
    return explore(AttentionModel(setting), invariants(setting), goal(setting), limit=limit)


def documented() -> dict[str, int]:
    """By configuration the number of states, and by variant the number of steps, that the page gives."""
    rows = re.findall(r"^\| ([^|]+?) \|.*\| ([0-9,]+) (?:states|steps) \|", PAGE.read_text(), re.MULTILINE)
    return {name: int(number.replace(",", "")) for name, number in rows}


def configurations(settings: Mapping[str, Setting]) -> list[str]:
    """A row for each setting, which must hold."""
    rows = ["| configuration | queues by class | slots serve | what happens | found | time |", "|---|---|---|---|---|---|"]
    for name, setting in settings.items():
        report = check(setting)
        if report.counterexample is not None:
            raise SystemExit(f"{name}\n{report.counterexample}")
        happens = ", ".join(event for event in EVENTS if event in setting.happens)
        serve = " ".join("+".join(map(str, serves)) for serves in setting.serves)
        queues = " ".join(map(str, setting.queues)) + ", in order" * setting.ordered
        rows.append(f"| {name} | {queues} | {serve} | {happens} | {report.states:,} states | {report.seconds:.0f} s |")
    return rows


def variants() -> list[str]:
    """A row for each variant, which must fail."""
    rows = ["| variant | what breaks | the shortest trace ends with | length |", "|---|---|---|---|"]
    for name, variant in VARIANTS.items():
        found = check(variant.setting(name)).counterexample
        if found is None:
            raise SystemExit(f"{name}: nothing found")
        rows.append(f"| {name} | {found.broken} | {found.steps[-1][0]} | {len(found.steps)} steps |")
    return rows


def write(part: str, rows: list[str]) -> None:
    """Replaces a part of the page, between its two comments."""
    begin, end = f"<!-- {part} -->", f"<!-- end of {part} -->"
    before, _, rest = PAGE.read_text().partition(begin)
    _, _, after = rest.partition(end)
    PAGE.write_text("\n".join([before + begin, "", *rows, "", end + after]))


def main() -> None:
    """Writes the tables."""
    write("variants", variants())
    write("configurations", configurations(FAST))
    if "--fast" not in sys.argv:
        write("slow configurations", configurations(SLOW))


if __name__ == "__main__":
    main()
