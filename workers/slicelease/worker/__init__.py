"""Slicelease's worker. Register handlers on a `SliceWorker`, and run it with `slicelease worker --app module:attribute`.

Only the names exported here are public. They are loaded when first used: the settings of a worker can be read, as the command
line does, where Trio is not installed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .handlers import Reject, SliceWorker, Work

__all__ = ["Reject", "SliceWorker", "Work"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.handlers"), name)
