"""Shows progress on stderr: a live table on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self, TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table

from .progress import Snapshot, as_line, as_rows


class Display(Protocol):
    """Shows snapshots for the time of a `with` block, one every `every_s` seconds."""

    every_s: float

    def __enter__(self) -> Self:
        """Begins."""
        ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Leaves what was shown last."""
        ...

    def show(self, snapshot: Snapshot) -> None:
        """Shows one moment."""
        ...


class LineDisplay:
    """Plain lines."""

    every_s = 2.0

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        return None

    def show(self, snapshot: Snapshot) -> None:
        """Writes a line."""
        print(as_line(snapshot), file=self._stream, flush=True)


class LiveDisplay:
    """A table that is drawn anew; what is logged meanwhile scrolls above it."""

    every_s = 0.5

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._live.stop()

    def show(self, snapshot: Snapshot) -> None:
        """Draws the table."""
        table = Table(title=f"slicelease dev, {snapshot.at_s:.0f} s", show_header=False, title_justify="left")
        table.add_column(justify="left")
        table.add_column(justify="right", min_width=20)
        for name, value in as_rows(snapshot):
            table.add_row(name, value)
        self._live.update(table, refresh=True)


def display_for(stream: TextIO) -> Display:
    """The live table where the stream is a terminal."""
    console = Console(file=stream)
    return LiveDisplay(console) if console.is_terminal else LineDisplay(stream)
