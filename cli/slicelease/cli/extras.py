"""What is said when a part of Slicelease is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Imports in the block need the extra's packages; a missing one is explained. Raises click.ClickException."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.startswith("slicelease"):
            raise
        raise click.ClickException(
            f'{missing.name.partition(".")[0]} is not installed; this command needs: pip install "slicelease[{extra}]"'
        ) from missing
