"""The commands and programs that the pages show, in their order. Knows Markdown's fences and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
ADDRESS = "127.0.0.1:50051"
"""The address in the pages; a test puts its own server's there."""


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: its page, the line of its opening fence, its language and its text."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def where(self) -> str:
        """For messages."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    """Every page of the project."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """The page's fenced blocks that name a language."""
    found: list[Block] = []
    opened: tuple[int, str] | None = None
    text: list[str] = []
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        if not line.startswith("```"):
            text.append(line)
        elif opened is None:
            opened, text = (number, line[3:].strip()), []
        else:
            if opened[1]:
                found.append(Block(page, *opened, "\n".join(text)))
            opened = None
    return found


def commands(page: Path) -> list[tuple[str, str]]:
    """(where, command) of each line of the page's shell blocks; lines that end in a backslash are joined."""
    return [
        (block.where, line.strip())
        for block in blocks(page)
        if block.language == "sh"
        for line in block.text.replace("\\\n", " ").splitlines()
        if line.strip() and not line.startswith("#")
    ]
