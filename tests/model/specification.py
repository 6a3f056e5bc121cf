"""The ledger's specification as the model sees it: everything lasts for ever, until the event that ends it.

May live here: commands, ends set to now, and the specification's state in the model's words. May not know: walks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from slicelease.control_plane.domain import commands as c
from slicelease.control_plane.domain.ledger import LedgerState, run_step
from slicelease.control_plane.domain.names import LeaseKey, QueueKey
from slicelease.control_plane.domain.outcomes import Announcements, Granted, Outcome, QueueState
from slicelease.control_plane.domain.policy import ClassPolicy, LedgerConfig, Ordering, QueuePolicy, SliceTerms, TenantPolicy
from tests.model import state as s
from tests.model.setting import QUEUE_NAMES, Setting

EVER_MS: Final = 10**12
_STATES = {QueueState.IDLE: s.IDLE, QueueState.READY: s.READY, QueueState.LEASED: s.LEASED, QueueState.WAITING: s.WAITING}


def key_of(name: str) -> QueueKey:
    """The queue that the model calls A, B or C."""
    return QueueKey(name, "default")


class Specification:
    """A ledger with the setting's queues at rest. Classes are c0, c1; `ids` lists those published, oldest first."""

    def __init__(self, setting: Setting) -> None:
        terms = SliceTerms(20, 5_000, 5, EVER_MS, EVER_MS, Ordering.STRICT if setting.ordered else Ordering.NONE)
        self._config = LedgerConfig(
            lease_ms=EVER_MS, first_lease_ms=EVER_MS, quarantine_ms=EVER_MS, claim_ms=EVER_MS, terms=terms, open_when_new=True
        )
        self._queues = range(len(setting.queues))
        self._ledger = LedgerState()
        self._now_ms = 1_000_000
        self.ids: list[str] = []
        self.do(*(c.CreateClass(f"c{p}", ClassPolicy(1_000 + p)) for p in range(len(setting.ceilings))))
        self.do(*(c.CreateTenant(QUEUE_NAMES[i], TenantPolicy(f"c{p}")) for i, p in enumerate(setting.queues)))
        self._come_to_rest()
        self.do(*(c.UpdateClass(f"c{p}", ClassPolicy(1_000 + p, max_leases=most)) for p, most in enumerate(setting.ceilings)))

    def _come_to_rest(self) -> None:
        """A new queue is READY: each is found empty once, and what was announced is asked with."""
        classes = tuple(self._ledger.classes)
        for slot in self._queues:
            granted = self.one(c.Acquire(c.SlotRequest("setup", slot, 1, "a"), classes))
            assert isinstance(granted, Granted)
            self.do(c.Settle(c.SlotRequest("setup", slot, 2, "s"), granted.lease, c.EndReason.EMPTY, c.Totals()))
        self.publish()
        assert self.ids == [], "owed ids that nobody needs are struck"

    def do(self, *commands: c.Command) -> list[Outcome]:
        """One step."""
        return run_step(self._ledger, commands, self._now_ms * 1_000, self._config, "run")

    def one(self, command: c.Command) -> Outcome:
        """A step of one command."""
        return self.do(command)[0]

    # ---- events ---------------------------------------------------------------------------------------------------------

    def touch(self, name: str) -> None:
        self.do(c.Touch(key_of(name)))

    def lapse(self, name: str) -> None:
        (lease,) = (lease for key, lease in self._ledger.leases.items() if key.tenant == name)
        lease.expires_ms = self._now_ms
        self.do(c.ExpireLapsed())

    def due(self, name: str) -> None:
        key = key_of(name)
        self._ledger.waiting[key] = self._ledger.queues[key].due_ms = self._now_ms
        self.do(c.WakeDue())

    def pass_h(self, name: str, *, resting: bool) -> None:
        self._now_ms += 1  # what is granted from now on is granted after H
        self._ledger.queues[key_of(name)].suspect_ms = self._now_ms
        if resting:
            self.due(name)

    def pause(self, name: str) -> None:
        self.do(c.Pause(key_of(name)))

    def resume(self, name: str) -> None:
        self.do(c.Resume(key_of(name)))

    def move(self, name: str, priority: str) -> None:
        self.do(c.UpdateQueue(key_of(name), QueuePolicy(f"c{priority}")))

    def look(self, priority: str) -> None:
        self.do(c.ObserveAttention(f"c{priority}", 0))
        self._now_ms += self._config.look_ms
        self.do(c.ObserveAttention(f"c{priority}", 0))

    def publish(self) -> None:
        """A prompt announcer."""
        claimed = self.one(c.ClaimAnnouncements())
        assert isinstance(claimed, Announcements)
        for class_id, announcement_id in claimed.claimed:
            self.do(c.MarkPublished(class_id, (announcement_id,)))
        out = {name for record in self._ledger.classes.values() for name in record.published}
        new = [announcement_id for _, announcement_id in claimed.claimed]
        self.ids = [name for name in self.ids if name in out and name not in new] + new

    # ---- state ----------------------------------------------------------------------------------------------------------

    def state(self) -> Iterator[object]:
        """Each queue as (state, paused, dirty, class, class of its live lease), and the classes of the published ids."""
        for index in self._queues:
            key = key_of(QUEUE_NAMES[index])
            record = self._ledger.queues[key]
            lease = self._ledger.leases.get(LeaseKey(*key, record.token))
            own = record.policy.priority_class or self._ledger.tenants[key.tenant].policy.priority_class
            yield _STATES[record.state], record.paused, record.dirty, own, lease.priority_class if lease else ""
        classes = {name: class_id for class_id, record in self._ledger.classes.items() for name in record.published}
        yield [classes[name] for name in self.ids]
