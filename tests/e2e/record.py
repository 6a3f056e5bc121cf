"""Reads what recording_app wrote, and says what is wrong with it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Mark:
    """One line: a handler's start or end."""

    kind: str
    pid: int
    tenant: str
    number: int
    attempt: int
    token: int


class Record:
    """A recording file, read anew at each question."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def marks(self) -> list[Mark]:
        """Every whole line so far."""
        if not self.path.exists():
            return []
        text = self.path.read_text()
        lines = text[: text.rfind("\n") + 1].splitlines()
        return [_parse(line) for line in lines]

    def ended(self) -> set[tuple[str, int]]:
        """The messages whose handler has ended at least once."""
        return {(mark.tenant, mark.number) for mark in self.marks() if mark.kind == "end"}

    def faults(self, killed: set[int]) -> Iterator[str]:
        """Order broken, repeats that no kill explains, two handlers of one queue at the same time."""
        for tenant, marks in self._by_tenant().items():
            yield from _order_faults(tenant, marks, killed)
            yield from _overlaps(tenant, marks, killed)

    def _by_tenant(self) -> dict[str, list[Mark]]:
        tenants: dict[str, list[Mark]] = defaultdict(list)
        for mark in self.marks():
            tenants[mark.tenant].append(mark)
        return tenants


def _parse(line: str) -> Mark:
    kind, pid, tenant, number, attempt, token = line.split()
    return Mark(kind, int(pid), tenant, int(number), int(attempt), int(token))


def _order_faults(tenant: str, marks: list[Mark], killed: set[int]) -> Iterator[str]:
    newest, starters, token = -1, defaultdict[int, set[int]](set), 0
    for mark in marks:
        if mark.kind != "start":
            continue
        if mark.token < token:
            yield f"{tenant}/{mark.number}: token {mark.token} after {token}"
        token = max(token, mark.token)
        if mark.number > newest + 1:
            yield f"{tenant}/{mark.number}: started after {newest}"
        if mark.number <= newest and not starters[mark.number] & killed:
            yield f"{tenant}/{mark.number}: repeated, and none of its holders {sorted(starters[mark.number])} was killed"
        newest = max(newest, mark.number)
        starters[mark.number].add(mark.pid)


def _overlaps(tenant: str, marks: list[Mark], killed: set[int]) -> Iterator[str]:
    running: Mark | None = None
    for mark in marks:
        if mark.kind == "end":
            running = None
        elif running is not None and running.pid not in killed:
            yield f"{tenant}/{mark.number}: started while {running.number} ran in process {running.pid}"
            running = mark
        else:
            running = mark
