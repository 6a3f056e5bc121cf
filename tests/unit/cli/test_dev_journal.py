"""The journal: what counts as processed, repeated and out of order."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from slicelease.cli.dev.journal import Journal
from slicelease.cli.dev.load import demo_messages, demo_tenants

TENANTS = demo_tenants(3, "t")


def journal_of(published: int) -> Journal:
    journal = Journal(TENANTS)
    for message in itertools.islice(demo_messages(TENANTS, 1), published):
        journal.was_published(message)
    return journal


def run(journal: Journal, *sequences: int) -> None:
    for sequence in sequences:
        journal.was_started("t0", sequence)
        journal.was_finished("t0", sequence)


def test_in_order_and_once_is_neither_repeated_nor_out_of_order() -> None:
    journal = journal_of(0)
    run(journal, 0, 1, 2)
    assert (journal.processed, journal.repeated, journal.out_of_order) == (3, 0, 0)


def test_a_second_end_is_a_repeat() -> None:
    journal = journal_of(0)
    run(journal, 0, 1, 0, 1, 2)
    assert (journal.processed, journal.repeated, journal.out_of_order) == (3, 2, 0)


def test_a_start_before_an_earlier_one_is_finished_is_out_of_order_once() -> None:
    journal = journal_of(0)
    journal.was_started("t0", 0)
    journal.was_started("t0", 1)
    journal.was_started("t0", 1)
    journal.was_finished("t0", 1)
    journal.was_finished("t0", 0)
    run(journal, 2)
    assert (journal.processed, journal.repeated, journal.out_of_order) == (3, 0, 1)


def test_a_run_that_did_not_end_is_not_processed_and_its_repeat_is_in_order() -> None:
    journal = journal_of(0)
    journal.was_started("t0", 0)
    run(journal, 0, 1)
    assert (journal.processed, journal.repeated, journal.out_of_order) == (2, 0, 0)


def test_backlogs_are_those_of_published_and_unprocessed_messages() -> None:
    journal = journal_of(300)
    first = journal.tenants["t0"]
    assert journal.published == 300 == sum(one.published for one in journal.tenants.values())
    assert journal.backlogged("interactive") == ["t0"]
    assert journal.class_backlog("interactive") == first.published
    run(journal, *range(first.published))
    assert journal.backlogged("interactive") == []
    assert journal.class_backlog("interactive") == 0
    assert journal.backlogged("bulk") == ["t2"]


@given(st.lists(st.integers(0, 12)))
def test_counts_agree_with_a_plain_reckoning(sequences: list[int]) -> None:
    journal = journal_of(0)
    out_of_order = {s for at, s in enumerate(sequences) if s not in sequences[:at] and set(range(s)) - set(sequences[:at])}
    run(journal, *sequences)
    assert journal.processed == len(set(sequences))
    assert journal.repeated == len(sequences) - len(set(sequences))
    assert journal.out_of_order == len(out_of_order)
