"""Draws docs/slice-machine.md from the table of the slice machine; `--check` only says whether the page is fresh."""

from __future__ import annotations

import sys
from pathlib import Path

from slicelease.worker.slice_machine import TABLE, Do, State, Trigger

PAGE = Path(__file__).resolve().parents[1] / "docs" / "slice-machine.md"

_HEAD = """# The slice machine

How a worker runs one slice, from its grant to its settled end. This page is drawn from the table in
`workers/slicelease/worker/slice_machine.py` by `python scripts/draw_slice_machine.py`; a test compares them.

What happens (a trigger) moves the slice to another state, and says what is to be done next (in capitals). At the boundary
between two messages the machine itself chooses the trigger. Three things can cut off whatever runs, and are left out of the
picture: CANCELLED (the lease was lost, or the grace of a shutdown is over), CHANNEL_REFUSED and LINK_LOST (the broker).
"""
_CUT_OFF = (Trigger.CANCELLED, Trigger.CHANNEL_REFUSED, Trigger.LINK_LOST, Trigger.NO_CHANNEL)


def page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, "```mermaid", *_diagram(), "```", "", *_table(), "", *_instructions(), ""])


def _diagram() -> list[str]:
    lines = ["stateDiagram-v2", "    direction TB", f"    [*] --> {State.GRANTED.name}"]
    for state, rows in TABLE.items():
        for trigger, row in rows.items():
            if trigger not in _CUT_OFF:
                does = "".join(f" / {do.name}" for do in row.do)
                lines.append(f"    {state.name} --> {row.to.name}: {trigger.name}{does}")
    return [*lines, f"    {State.OVER.name} --> [*]"]


def _table() -> list[str]:
    lines = ["| in state | on | goes to | and does |", "|---|---|---|---|"]
    for state, rows in TABLE.items():
        for trigger, row in rows.items():
            does = ", ".join(do.name for do in row.do)
            lines.append(f"| {state.name} | {trigger.name} | {row.to.name} | {does} |")
    return lines


def _instructions() -> list[str]:
    return [
        "Instructions: " + ", ".join(do.name for do in Do) + ". SETTLE comes only after the broker's answer to BARRIER or CLOSE "
        "on the slice's channel,",
        "when nothing was fetched, or with the reason BROKER_LOST.",
    ]


def main() -> int:
    """Writes the page, or with `--check` compares it."""
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.exists() and PAGE.read_text() == page() else 1
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
