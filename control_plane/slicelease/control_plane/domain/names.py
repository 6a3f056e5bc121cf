"""Ids and names: the one rule, and every name built from it.

May live here: parsing and building of ids, resource names and broker names. May not know: what exists.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_MAX_SHOWN = 80

DEFAULT_QUEUE = "default"
"""Every tenant has a queue of this id."""

RESERVED_CLASS = "work"
"""No class may be called so: `attention.work` is the public way in."""

ATTENTION_EXCHANGE = "attention.exchange"
RAISED_QUEUE = "attention.work"
RAISED_KEY = "work"
DEAD_EXCHANGE = "dead.exchange"
DEAD_UNSORTED_EXCHANGE = "dead.unsorted"
DEAD_UNSORTED_QUEUE = "dead.unsorted"


class InvalidNameError(ValueError):
    """A name or id breaks the rule; `field` says where, the text says what is allowed."""

    def __init__(self, field: str, value: str, rule: str) -> None:
        self.field = field
        self.value = shown(value)
        super().__init__(f"{field}: {self.value} is not valid; {rule}")


class QueueKey(NamedTuple):
    """Identity of a work queue."""

    tenant: str
    queue: str

    @property
    def member(self) -> str:
        """`{tenant}/{queue}`, the form used inside the ledger; neither id can hold a slash."""
        return f"{self.tenant}/{self.queue}"

    @classmethod
    def from_member(cls, member: str) -> QueueKey:
        """The inverse of `member`."""
        tenant, _, queue = member.partition("/")
        return cls(tenant, queue)


class LeaseKey(NamedTuple):
    """Identity of a lease: its queue and its fencing token."""

    tenant: str
    queue: str
    token: int

    @property
    def of_queue(self) -> QueueKey:
        """The queue it is a lease on."""
        return QueueKey(self.tenant, self.queue)


def shown(value: str) -> str:
    """The value, quoted, control characters escaped and cut, fit for a log line or an error text."""
    text = value if len(value) <= _MAX_SHOWN else value[:_MAX_SHOWN] + "…"
    return repr(text)


def is_id(value: str) -> bool:
    """Whether the value is a valid tenant, queue or class id: `[A-Za-z0-9][A-Za-z0-9_-]{0,62}`, nothing before or after."""
    return _ID.fullmatch(value) is not None


def check_id(field: str, value: str) -> str:
    """The id itself; raises InvalidNameError naming the field."""
    if not is_id(value):
        raise InvalidNameError(field, value, "an id is 1 to 63 of A-Z a-z 0-9 _ - and begins with a letter or digit")
    return value


def check_class_id(field: str, value: str) -> str:
    """A class id: an id other than the reserved `work`; raises InvalidNameError."""
    if value == RESERVED_CLASS:
        raise InvalidNameError(field, value, "this id is reserved for raised attention")
    return check_id(field, value)


def _split(field: str, name: str, pattern: str) -> list[str]:
    wanted, given = pattern.split("/"), name.split("/")
    fits = len(wanted) == len(given) and all(w == "*" or w == g for w, g in zip(wanted, given, strict=True))
    if not fits:
        raise InvalidNameError(field, name, f"the form is {pattern.replace('*', '{id}')}")
    return [g for w, g in zip(wanted, given, strict=True) if w == "*"]


def parse_tenant(field: str, name: str) -> str:
    """`tenants/{t}` to its id; raises InvalidNameError."""
    (tenant,) = _split(field, name, "tenants/*")
    return check_id(field, tenant)


def parse_queue(field: str, name: str, *, default_allowed: bool = False) -> QueueKey:
    """`tenants/{t}/queues/{q}` to its key; with `default_allowed` also `tenants/{t}`, meaning the default queue.

    Raises InvalidNameError.
    """
    if default_allowed and name.count("/") == 1:
        return QueueKey(parse_tenant(field, name), DEFAULT_QUEUE)
    tenant, queue = _split(field, name, "tenants/*/queues/*")
    return QueueKey(check_id(field, tenant), check_id(field, queue))


def parse_class(field: str, name: str) -> str:
    """`priorityClasses/{c}` to its id; raises InvalidNameError."""
    (class_id,) = _split(field, name, "priorityClasses/*")
    return check_class_id(field, class_id)


def parse_lease(field: str, name: str) -> LeaseKey:
    """`tenants/{t}/queues/{q}/leases/{l}` to its key; raises InvalidNameError."""
    tenant, queue, lease = _split(field, name, "tenants/*/queues/*/leases/*")
    if not (lease.isascii() and lease.isdigit() and 1 <= len(lease) <= 16):
        raise InvalidNameError(field, name, "a lease id is its fencing token, a decimal number")
    return LeaseKey(check_id(field, tenant), check_id(field, queue), int(lease))


def tenant_name(tenant: str) -> str:
    """`tenants/{t}`."""
    return f"tenants/{tenant}"


def queue_name(key: QueueKey) -> str:
    """`tenants/{t}/queues/{q}`."""
    return f"tenants/{key.tenant}/queues/{key.queue}"


def class_name(class_id: str) -> str:
    """`priorityClasses/{c}`."""
    return f"priorityClasses/{class_id}"


def lease_name(key: LeaseKey) -> str:
    """`tenants/{t}/queues/{q}/leases/{l}`."""
    return f"{queue_name(key.of_queue)}/leases/{key.token}"


def amqp_queue(key: QueueKey) -> str:
    """`work.{t}` for the default queue, else `work.{t}.{q}`; ids hold no dots, so names never collide."""
    return f"work.{key.tenant}" if key.queue == DEFAULT_QUEUE else f"work.{key.tenant}.{key.queue}"


def attention_queue(class_id: str) -> str:
    """`attention.{c}`."""
    return f"attention.{class_id}"


def dead_queue(tenant: str) -> str:
    """`dead.{t}`, bound to the dead exchange with the tenant as routing key."""
    return f"dead.{tenant}"
