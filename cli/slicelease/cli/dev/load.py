"""The demo load: which tenant each message is for.

May live here: ids, classes and the seeded choice. May not know: gRPC, time. The same seed gives the same load.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass

DEMO_CLASSES = ("interactive", "standard", "bulk")
MESSAGE_TYPE = "slicelease.demo"


@dataclass(frozen=True, slots=True)
class DemoTenant:
    """A tenant of the demo, by the rank of its share of the load (from 0)."""

    rank: int
    tenant: str

    @property
    def priority_class(self) -> str:
        """Classes are dealt out in turn, so that each has large and small tenants."""
        return DEMO_CLASSES[self.rank % len(DEMO_CLASSES)]


@dataclass(frozen=True, slots=True)
class DemoMessage:
    """One message: its tenant and its number among that tenant's, from 0."""

    tenant: DemoTenant
    sequence: int

    @property
    def message_id(self) -> str:
        """Unique within the run, for the tenant's id is."""
        return f"{self.tenant.tenant}-{self.sequence}"

    @property
    def payload(self) -> bytes:
        """What the handler reads back."""
        return json.dumps({"tenant": self.tenant.tenant, "sequence": self.sequence}).encode()


def demo_tenants(count: int, prefix: str) -> list[DemoTenant]:
    """`count` tenants with ids that begin with `prefix`."""
    width = len(str(max(0, count - 1)))
    return [DemoTenant(rank, f"{prefix}{rank:0{width}}") for rank in range(count)]


def demo_messages(tenants: list[DemoTenant], seed: int) -> Iterator[DemoMessage]:
    """Endless messages; tenant of rank r gets its next one with a probability proportional to 1 / (r + 1) (Zipf, s = 1)."""
    dice = random.Random(seed)  # noqa: S311  a load, no secret
    cumulative = list(itertools.accumulate(1 / (tenant.rank + 1) for tenant in tenants))
    sequences = [itertools.count() for _ in tenants]
    while True:
        for tenant in dice.choices(tenants, cum_weights=cumulative, k=256):
            yield DemoMessage(tenant, next(sequences[tenant.rank]))


def read_payload(payload: bytes) -> tuple[str, int] | None:
    """Tenant and sequence number of a demo message, or None for anybody else's bytes."""
    try:
        content = json.loads(payload)
        return str(content["tenant"]), int(content["sequence"])
    except (ValueError, KeyError, TypeError):
        return None
