"""docs/amqp.md says what the code does: its diagrams are the tables, its files and errors exist, and it is complete."""

import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path

import pytest

import slicelease.worker.amqp as amqp
from slicelease.worker.amqp.channel_phase import CHANNEL_TRANSITIONS
from slicelease.worker.amqp.connection_phase import TRANSITIONS

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/amqp.md").read_text()
PACKAGE = ROOT / "workers/slicelease/worker/amqp"


def diagram(table: Mapping[Enum, Mapping[Enum, Enum]]) -> str:
    """The table as a Mermaid state diagram."""
    ids = {phase: phase.name.lower() for phase in table}
    lines = [f'    state "{phase.value}" as {name}' for phase, name in ids.items() if phase.value != name]
    lines.append(f"    [*] --> {next(iter(ids.values()))}")
    for phase, moves in table.items():
        lines += [f"    {ids[phase]} --> {ids[target]}: {trigger.value}" for trigger, target in moves.items()]
        lines += [] if moves else [f"    {ids[phase]} --> [*]"]
    return "```mermaid\nstateDiagram-v2\n" + "\n".join(lines) + "\n```"


@pytest.mark.parametrize(("name", "table"), [("connection", TRANSITIONS), ("channel", CHANNEL_TRANSITIONS)])
def test_the_diagrams_are_the_tables(name: str, table: Mapping[Enum, Mapping[Enum, Enum]]) -> None:
    found = re.search(rf"<!-- {name} -->\n(.*?)\n?<!-- end -->", PAGE, re.S)
    assert found is not None
    assert found[1] == diagram(table)


def test_every_file_is_described_and_every_file_described_is_there() -> None:
    named = set(re.findall(r"`(\w+\.py)`", PAGE))
    assert named == {path.name for path in PACKAGE.glob("*.py")} - {"__init__.py"}


def test_every_error_is_described() -> None:
    errors = {
        name for name in amqp.__all__ if isinstance(getattr(amqp, name), type) and issubclass(getattr(amqp, name), Exception)
    }
    table = PAGE[PAGE.index("## Errors") :]
    assert {name for name in errors if f"`{name}`" not in table} == {"AmqpError", "NotFound"}  # the bases
