"""What the loops report, as metrics.

May live here: loops.observer.LoopObserver over the metrics. May not know: the loops.
"""

from __future__ import annotations

from time import monotonic

from slicelease.control_plane.metrics import Metrics


class LoopMetrics:
    """Implements LoopObserver."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._round_began = monotonic()

    def attention_raised(self, count: int) -> None:
        """See the protocol."""
        self._metrics.count("attention_raised_total", by=count)

    def attention_duplicate(self, count: int) -> None:
        """See the protocol."""
        self._metrics.count("attention_duplicate_total", by=count)

    def attention_coalesced(self, count: int) -> None:
        """See the protocol."""
        self._metrics.count("attention_coalesced_total", by=count)

    def attention_refused(self, reason: str, count: int) -> None:
        """See the protocol."""
        self._metrics.count("attention_refused_total", reason, by=count)

    def tickets_published(self, class_id: str, count: int) -> None:
        """See the protocol."""
        self._metrics.count("announcements_published_total", self._metrics.know_class(class_id), by=count)

    def tickets_lost(self, class_id: str, count: int) -> None:
        """See the protocol."""
        self._metrics.count("attention_lost_total", self._metrics.know_class(class_id), by=count)

    def lease_expired(self, class_id: str) -> None:
        """See the protocol."""
        self._metrics.count("leases_expired_total", self._metrics.know_class(class_id))

    def reconcile_touched(self, count: int) -> None:
        """See the protocol."""
        self._metrics.count("reconcile_touched_total", by=count)

    def reconcile_redeclared(self, count: int) -> None:
        """See the protocol."""
        self._metrics.count("reconcile_redeclared_total", by=count)

    def reconcile_began(self) -> None:
        """See the protocol."""
        self._round_began = monotonic()

    def reconcile_ended(self) -> None:
        """See the protocol."""
        self._metrics.set("reconcile_round_seconds", monotonic() - self._round_began)
