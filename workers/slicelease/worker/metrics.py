"""What a worker process counts, for Prometheus, and where it is served together with its readiness.

May live here: metric definitions and the small HTTP server. May not know: who counts. No metric has a tenant label: series
must stay bounded however many tenants there are.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import CounterMetricFamily
from prometheus_client.registry import Collector

from .leases import CallStatistics, DenialReason, EndReason, SliceEnd

_PREFIX = "slicelease_worker_"
_CALLS = {
    "lease_calls": "Lease calls sent, repeats included.",
    "lease_exchanges": "Exchanges that carried them.",
    "late_grants": "Grants that arrived when nobody waited for them any more, and were given back.",
}


class WorkerMetrics:
    """Counters of one worker; each instance has a registry of its own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.described: list[tuple[str, str, tuple[str, ...], str]] = []

        def describe(name: str, kind: str, text: str, *labels: str) -> str:
            self.described.append((_PREFIX + name, kind, labels, text))
            return _PREFIX + name

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(describe(name, "counter", text, *labels), text, labels, registry=registry)

        slices = counter("slices_total", "Slices that ended, by end reason.", "reason")
        self._slices = {reason: slices.labels(reason.name) for reason in EndReason}
        messages = counter("messages_total", "Messages, by what became of them: handled, failed, dead_lettered.", "outcome")
        self._messages = {outcome: messages.labels(outcome) for outcome in ("handled", "failed", "dead_lettered")}
        self._handler_seconds = counter("handler_seconds_total", "Time that handlers ran, in seconds.")
        self._handler_errors = counter("handler_errors_total", "Exceptions raised by handlers, by handler.", "handler")
        self.late_acks = counter("late_acks_total", "Handlers that ended well when their message could no longer be acked.")
        denials = counter("denials_total", "Denied asks for a lease, by reason.", "reason")
        self._denials = {reason: denials.labels(reason.name) for reason in DenialReason}
        tickets = counter("tickets_total", "Tickets, by what became of them: acked, returned, overdue, refused.", "outcome")
        self.tickets_acked = tickets.labels("acked")
        self.tickets_returned = tickets.labels("returned")
        self.tickets_overdue = tickets.labels("overdue")
        self.tickets_refused = tickets.labels("refused")
        self.broker_connections = counter(
            "broker_connections_total", "Connections to the broker that were opened, by purpose.", "purpose"
        )
        text = "Slots that hold a ticket."
        self.busy_slots = Gauge(describe("busy_slots", "gauge", text), text, registry=registry)
        self.blocked_loop = counter("blocked_loop_total", "Times that a handler blocked the loop for half a heartbeat or longer.")
        text = "Messages handled in a slice."
        self.slice_messages = Histogram(
            describe("slice_messages", "histogram", text),
            text,
            buckets=(0, 1, 2, 5, 10, 20, 50, 100, 1000, 10_000),
            registry=registry,
        )

    def count_calls_of(self, statistics: Callable[[], CallStatistics]) -> None:
        """Shows what a lease client has counted; it is asked at each scrape."""
        self.registry.register(_CallCollector(statistics))

    def slice_ended(self, end: SliceEnd) -> None:
        """Counts a slice."""
        totals = end.totals
        self._slices[end.reason].inc()
        self.slice_messages.observe(totals.messages)
        self._handler_seconds.inc(totals.handler_us / 1_000_000)
        self._messages["handled"].inc(totals.messages)
        if totals.failed:
            self._messages["failed"].inc(totals.failed)
        if totals.dead_lettered:
            self._messages["dead_lettered"].inc(totals.dead_lettered)

    def denied(self, reason: DenialReason) -> None:
        """Counts a denial."""
        self._denials[reason].inc()

    def handler_failed(self, handler: str) -> None:
        """Counts an exception of a handler."""
        self._handler_errors.labels(handler).inc()


class _CallCollector(Collector):
    def __init__(self, statistics: Callable[[], CallStatistics]) -> None:
        self._statistics = statistics

    def collect(self) -> Iterator[CounterMetricFamily]:
        counts = self._statistics()
        for (name, text), count in zip(_CALLS.items(), (counts.calls, counts.exchanges, counts.late_grants), strict=True):
            yield CounterMetricFamily(_PREFIX + name, text, count)


def metrics_page() -> str:
    """The table of all metrics, for the docs."""
    calls = [(f"{_PREFIX}{name}_total", "counter", (), text) for name, text in _CALLS.items()]
    lines = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
    for name, kind, labels, text in [*WorkerMetrics().described, *calls]:
        lines.append(f"| `{name}` | {kind} | {', '.join(labels) or '–'} | {text} |")
    return "\n".join(lines)


@contextmanager
def serve_metrics(
    host: str, port: int, registry: CollectorRegistry, unready_reasons: Callable[[], Sequence[str]]
) -> Iterator[int]:
    """Serves `/metrics` and `/ready` (200, or 503 with the reasons as JSON) in a thread; yields the port. Raises OSError.

    `unready_reasons` is called in that thread, and must only read.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/metrics":
                self._answer(200, CONTENT_TYPE_LATEST, generate_latest(registry))
            elif path == "/ready":
                reasons = list(unready_reasons())
                body = json.dumps({"ready": not reasons, "reasons": reasons}).encode()
                self._answer(503 if reasons else 200, "application/json", body)
            else:
                self._answer(404, "text/plain", b"only /metrics and /ready are here\n")

        def _answer(self, status: int, content_type: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name is http.server's
            """Scrapes are not logged."""

    server = ThreadingHTTPServer((host, port), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="slicelease-metrics", daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
