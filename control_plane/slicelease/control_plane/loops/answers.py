"""Outcomes as the type that their command promises."""

from __future__ import annotations

from typing import TypeVar

from slicelease.control_plane.domain.outcomes import Failed, Outcome
from slicelease.control_plane.ports import LedgerUnavailableError

Kind = TypeVar("Kind")


def answer(outcome: Outcome, kind: type[Kind]) -> Kind:
    """The outcome itself.

    Raises LedgerUnavailableError where the store broke at the command, TypeError for another kind, which is our fault.
    """
    if isinstance(outcome, Failed):
        raise LedgerUnavailableError(outcome.cause)
    if not isinstance(outcome, kind):
        raise TypeError(f"the ledger answered {type(outcome).__name__}, not {kind.__name__}")
    return outcome
