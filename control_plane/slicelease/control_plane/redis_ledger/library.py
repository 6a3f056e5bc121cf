"""The text of the Lua library, and the names under which a store holds it.

May live here: putting the parts together. May not know: what they do, connections.
The name carries the schema and a digest of the text: other versions of the software have their own library beside this one, so
none is ever replaced.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from slicelease.control_plane.domain.commands import EndReason
from slicelease.control_plane.domain.ledger.state import SCHEMA
from slicelease.control_plane.domain.outcomes import DenialReason, QueueState
from slicelease.control_plane.domain.policy import Ordering

_ENUMS = {"STATE": QueueState, "ENDED": EndReason, "DENIED": DenialReason, "ORDER": Ordering}
"""The numbers that Lua knows by the names of these enums, so that they cannot differ."""


@dataclass(frozen=True, slots=True)
class Library:
    """A function library; `text` is what FUNCTION LOAD takes."""

    name: str
    text: str

    @property
    def step(self) -> str:
        """The function that runs a step at the store's own time."""
        return f"{self.name}_step"

    @property
    def step_at(self) -> str:
        """The function that runs a step at the time it is given (µs): for tests."""
        return f"{self.name}_step_at"


@cache
def library() -> Library:
    """This software's own library."""
    return build(parts())


def parts() -> dict[str, str]:
    """The Lua files by name, in their order."""
    folder = resources.files(__package__) / "lua"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".lua")), key=lambda file: file.name)
    return {file.name: file.read_text(encoding="utf-8") for file in files}


def build(texts: dict[str, str], schema: int = SCHEMA) -> Library:
    """A library of these parts in this order, for a store of this schema."""
    body = "\n".join([f"local SCHEMA = {schema}", _constants(), *texts.values()])
    name = f"slicelease_{schema}_{hashlib.sha256(body.encode()).hexdigest()[:8]}"
    return Library(name, f"#!lua name={name}\nlocal NAME = '{name}'\n{body}")


def _constants() -> str:
    return "\n".join(
        f"local {name} = {{{', '.join(f'{member.name} = {member.value}' for member in enum)}}}" for name, enum in _ENUMS.items()
    )
