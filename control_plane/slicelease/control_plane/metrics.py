"""Metrics of the control plane: one table of all of them, and what records into it.

May live here: the table, its registry, its documentation. May not know: services, loops, stores, brokers.
No series names a tenant or a queue: their number is unbounded. Classes are labelled once the ledger has named them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from .domain.commands import EndReason, Totals
from .domain.outcomes import Denied, Granted, Settled, Stats

CALL_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SLICE_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0)
WAIT_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 3600.0)
MESSAGES = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 500.0, 1000.0, 10000.0)
COMMANDS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 1000.0)

OTHER_CLASS = "other"
"""Label of a class that the ledger has not named: a caller may ask for any."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One row: the name with its unit, what it counts, its labels; buckets make it a histogram."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


def _counter(name: str, text: str, *labels: str) -> Metric:
    return Metric(f"slicelease_{name}", "counter", text, labels)


def _gauge(name: str, text: str, *labels: str) -> Metric:
    return Metric(f"slicelease_{name}", "gauge", text, labels)


def _histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Metric:
    return Metric(f"slicelease_{name}", "histogram", text, labels, buckets)


TABLE: tuple[Metric, ...] = (
    _counter("attention_raised_total", "Raised attention that was taken from `attention.work`."),
    _counter("attention_coalesced_total", "Raised attention whose queue was known to have work: its touch changed nothing."),
    _counter("attention_duplicate_total", "Raised attention for a queue that the same batch had touched already."),
    _counter("attention_refused_total", "Raised attention moved to the unsorted dead letters.", "reason"),
    _counter("attention_lost_total", "Announcements found lost (the attention queue stayed empty) and announced again.", "class"),
    _counter("announcements_published_total", "Tickets published and confirmed.", "class"),
    _gauge("announcements_pending", "Tickets owed and not yet published.", "class"),
    _gauge("announcements_outstanding", "Tickets published and not yet asked with.", "class"),
    _counter("grants_total", "Slice leases granted, repeated answers left out.", "class"),
    _counter("denials_total", "Requests for a lease that got none; the class is that of the ticket.", "class", "reason"),
    _histogram("wait_seconds", "Time from READY to grant.", WAIT_SECONDS, "class"),
    _counter("slices_ended_total", "Slices settled, by why they ended.", "class", "reason"),
    _histogram("slice_seconds", "Time from grant to settle.", SLICE_SECONDS, "class"),
    _histogram("slice_messages", "Messages handled well in one slice.", MESSAGES, "class"),
    _counter("messages_total", "Messages of settled slices: done, failed (to be retried), dead_lettered.", "class", "result"),
    _counter("leases_expired_total", "Leases that ran out unsettled.", "class"),
    _counter("leases_given_back_total", "Grants ended because the caller had left before the answer."),
    _gauge("leases", "Live leases.", "class"),
    _gauge("ready_queues", "Queues that compete for a slice.", "class"),
    _gauge("oldest_ready_seconds", "Longest present wait of a READY queue.", "class"),
    _gauge("waiting_queues", "Queues that compete again at a known time."),
    _gauge("tenants", "Tenants known."),
    _gauge("queues", "Queues known."),
    _gauge("admission_closed_seconds", "How long nothing is granted yet after the ledger's store was new or restarted."),
    _counter("work_published_total", "Work messages asked to be published: published, repeated, or why not.", "result"),
    _histogram("rpc_seconds", "Time of a gRPC call, by its status code.", CALL_SECONDS, "method", "code"),
    _gauge("sessions", "Open WatchDirectives streams of this process."),
    _counter("directives_total", "Directives pushed to sessions of this process."),
    _histogram("ledger_call_seconds", "Time of a ledger step as seen from here: ok or unavailable.", CALL_SECONDS, "result"),
    _histogram("ledger_call_commands", "Commands in one ledger step.", COMMANDS),
    _histogram("broker_call_seconds", "Time of a broker call: ok or failed.", CALL_SECONDS, "call", "result"),
    _counter("loop_passes_total", "Passes of a background loop: worked, idle or failed.", "loop", "result"),
    _gauge("reconcile_round_seconds", "Time of the last whole reconcile round: with the period, the bound on a lost touch."),
    _counter("reconcile_touched_total", "Queues that the reconciler found with a backlog that the ledger did not know of."),
    _counter("reconcile_redeclared_total", "Work queues that the reconciler found missing at the broker and declared."),
    _gauge("ready", "1 while the component can be used.", "component"),
)
"""Every metric there is. docs/metrics.md is made from it."""

_KINDS: Mapping[str, Any] = {"counter": Counter, "gauge": Gauge, "histogram": Histogram}


def _build(metric: Metric, registry: CollectorRegistry) -> Any:
    extra = {"buckets": metric.buckets} if metric.buckets else {}
    return _KINDS[metric.kind](metric.name, metric.help, metric.labels, registry=registry, **extra)


class Metrics:
    """Records what happens. One object a process, with a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._by_name = {metric.name: _build(metric, self.registry) for metric in TABLE}
        self._children: dict[tuple[str, ...], Any] = {}
        self._classes: set[str] = set()

    def _of(self, name: str, *labels: str) -> Any:
        """The child of the metric; looked up once, for `labels()` costs more than what it is used for."""
        place = (name, *labels)
        child = self._children.get(place)
        if child is None:
            parent = self._by_name[f"slicelease_{name}"]
            child = self._children[place] = parent.labels(*labels) if labels else parent
        return child

    def count(self, name: str, *labels: str, by: float = 1) -> None:
        """Adds to a counter, named without the prefix."""
        self._of(name, *labels).inc(by)

    def set(self, name: str, value: float, *labels: str) -> None:
        """Sets a gauge."""
        self._of(name, *labels).set(value)

    def observe(self, name: str, value: float, *labels: str) -> None:
        """Records a value in a histogram."""
        self._of(name, *labels).observe(value)

    def class_label(self, class_id: str) -> str:
        """The class itself when the ledger has named it."""
        return class_id if class_id in self._classes else OTHER_CLASS

    def know_class(self, class_id: str) -> str:
        """The ledger named this class."""
        self._classes.add(class_id)
        return class_id

    # ---- leases -----------------------------------------------------------------------------------------------------

    def granted(self, granted: Granted) -> None:
        """A lease was granted; a repeated answer is not counted again."""
        if granted.carried > 1:
            return
        class_id = self.know_class(granted.priority_class)
        self._of("grants_total", class_id).inc()
        self._of("wait_seconds", class_id).observe(granted.waited_ms / 1_000)

    def denied(self, denied: Denied, ticket_class: str) -> None:
        """None was granted."""
        self._of("denials_total", self.class_label(ticket_class), denied.reason.name).inc()

    def settled(self, settled: Settled, reason: EndReason, totals: Totals) -> None:
        """A slice ended."""
        class_id = self.know_class(settled.lease_class)
        self._of("slices_ended_total", class_id, reason.name).inc()
        self._of("slice_seconds", class_id).observe(settled.slot_ms / 1_000)
        self._of("slice_messages", class_id).observe(totals.messages)
        for result, number in (("done", totals.messages), ("failed", totals.failed), ("dead_lettered", totals.dead_lettered)):
            if number:
                self._of("messages_total", class_id, result).inc(number)
        if settled.next is not None:
            self.granted(settled.next)

    def stats(self, stats: Stats) -> None:
        """The counts that the ledger keeps; series of classes that are gone end."""
        gone = self._classes - {row.class_id for row in stats.classes}
        for row in stats.classes:
            class_id = self.know_class(row.class_id)
            self.set("leases", row.leases, class_id)
            self.set("ready_queues", row.ready, class_id)
            self.set("oldest_ready_seconds", row.oldest_ready_ms / 1_000, class_id)
            self.set("announcements_pending", row.owed, class_id)
            self.set("announcements_outstanding", row.published, class_id)
        for class_id in gone:
            self._forget_class(class_id)
        self.set("waiting_queues", stats.waiting)
        self.set("tenants", stats.tenants)
        self.set("queues", stats.queues)
        self.set("admission_closed_seconds", stats.closed_ms / 1_000)

    def _forget_class(self, class_id: str) -> None:
        self._classes.discard(class_id)
        for metric in TABLE:
            if metric.labels[:1] == ("class",):
                self._drop_series(metric.name, class_id)

    def _drop_series(self, name: str, class_id: str) -> None:
        short = name.removeprefix("slicelease_")
        for place in [place for place in self._children if place[:2] == (short, class_id)]:
            del self._children[place]
            self._by_name[name].remove(*place[1:])

    # ---- calls ------------------------------------------------------------------------------------------------------

    def ledger_called(self, seconds: float, commands: int, result: str) -> None:
        """One ledger step ended."""
        self._of("ledger_call_seconds", result).observe(seconds)
        self._of("ledger_call_commands").observe(commands)

    @contextmanager
    def broker_call(self, call: str) -> Iterator[None]:
        """Times a broker call; an exception makes it a failed one."""
        begin, result = perf_counter(), "failed"
        try:
            yield
            result = "ok"
        finally:
            self._of("broker_call_seconds", call, result).observe(perf_counter() - begin)


_HEAD = """# Metrics of the control plane

Served at `/metrics` on the address of `SLICELEASE_METRICS_LISTEN`, beside `/ready` and `/live`. No series names a tenant.
Made from the table in `control_plane/slicelease/control_plane/metrics.py` by `make docs`.

| metric | kind | labels | what it says |
|---|---|---|---|
"""


def metrics_page() -> str:
    """The text of docs/metrics.md."""
    rows = (f"| `{m.name}` | {m.kind} | {', '.join(m.labels) or '–'} | {m.help} |\n" for m in TABLE)
    return _HEAD + "".join(rows)
