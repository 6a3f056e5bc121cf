"""Metrics: one table, bounded series, and what the recorders record."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import generate_latest

from slicelease.control_plane.domain.commands import EndReason, Totals
from slicelease.control_plane.domain.names import LeaseKey
from slicelease.control_plane.domain.outcomes import ClassStats, DenialReason, Denied, Granted, QueueState, Settled, Stats
from slicelease.control_plane.domain.policy import INSTALLATION_TERMS
from slicelease.control_plane.metrics import OTHER_CLASS, TABLE, Metrics, metrics_page


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"slicelease_{name}", labels)


def grant(carried: int = 1, class_id: str = "bulk") -> Granted:
    return Granted(LeaseKey("acme", "mail", 17), class_id, 5_000, 250, 0, INSTALLATION_TERMS, carried)


def test_the_page_has_every_metric_of_the_registry_and_no_other() -> None:
    shown = {line.split("`")[1] for line in metrics_page().splitlines() if line.startswith("| `")}
    exported = {f"{family.name}{'_total' if family.type == 'counter' else ''}" for family in Metrics().registry.collect()}
    assert shown == exported == {metric.name for metric in TABLE}


def test_no_series_names_a_tenant_or_a_queue() -> None:
    """S05."""
    labels = {label for metric in TABLE for label in metric.labels}
    assert labels == {"class", "reason", "result", "method", "code", "call", "loop", "component"}


def test_a_grant_is_counted_once_however_often_it_is_answered() -> None:
    metrics = Metrics()
    metrics.granted(grant(1))
    metrics.granted(grant(2))
    assert value(metrics, "grants_total", **{"class": "bulk"}) == 1
    assert value(metrics, "wait_seconds_sum", **{"class": "bulk"}) == pytest.approx(0.25)


def test_a_class_that_only_a_caller_named_makes_no_series() -> None:
    metrics = Metrics()
    metrics.granted(grant(class_id="bulk"))
    for asked in ("bulk", "made-up", "made-up-too", ""):
        metrics.denied(Denied(DenialReason.NO_READY_QUEUE, 0), asked)
    assert value(metrics, "denials_total", **{"class": "bulk", "reason": "NO_READY_QUEUE"}) == 1
    assert value(metrics, "denials_total", **{"class": OTHER_CLASS, "reason": "NO_READY_QUEUE"}) == 3


def test_a_settle_is_recorded_with_its_next_grant() -> None:
    metrics = Metrics()
    settled = Settled(QueueState.READY, 0, 1_500, "bulk", grant(class_id="standard"))
    metrics.settled(settled, EndReason.TIME, Totals(messages=7, failed=1, dead_lettered=2))
    bulk: dict[str, Any] = {"class": "bulk"}
    assert value(metrics, "slices_ended_total", **bulk, reason="TIME") == 1
    assert value(metrics, "slice_seconds_sum", **bulk) == pytest.approx(1.5)
    assert value(metrics, "slice_messages_sum", **bulk) == 7
    assert value(metrics, "messages_total", **bulk, result="dead_lettered") == 2
    assert value(metrics, "grants_total", **{"class": "standard"}) == 1


def test_series_of_a_deleted_class_end() -> None:
    metrics = Metrics()
    row = ClassStats("bulk", 3, 2, 1, 4, 1_500)
    metrics.stats(Stats((row,), 5, 6, 7, 2_500))
    assert value(metrics, "oldest_ready_seconds", **{"class": "bulk"}) == pytest.approx(1.5)
    assert value(metrics, "admission_closed_seconds") == pytest.approx(2.5)
    metrics.granted(grant())
    metrics.stats(Stats((), 0, 0, 0, 0))
    assert b'class="bulk"' not in generate_latest(metrics.registry)
    metrics.granted(grant())
    assert value(metrics, "grants_total", **{"class": "bulk"}) == 1


def test_a_broker_call_that_raises_is_a_failed_one() -> None:
    metrics = Metrics()
    with pytest.raises(ZeroDivisionError), metrics.broker_call("announce"):
        raise ZeroDivisionError
    with metrics.broker_call("announce"):
        pass
    counts = {result: value(metrics, "broker_call_seconds_count", call="announce", result=result) for result in ("ok", "failed")}
    assert counts == {"ok": 1, "failed": 1}
