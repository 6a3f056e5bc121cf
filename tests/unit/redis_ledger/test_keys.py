"""The key table: each key is of one kind, whatever the ids are, and the library builds no others."""

import re

import pytest

from slicelease.control_plane.redis_ledger.keys import TABLE, key_of, keys_page, prefix
from slicelease.control_plane.redis_ledger.library import parts


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("meta", "meta"),
        ("tenant:a", "tenant:<tenant>"),
        ("queue:a/b-c", "queue:<tenant>/<queue>"),
        ("turns:bulk/a", "turns:<class>/<tenant>"),
        ("lease:a/b/17", "lease:<tenant>/<queue>/<token>"),
        ("slot:s/0", "slot:<session>/<slot>"),
        ("req:any thing/{at}:all*\n", "req:<request_id>"),
    ],
)
def test_a_key_is_found_by_its_name(name: str, pattern: str) -> None:
    key = key_of(name)
    assert key is not None
    assert key.pattern == pattern
    assert sum(kind.matches(name) for kind in TABLE) == 1


@pytest.mark.parametrize("name", ["metas", "tenant:", "queue:a", "queue:a/b/c", "turns:bulk", "lease:a/b", "other", ""])
def test_a_stranger_is_of_no_kind(name: str) -> None:
    assert key_of(name) is None


def test_the_library_builds_keys_of_the_table_only() -> None:
    beginnings = {key.pattern.partition("<")[0] for key in TABLE}
    built = {start for text in parts().values() for start in re.findall(r"(?:prefix|\bp) \.\. '([^']+)'", text)}
    built |= {start for text in parts().values() for start in re.findall(r"\bcut\('([^']+)'", text)}
    assert built == beginnings


def test_the_cell_is_the_hash_tag() -> None:
    assert prefix("eu-1") == "{slicelease:eu-1}:"


def test_the_page_has_a_row_for_each_kind() -> None:
    rows = [line for line in keys_page().splitlines() if line.startswith("| `")]
    assert len(rows) == len(TABLE)
    assert all(row.count("|") == 5 for row in rows)
