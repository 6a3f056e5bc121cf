"""Tenants, queues and classes: create, read, list, update, delete, and what each moves."""

from __future__ import annotations

from slicelease.control_plane.domain.commands import (
    CreateClass,
    CreateQueue,
    CreateTenant,
    DeleteClass,
    DeleteQueue,
    DeleteTenant,
    EndReason,
    GetClass,
    GetLease,
    GetQueue,
    GetTenant,
    ListClasses,
    ListLeases,
    ListQueues,
    ListTenants,
    ReadStats,
    UpdateClass,
    UpdateQueue,
    UpdateTenant,
)
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.outcomes import (
    ClassView,
    Deleted,
    LeaseView,
    Page,
    QueueState,
    QueueView,
    RefusalReason,
    Refused,
    Stats,
    TenantView,
)
from slicelease.control_plane.domain.policy import (
    BUILT_IN_CLASSES,
    ClassPolicy,
    Ordering,
    QueuePolicy,
    QueueType,
    SliceTerms,
    TenantPolicy,
)
from tests.contract.ledger.subject import Driver

ACME, MAIL = QueueKey("acme", "default"), QueueKey("acme", "mail")
TERMS = SliceTerms(7, 100, 3, 10, 50, Ordering.NONE)


def test_a_class_is_stored_as_given(ledger: Driver) -> None:
    policy = ClassPolicy(123, TERMS, QueueType.QUORUM, 4)
    created = ledger.do(CreateClass("gold", policy))
    assert isinstance(created, ClassView)
    assert (created.class_id, created.policy) == ("gold", policy)
    assert ledger.do(GetClass("gold")) == created
    assert ledger.do(CreateClass("gold", policy)) == Refused(RefusalReason.RESOURCE_EXISTS, "gold")


def test_a_tenant_comes_with_its_default_queue_ready(ledger: Driver) -> None:
    ledger.do(UpdateClass("standard", ClassPolicy(10_000, queue_type=QueueType.QUORUM)))
    created = ledger.do(CreateTenant("acme", TenantPolicy("standard", 250, "Acme Ltd")))
    assert isinstance(created, TenantView)
    assert ledger.do(GetTenant("acme")) == created
    queue = ledger.do(GetQueue(ACME))
    assert isinstance(queue, QueueView)
    assert (queue.state, queue.policy.queue_type, queue.effective_class) == (QueueState.READY, QueueType.QUORUM, "standard")
    assert ledger.grant().lease.of_queue == ACME


def test_a_queue_is_stored_as_given_and_keeps_its_type(ledger: Driver) -> None:
    ledger.add_class("gold", 100)
    ledger.do(CreateTenant("acme", TenantPolicy("standard")))
    created = ledger.do(CreateQueue(MAIL, QueuePolicy("gold", QueueType.QUORUM, TERMS)))
    assert isinstance(created, QueueView)
    assert (created.policy, created.effective_class) == (QueuePolicy("gold", QueueType.QUORUM, TERMS), "gold")
    updated = ledger.do(UpdateQueue(MAIL, QueuePolicy("", QueueType.CLASSIC)))
    assert isinstance(updated, QueueView)
    assert (updated.policy, updated.effective_class) == (QueuePolicy("", QueueType.QUORUM), "standard")


def test_validate_only_checks_and_changes_nothing(ledger: Driver) -> None:
    policy = TenantPolicy("standard")
    dry = ledger.do(CreateTenant("acme", policy, validate_only=True))
    assert isinstance(dry, TenantView)
    assert (dry.policy, dry.etag) == (policy, "")
    assert ledger.do(GetTenant("acme")) == Refused(RefusalReason.TENANT_NOT_FOUND, "acme")
    refused = ledger.do(CreateTenant("acme", TenantPolicy("gold"), validate_only=True))
    assert refused == Refused(RefusalReason.PRIORITY_CLASS_NOT_FOUND, "gold")
    ledger.do(CreateTenant("acme", policy))
    before = [ledger.do(GetTenant("acme")), ledger.do(GetQueue(ACME)), ledger.do(GetClass("standard"))]
    ledger.do(UpdateTenant("acme", TenantPolicy("standard", 5), validate_only=True))
    ledger.do(UpdateQueue(ACME, QueuePolicy(terms=TERMS), validate_only=True))
    ledger.do(UpdateClass("standard", ClassPolicy(1), validate_only=True))
    ledger.do(CreateQueue(MAIL, QueuePolicy(), validate_only=True))
    ledger.do(DeleteTenant("acme", validate_only=True))
    assert [ledger.do(GetTenant("acme")), ledger.do(GetQueue(ACME)), ledger.do(GetClass("standard"))] == before
    assert ledger.do(GetQueue(MAIL)) == Refused(RefusalReason.QUEUE_NOT_FOUND, "acme/mail")


def test_an_etag_that_is_not_current_is_refused(ledger: Driver) -> None:
    created = ledger.do(CreateTenant("acme", TenantPolicy("standard")))
    assert isinstance(created, TenantView)
    ledger.subject.advance(10)
    updated = ledger.do(UpdateTenant("acme", TenantPolicy("standard", 7), created.etag))
    assert isinstance(updated, TenantView)
    assert updated.etag != created.etag
    assert updated.updated_ms - updated.created_ms == 10
    stale = Refused(RefusalReason.ETAG_MISMATCH, "acme")
    assert ledger.do(UpdateTenant("acme", TenantPolicy("standard"), created.etag)) == stale
    assert ledger.do(DeleteTenant("acme", created.etag)) == stale
    assert ledger.do(UpdateClass("standard", ClassPolicy(1), "0")) == Refused(RefusalReason.ETAG_MISMATCH, "standard")
    assert ledger.do(UpdateQueue(ACME, QueuePolicy(), "0")) == Refused(RefusalReason.ETAG_MISMATCH, "acme/default")


def test_what_is_unknown_is_not_found(ledger: Driver) -> None:
    tenant = Refused(RefusalReason.TENANT_NOT_FOUND, "acme")
    for command in (GetTenant("acme"), UpdateTenant("acme", TenantPolicy("standard")), DeleteTenant("acme"), GetQueue(ACME)):
        assert ledger.do(command) == tenant
    assert ledger.do(CreateQueue(MAIL, QueuePolicy())) == tenant
    ledger.do(CreateTenant("acme", TenantPolicy("standard")))
    assert ledger.do(DeleteQueue(MAIL)) == Refused(RefusalReason.QUEUE_NOT_FOUND, "acme/mail")
    gold = Refused(RefusalReason.PRIORITY_CLASS_NOT_FOUND, "gold")
    assert ledger.do(CreateQueue(MAIL, QueuePolicy("gold"))) == gold
    assert ledger.do(UpdateQueue(ACME, QueuePolicy("gold"))) == gold
    assert ledger.do(UpdateTenant("acme", TenantPolicy("gold"))) == gold
    assert ledger.do(GetClass("gold")) == gold
    assert ledger.do(UpdateClass("gold", ClassPolicy(1))) == gold
    assert ledger.do(DeleteClass("gold")) == gold


def test_a_class_in_use_is_not_deleted(ledger: Driver) -> None:
    ledger.add_class("gold")
    ledger.do(CreateTenant("acme", TenantPolicy("gold")))
    ledger.do(CreateQueue(MAIL, QueuePolicy("gold")))
    in_use = Refused(RefusalReason.RESOURCE_IN_USE, "gold")
    assert ledger.do(DeleteClass("gold")) == in_use
    granted = ledger.grant("gold")
    ledger.do(UpdateTenant("acme", TenantPolicy("standard")))
    assert ledger.do(DeleteClass("gold")) == in_use
    ledger.do(UpdateQueue(MAIL, QueuePolicy()))
    assert ledger.do(DeleteClass("gold")) == in_use
    ledger.settled(granted, EndReason.EMPTY)
    assert ledger.do(DeleteClass("gold")) == Deleted()
    assert ledger.do(GetClass("gold")) == Refused(RefusalReason.PRIORITY_CLASS_NOT_FOUND, "gold")


def test_deleting_a_queue_ends_its_lease(ledger: Driver) -> None:
    ledger.do(CreateTenant("acme", TenantPolicy("standard")))
    ledger.settled(ledger.grant(), EndReason.EMPTY)
    ledger.do(CreateQueue(MAIL, QueuePolicy()))
    granted = ledger.grant()
    assert granted.lease.of_queue == MAIL
    assert ledger.do(DeleteQueue(MAIL)) == Deleted()
    assert ledger.do(GetLease(granted.lease)) == Refused(RefusalReason.LEASE_NOT_FOUND, f"acme/mail/{granted.lease.token}")
    late = ledger.settle(granted, EndReason.MESSAGES)
    assert late == Refused(RefusalReason.LEASE_OVER, f"acme/mail/{granted.lease.token}")
    ledger.do(CreateQueue(MAIL, QueuePolicy()))
    assert ledger.grant(slot=1).lease.token > granted.lease.token


def test_the_default_queue_goes_with_its_tenant_only(ledger: Driver) -> None:
    ledger.do(CreateTenant("acme", TenantPolicy("standard")))
    ledger.do(CreateQueue(MAIL, QueuePolicy()))
    assert ledger.do(DeleteQueue(ACME)) == Refused(RefusalReason.RESOURCE_IN_USE, "acme/default")
    assert ledger.do(DeleteTenant("acme")) == Refused(RefusalReason.RESOURCE_IN_USE, "acme")
    ledger.do(DeleteQueue(MAIL))
    assert ledger.do(DeleteTenant("acme")) == Deleted()
    assert ledger.do(GetQueue(ACME)) == Refused(RefusalReason.TENANT_NOT_FOUND, "acme")
    assert ledger.do(ListQueues()) == Page((), "")


def test_a_ready_queue_moves_with_its_own_class_and_keeps_its_wait(ledger: Driver) -> None:
    ledger.add_class("gold", 100)
    ledger.do(CreateTenant("acme", TenantPolicy("standard")))
    ledger.subject.advance(40)
    ledger.do(UpdateQueue(ACME, QueuePolicy("gold")))
    ledger.do(UpdateTenant("acme", TenantPolicy("standard", 5)))
    granted = ledger.grant("standard", "gold")
    assert (granted.priority_class, granted.waited_ms) == ("gold", 40)


def test_lists_are_paged_in_the_order_of_names(ledger: Driver) -> None:
    names = ["A", "a", "a-b", "a0", "a_b", "b"]
    for name in reversed(names):
        ledger.do(CreateTenant(name, TenantPolicy("standard")))
    seen, after = [], ""
    while True:
        page = ledger.do(ListTenants(after, 4))
        assert isinstance(page, Page)
        seen += [item.tenant for item in page.items if isinstance(item, TenantView)]
        after = page.next_after
        if not after:
            break
    assert seen == sorted(names)


def test_the_queues_of_one_tenant_are_listed_without_its_namesakes(ledger: Driver) -> None:
    for name in ("a", "a-b", "ab"):
        ledger.do(CreateTenant(name, TenantPolicy("standard")))
        ledger.do(CreateQueue(QueueKey(name, "mail"), QueuePolicy()))
    page = ledger.do(ListQueues("a", limit=1))
    assert isinstance(page, Page)
    assert (page.items[0], page.next_after) == (ledger.do(GetQueue(QueueKey("a", "default"))), "a/default")
    rest = ledger.do(ListQueues("a", page.next_after, 5))
    assert isinstance(rest, Page)
    assert (rest.items[0], rest.next_after) == (ledger.do(GetQueue(QueueKey("a", "mail"))), "")
    everything = ledger.do(ListQueues(limit=50))
    assert isinstance(everything, Page)
    assert len(everything.items) == 6


def test_leases_are_listed_by_queue_and_tenant(ledger: Driver) -> None:
    for name in ("a", "b"):
        ledger.do(CreateTenant(name, TenantPolicy("standard")))
        ledger.do(CreateQueue(QueueKey(name, "mail"), QueuePolicy()))
    held = {granted.lease for granted in (ledger.grant(slot=slot) for slot in range(4))}

    def listed(command: ListLeases) -> set[object]:
        page = ledger.do(command)
        assert isinstance(page, Page)
        return {item.lease for item in page.items if isinstance(item, LeaseView)}

    assert listed(ListLeases()) == held
    assert listed(ListLeases("a")) == {lease for lease in held if lease.tenant == "a"}
    assert listed(ListLeases("b", "mail")) == {lease for lease in held if lease.of_queue == QueueKey("b", "mail")}
    ledger.subject.advance(5_000)
    assert listed(ListLeases()) == set()


def test_lists_of_classes_and_counts(ledger: Driver) -> None:
    for class_id, policy in BUILT_IN_CLASSES.items():
        if class_id != "standard":
            ledger.do(CreateClass(class_id, policy))
    page = ledger.do(ListClasses(limit=2))
    assert isinstance(page, Page)
    assert (len(page.items), page.next_after) == (2, "interactive")
    ledger.touch("a")
    ledger.subject.advance(30)
    stats = ledger.do(ReadStats())
    assert isinstance(stats, Stats)
    assert (stats.tenants, stats.queues, stats.waiting, stats.closed_ms) == (1, 1, 0, 0)
    standard = next(found for found in stats.classes if found.class_id == "standard")
    assert (standard.ready, standard.leases, standard.owed, standard.published, standard.oldest_ready_ms) == (1, 0, 1, 0, 30)
