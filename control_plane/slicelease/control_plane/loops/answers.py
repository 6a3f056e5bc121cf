"""Outcomes as the type that their command promises."""

from __future__ import annotations

from typing import TypeVar

from slicelease.control_plane.domain.outcomes import Outcome

Kind = TypeVar("Kind")


def answer(outcome: Outcome, kind: type[Kind]) -> Kind:
    """The outcome itself; raises TypeError for another kind, which is a fault of the ledger."""
    if not isinstance(outcome, kind):
        raise TypeError(f"the ledger answered {type(outcome).__name__}, not {kind.__name__}")
    return outcome
