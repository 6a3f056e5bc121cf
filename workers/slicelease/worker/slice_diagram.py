"""The slice machine for people: a diagram and a table, drawn from the machine's own table.

May know the slice machine. May not know anything else.
"""

from __future__ import annotations

from .slice_machine import TABLE, State, Trigger

_CUT_OFF = (Trigger.CANCELLED, Trigger.CHANNEL_REFUSED, Trigger.LINK_LOST, Trigger.NO_CHANNEL)


def slice_machine_page() -> str:
    """Both, as Markdown. What may cut off anything that runs is left out of the diagram."""
    return "\n".join(["```mermaid", *_diagram(), "```", "", *_table()])


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
            does = ", ".join(do.name for do in row.do) or "–"
            lines.append(f"| {state.name} | {trigger.name} | {row.to.name} | {does} |")
    return lines
