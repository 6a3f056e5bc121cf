"""Whether this process can be used: one real ledger step a second, the broker's own word, and what is still to be set up.

May live here: that judgement, its texts, and whom it is told to. May not know: Redis, AMQP; a driver's text is logged, not shown.

While admission is closed (a new or restarted store, until every older lease must have ended) `slicelease.ledger` and the whole
are NOT_SERVING: nothing is granted, though publishing works.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic

import structlog

from slicelease.control_plane.domain.commands import CreateClass, ListClasses, Ping, ReadStats
from slicelease.control_plane.domain.outcomes import ClassView, Page, Pong, RefusalReason, Refused, Stats
from slicelease.control_plane.domain.policy import BUILT_IN_CLASSES
from slicelease.control_plane.metrics import Metrics
from slicelease.control_plane.ports import Broker, BrokerUnavailableError, Ledger, LedgerUnavailableError, LedgerVersionError
from slicelease.control_plane.rpc.health import OVERALL, HealthService

REDIS, RABBITMQ, LEDGER = "slicelease.redis", "slicelease.rabbitmq", "slicelease.ledger"
PING_TIMEOUT_S = 2.0
STALLED_S = 15.0
"""Without a pass for so long, the event loop itself must be stuck."""
_PAGE = 1_000

_log = structlog.get_logger("slicelease.readiness")


@dataclass(frozen=True, slots=True)
class Report:
    """Reasons by component, None where it can be used; `draining` while the process shuts down."""

    reasons: Mapping[str, str | None] = field(default_factory=lambda: dict.fromkeys((REDIS, RABBITMQ, LEDGER), "starting"))
    draining: bool = False

    @property
    def ready(self) -> bool:
        """Whether all can be used."""
        return not self.draining and all(reason is None for reason in self.reasons.values())

    def shown(self) -> dict[str, object]:
        """As /ready shows it."""
        components = {name: {"ready": reason is None, "reason": reason} for name, reason in self.reasons.items()}
        return {"ready": self.ready, "draining": self.draining, "components": components}


class Readiness:
    """Looks once a second, sets up what is missing, and tells health, metrics and /ready."""

    def __init__(self, ledger: Ledger, broker: Broker, health: HealthService, metrics: Metrics) -> None:
        self._ledger = ledger
        self._broker = broker
        self._health = health
        self._metrics = metrics
        self._set_up_for: int | None = None
        self._topology_declared = False
        self._last_pass = monotonic()
        self.report = Report()

    @property
    def live(self) -> bool:
        """Whether the event loop still comes round."""
        return monotonic() - self._last_pass < STALLED_S

    async def run_once(self) -> bool:
        """One look. A fault of ours makes nothing ready, and goes on to whoever runs the loop."""
        self._last_pass = monotonic()
        try:
            store, ledger = await self._look_at_ledger()
            self._last_pass = monotonic()
            rabbitmq = await self._look_at_broker(ledger_answers=store is None)
        except Exception:
            self._tell(Report(dict.fromkeys(self.report.reasons, "the look itself failed; see the log"), self.report.draining))
            raise
        self._tell(Report({REDIS: store, RABBITMQ: rabbitmq, LEDGER: ledger or store}, self.report.draining))
        return False

    def drain(self) -> None:
        """Not ready from now on, whatever is seen later."""
        self._tell(Report(self.report.reasons, draining=True))

    # ---- the ledger -------------------------------------------------------------------------------------------------

    async def _look_at_ledger(self) -> tuple[str | None, str | None]:
        """Reasons of the store and of the ledger in it."""
        try:
            async with asyncio.timeout(PING_TIMEOUT_S):
                pong, stats = await self._ledger.execute([Ping(), ReadStats()])
                if not isinstance(pong, Pong) or not isinstance(stats, Stats):
                    return None, "the ledger answers nonsense"
                self._metrics.stats(stats)
                return None, await self._judge(pong, stats)
        except LedgerVersionError:
            return None, "the store holds a ledger of a newer version of the control plane"
        except (LedgerUnavailableError, TimeoutError) as error:
            _log.debug("the ledger did not answer", text=str(error))
            return "the ledger's store does not answer, or its functions are missing", None

    async def _judge(self, pong: Pong, stats: Stats) -> str | None:
        if self._set_up_for != pong.generation or not stats.classes:  # the first look, or the store was restarted or emptied
            await self._create_classes()
            self._set_up_for, self._topology_declared = pong.generation, False
        if pong.closed_ms > 0:
            return f"admission closed for {pong.closed_ms / 1_000:.1f} s: older leases may still be live"
        return None

    async def _create_classes(self) -> None:
        """The built-in classes, in a ledger that has none. Another replica may be doing the same."""
        (page,) = await self._ledger.execute([ListClasses(limit=1)])
        if isinstance(page, Page) and page.items:
            return
        outcomes = await self._ledger.execute([CreateClass(class_id, policy) for class_id, policy in BUILT_IN_CLASSES.items()])
        odd = [each for each in outcomes if isinstance(each, Refused) and each.reason is not RefusalReason.RESOURCE_EXISTS]
        _log.info("created the built-in priority classes", classes=list(BUILT_IN_CLASSES), refused=len(odd))

    # ---- the broker -------------------------------------------------------------------------------------------------

    async def _look_at_broker(self, *, ledger_answers: bool) -> str | None:
        reason = self._broker.unready_reason()
        if reason is not None:
            self._topology_declared = False  # it may come back without it
            return reason
        if self._topology_declared:
            return None
        if not ledger_answers:
            return "its topology is not declared yet: the ledger has the list of classes"
        return await self._declare()

    async def _declare(self) -> str | None:
        try:
            await self._broker.declare_topology(await self._classes())
        except (BrokerUnavailableError, LedgerUnavailableError) as error:
            _log.debug("the topology could not be declared", text=str(error))
            return "its topology could not be declared"
        self._topology_declared = True
        return None

    async def _classes(self) -> list[str]:
        found: list[str] = []
        after = ""
        while True:
            (page,) = await self._ledger.execute([ListClasses(after, _PAGE)])
            if not isinstance(page, Page):
                return found
            found += [view.class_id for view in page.items if isinstance(view, ClassView)]
            if not (after := page.next_after):
                return found

    # ---- telling ----------------------------------------------------------------------------------------------------

    def _tell(self, report: Report) -> None:
        changed = {name: why for name, why in report.reasons.items() if _kind(why) != _kind(self.report.reasons[name])}
        for name, reason in changed.items():
            _log.info("readiness changed", component=name, ready=reason is None, reason=reason)
        self.report = report
        serving = {name: reason is None and not report.draining for name, reason in report.reasons.items()}
        self._health.set({OVERALL: report.ready, **serving})
        for name, reason in report.reasons.items():
            self._metrics.set("ready", float(reason is None), name)
        self._metrics.set("ready", float(report.ready), "all")


def _kind(reason: str | None) -> str | None:
    """The reason without its changing numbers."""
    return None if reason is None else reason.partition(" for ")[0]
