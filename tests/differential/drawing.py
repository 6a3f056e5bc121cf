"""Commands for the machine: few ids, so that they collide; leases, tickets and requests that exist, existed or never did."""

from __future__ import annotations

from typing import Protocol, TypeVar

from hypothesis import strategies as st

from slicelease.control_plane.domain import commands as c
from slicelease.control_plane.domain.ledger.state import LedgerState
from slicelease.control_plane.domain.names import LeaseKey, QueueKey
from slicelease.control_plane.domain.policy import ClassPolicy, Ordering, QueuePolicy, QueueType, SliceTerms, TenantPolicy

T = TypeVar("T")


class Draw(Protocol):
    """What `st.data()` gives."""

    def __call__(self, strategy: st.SearchStrategy[T]) -> T: ...


TENANTS = ("a", "a-1", "B", "b_2")
QUEUES = ("default", "q", "Q-x")
CLASSES = ("standard", "bulk", "Zz")
MESSAGES = ("m1", "m2")
REQUEST_IDS = ("r1", "r 2", "{r}:*")
USUAL = (QueueKey("a", "default"), QueueKey("a", "q"), QueueKey("a-1", "default"), QueueKey("B", "default"))
"""Queues that are there from the start."""

tenants = st.sampled_from((*TENANTS, "a", "a-1", "B"))
keys = st.sampled_from((*USUAL * 4, *(QueueKey(tenant, queue) for tenant in TENANTS for queue in QUEUES)))
class_ids = st.sampled_from((*CLASSES, *("standard", "bulk") * 2))
class_lists = st.sampled_from((("standard", "bulk"), ("bulk", "standard"), ("standard",), ("bulk",), CLASSES))
message_ids = st.sampled_from(((), (), ("m1",), ("m2",), ("m1", "m2"), ("m2", "m2")))
dry = st.sampled_from((*(False,) * 7, True))
etags = st.sampled_from((*("",) * 6, "1", "7"))
limits = st.sampled_from((100, 1, 2, 3))
totals = st.sampled_from((c.Totals(), c.Totals(3, 1, 1, 2**40, 9), c.Totals(20)))
terms = st.sampled_from(
    (
        SliceTerms(),
        SliceTerms(),
        SliceTerms(slice_ms=50, ordering=Ordering.NONE),
        SliceTerms(slice_messages=3, backoff_ms=300, backoff_cap_ms=1_000),
        SliceTerms(slice_ms=1_800_000, max_attempts=9, ordering=Ordering.STRICT),
    )
)
tenant_policies = st.builds(TenantPolicy, class_ids, st.sampled_from((100, 1, 7, 1_000)), st.sampled_from(("", "Ünï")))
queue_policies = st.builds(QueuePolicy, st.sampled_from(("", "", *CLASSES)), st.sampled_from(QueueType), terms)
class_policies = st.builds(
    ClassPolicy,
    st.sampled_from((10_000, 1_000, 300_000)),
    terms,
    st.sampled_from((QueueType.CLASSIC, QueueType.QUORUM)),
    st.sampled_from((0, 0, 1, 2)),
)
no_request = st.none()
requests = st.one_of(
    no_request, no_request, no_request, st.builds(c.RequestKey, st.sampled_from(REQUEST_IDS), st.sampled_from(("x", "x", "y")))
)
publishes = st.builds(c.RequestKey, st.sampled_from(REQUEST_IDS), st.sampled_from(("x", "x", "y")))

POLICIES: list[st.SearchStrategy[c.Command]] = [
    st.builds(c.CreateTenant, tenants, tenant_policies, dry, requests),
    *[st.builds(c.UpdateTenant, tenants, tenant_policies, etags, dry, requests)] * 3,
    *[st.builds(c.DeleteTenant, tenants, etags, dry, requests)] * 2,
    *[st.builds(c.CreateQueue, keys, queue_policies, dry, requests)] * 2,
    *[st.builds(c.UpdateQueue, keys, queue_policies, etags, dry, requests)] * 2,
    st.builds(c.DeleteQueue, keys, etags, dry, requests),
    st.builds(c.CreateClass, class_ids, class_policies, dry, requests),
    *[st.builds(c.UpdateClass, class_ids, class_policies, etags, dry, requests)] * 2,
    st.builds(c.DeleteClass, class_ids, etags, dry, requests),
    *[st.builds(c.Pause, keys, requests)] * 3,
    *[st.builds(c.Resume, keys, requests)] * 3,
]
READING: list[st.SearchStrategy[c.Command]] = [
    st.builds(c.GetTenant, tenants),
    st.builds(c.GetQueue, keys),
    st.builds(c.GetClass, class_ids),
    st.builds(c.ListTenants, st.sampled_from(("", *TENANTS)), limits),
    st.builds(c.ListClasses, st.sampled_from(("", *CLASSES)), limits),
    st.builds(c.ListQueues, st.sampled_from(("", *TENANTS)), st.one_of(st.just(""), keys.map(lambda key: key.member)), limits),
    st.builds(
        c.ListLeases,
        st.sampled_from(("", *TENANTS)),
        st.sampled_from(("", *QUEUES)),
        st.one_of(st.just(""), keys.map(lambda key: key.member)),
        limits,
    ),
    st.just(c.ReadStats()),
    st.just(c.Ping()),
]
PUBLISHES: list[st.SearchStrategy[c.Command]] = [
    *[st.builds(c.ClaimPublish, publishes, st.sampled_from(MESSAGES), st.just("c1"))] * 2,
    st.builds(c.ReleasePublish, publishes),
    st.builds(c.ReadAnswer, publishes),
]
LOOPS: list[st.SearchStrategy[c.Command]] = [
    st.builds(c.ExpireLapsed, limits),
    st.builds(c.WakeDue, limits),
    *[st.builds(c.ClaimAnnouncements, limits)] * 2,
    *[st.builds(c.ObserveAttention, class_ids, st.sampled_from((0, 0, 0, 3)))] * 2,
]
ENDINGS = (*(c.EndReason.EMPTY,) * 4, *(c.EndReason.ERROR, c.EndReason.UNUSED) * 3, c.EndReason.BROKER_LOST, *c.EndReason)
TICKS = (*(1,) * 8, 0, -1)
KINDS = (
    *("settle", "renew", "touch", "settle", "policy", "acquire", "loop", "settle", "policy", "repeat") * 2,
    *("renew", "touch", "touch", "give_back", "revoke", "get_lease", "mark", "reading", "reading", "publish"),
)
NEEDS_LEASE = ("settle", "renew", "give_back", "revoke", "get_lease")


class Commands:
    """Draws the next command of a step, knowing the state before the step and the requests already made."""

    def __init__(self, draw: Draw, state: LedgerState, now_us: int, last_n: dict[tuple[str, int], int]) -> None:
        self._draw, self._state, self._now_us, self._last_n = draw, state, now_us, last_n

    def any(self, history: list[c.Command]) -> c.Command:
        """One command; some repeat a former one to the byte."""
        kind = self._draw(st.sampled_from(KINDS))
        if kind == "repeat" and history:
            return self._draw(st.sampled_from(history[-8:]))
        if kind in NEEDS_LEASE and not self._alive() and self._draw(st.sampled_from((True, True, True, False))):
            kind = "acquire"
        if kind == "repeat":
            kind = "touch"
        drawn: c.Command = getattr(self, f"_{kind}")()
        return drawn

    def _acquire(self) -> c.Command:
        ticket_class, announcement_id = self._draw(st.sampled_from(self._tickets()))
        return c.Acquire(self._slot_request(), self._draw(class_lists), ticket_class, announcement_id)

    def _renew(self) -> c.Command:
        starting_id = self._draw(st.sampled_from(("m1", *MESSAGES, "")))
        finished_ids = self._draw(st.sampled_from(((), (), ("m2",), ("m1", "m2"))))
        return c.Renew(self._slot_request(), self._lease(), self._draw(totals), starting_id, finished_ids)

    def _settle(self) -> c.Command:
        lease = self._lease()
        counted = sorted(self._state.attempts.get(lease.of_queue, {}))
        return c.Settle(
            self._slot_request(),
            lease,
            self._draw(st.sampled_from(ENDINGS)),
            self._draw(totals),
            self._draw(message_ids),
            self._draw(st.sampled_from(((), (), ("m1",), ("m1", "m2")))),
            self._draw(st.sampled_from([*counted * 3, *MESSAGES, ""])),
            self._draw(st.booleans()),
            self._draw(class_lists),
        )

    def _touch(self) -> c.Command:
        leased = [key.of_queue for key in self._alive()]
        key = self._draw(st.sampled_from([*leased * 4, *sorted(self._state.queues)]) if leased else keys)
        return c.Touch(key, self._draw(st.none() | tenant_policies), self._draw(st.none() | st.none() | publishes))

    def _policy(self) -> c.Command:
        return self._draw(self._draw(st.sampled_from(POLICIES)))

    def _reading(self) -> c.Command:
        return self._draw(st.one_of(READING))

    def _publish(self) -> c.Command:
        return self._draw(self._draw(st.sampled_from(PUBLISHES)))

    def _loop(self) -> c.Command:
        return self._draw(self._draw(st.sampled_from(LOOPS)))

    def _give_back(self) -> c.Command:
        session, slot = self._slot()
        n = self._last_n.get((session, slot), 1)
        return c.GiveBack(session, slot, n, self._lease(), self._draw(st.sampled_from((1, 1, 2))))

    def _revoke(self) -> c.Command:
        return c.Revoke(self._lease(), self._draw(st.booleans()), self._draw(requests))

    def _get_lease(self) -> c.Command:
        return c.GetLease(self._lease())

    def _mark(self) -> c.Command:
        known = [announcement_id for record in self._state.classes.values() for announcement_id in record.owed]
        ids = self._draw(st.lists(st.sampled_from([*sorted(known)[:4], "9-9"]), min_size=1, max_size=3))
        return c.MarkPublished(self._draw(class_ids), tuple(ids))

    def _slot(self) -> tuple[str, int]:
        return self._draw(st.sampled_from((("w", 0), ("w", 1), ("v", 0))))

    def _slot_request(self) -> c.SlotRequest:
        session, slot = self._slot()
        last = self._last_n.get((session, slot), 0)
        n = max(1, last + self._draw(st.sampled_from(TICKS)))
        self._last_n[session, slot] = max(last, n)
        return c.SlotRequest(session, slot, n, self._draw(st.sampled_from(("d", "d", "d", "d", "e"))))

    def _lease(self) -> LeaseKey:
        """A lease that is held, or the one that an acquire of this very step would get, or none."""
        token = max(self._state.last_token + 1, self._now_us)
        next_one = [LeaseKey(key.tenant, key.queue, token) for key in sorted(self._state.queues)[:1]]
        over = [key for key in sorted(self._state.leases) if key not in self._alive()]
        return self._draw(st.sampled_from([*self._alive() * 5, *over, *next_one, LeaseKey("a", "default", 5)]))

    def _alive(self) -> list[LeaseKey]:
        return sorted(key for key, lease in self._state.leases.items() if lease.expires_ms > self._now_us // 1_000)

    def _tickets(self) -> list[tuple[str, str]]:
        out = [
            (class_id, announcement_id)
            for class_id, record in sorted(self._state.classes.items())
            for announcement_id in sorted([*record.owed, *record.published])[:3]
        ]
        return [("", ""), *out, ("standard", "9-9")]
