"""The demo load: seeded, skewed, numbered by tenant."""

import itertools
from collections import Counter

from slicelease.cli.dev.load import DEMO_CLASSES, demo_messages, demo_tenants, read_payload
from slicelease.control_plane.domain.names import is_id
from slicelease.control_plane.domain.policy import BUILT_IN_CLASSES


def sample(seed: int, count: int = 20_000) -> list[tuple[str, int]]:
    load = demo_messages(demo_tenants(100, "demo-"), seed)
    return [(message.tenant.tenant, message.sequence) for message in itertools.islice(load, count)]


def test_the_same_seed_gives_the_same_load_and_another_another() -> None:
    assert sample(7) == sample(7)
    assert sample(7) != sample(8)


def test_the_load_is_skewed_as_zipf_says() -> None:
    counts = Counter(tenant for tenant, _ in sample(7))
    harmonic = sum(1 / rank for rank in range(1, 101))
    for rank in (1, 2, 10):
        assert 0.85 < counts[f"demo-{rank - 1:02}"] / (20_000 / harmonic / rank) < 1.15


def test_each_tenants_messages_are_numbered_from_0_without_a_gap() -> None:
    seen: Counter[str] = Counter()
    for tenant, sequence in sample(7):
        assert sequence == seen[tenant]
        seen[tenant] += 1


def test_tenants_are_spread_over_the_classes_and_their_ids_are_valid() -> None:
    tenants = demo_tenants(500, "demo-abcdef-")
    assert set(DEMO_CLASSES) == set(BUILT_IN_CLASSES)
    assert set(Counter(tenant.priority_class for tenant in tenants).values()) <= {166, 167}
    assert all(is_id(tenant.tenant) for tenant in tenants)
    assert len({tenant.tenant for tenant in tenants}) == 500


def test_a_payload_is_read_back_and_anybody_elses_is_not() -> None:
    (message,) = itertools.islice(demo_messages(demo_tenants(1, "demo-"), 1), 1)
    assert read_payload(message.payload) == ("demo-0", 0)
    for foreign in (b"", b"\xff", b"[]", b"7", b'{"tenant":"a"}', b'{"tenant":"a","sequence":"x"}', b"{" * 5):
        assert read_payload(foreign) is None
