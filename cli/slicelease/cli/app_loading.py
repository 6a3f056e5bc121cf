"""Finds the application that a worker runs: `module:attribute`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from slicelease.worker import SliceWorker


def load_app(reference: str, *, folder: Path) -> SliceWorker:
    """The SliceWorker at `module:attribute`; modules are also looked for in `folder`.

    Raises click.UsageError saying which part of the reference is wrong. An exception inside the module, or a module that
    it needs and cannot import, passes through: its traceback is what its author needs.
    """
    module_name, separator, path = reference.partition(":")
    if not (separator and module_name and path):
        raise click.UsageError(f"--app {reference!r}: the form is module:attribute, for example shop.tasks:app")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return _checked(reference, _attribute(reference, module_name, path))


def _attribute(reference: str, module_name: str, path: str) -> object:
    found: object = _module(reference, module_name)
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise click.UsageError(f"--app {reference!r}: module {module_name!r} has no attribute {path!r}") from None
    return found


def _module(reference: str, module_name: str) -> object:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as missing:
        # The module itself, or a package on the way to it; anything else is missing inside it.
        if missing.name is None or not f"{module_name}.".startswith(f"{missing.name}."):
            raise
        raise click.UsageError(f"--app {reference!r}: there is no module {missing.name!r} here or on sys.path") from None


def _checked(reference: str, found: object) -> SliceWorker:
    from slicelease.worker import SliceWorker

    if not isinstance(found, SliceWorker):
        raise click.UsageError(f"--app {reference!r} is no SliceWorker but {type(found).__name__}")
    return found
