"""Slicelease's worker. Register handlers on a `SliceWorker`, and run it with `slicelease worker --app module:attribute`.

Only the names exported here are public.
"""

from .handlers import Reject, SliceWorker, Work

__all__ = ["Reject", "SliceWorker", "Work"]
