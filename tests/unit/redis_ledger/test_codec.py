"""Every command and outcome survives its flat list, and nothing else is taken for one."""

import typing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicelease.control_plane.domain.commands import Command, Touch
from slicelease.control_plane.domain.names import LeaseKey, QueueKey
from slicelease.control_plane.domain.outcomes import Outcome, Settled
from slicelease.control_plane.domain.policy import Ordering, SliceTerms, TenantPolicy
from slicelease.control_plane.redis_ledger.codec import CodecError, command_arguments, command_of, outcome_of, reply_of

COMMANDS: tuple[Any, ...] = typing.get_args(Command)
OUTCOMES: tuple[Any, ...] = typing.get_args(Outcome)

ids = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,5}", fullmatch=True)
naturals = st.integers(0, 2**53)
st.register_type_strategy(QueueKey, st.builds(QueueKey, ids, ids))
st.register_type_strategy(LeaseKey, st.builds(LeaseKey, ids, ids, naturals))
st.register_type_strategy(
    SliceTerms, st.builds(SliceTerms, naturals, naturals, naturals, naturals, naturals, st.sampled_from(Ordering))
)
st.register_type_strategy(TenantPolicy, st.builds(TenantPolicy, ids, st.integers(1, 1_000), st.text()))


def on_the_wire(values: list[Any]) -> list[Any]:
    """As the store sees arguments: all text."""
    return [str(value) for value in values]


@pytest.mark.parametrize("kind", COMMANDS, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_a_command_survives(kind: Any, data: st.DataObject) -> None:
    command = data.draw(st.from_type(kind))
    arguments: list[Any] = ["before"]
    command_arguments(arguments, command)
    word, count, *rest = arguments[1:]
    assert count == len(rest)
    assert command_of(on_the_wire([word, count, *rest])) == command


@pytest.mark.parametrize("kind", OUTCOMES, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_an_outcome_survives(kind: Any, data: st.DataObject) -> None:
    outcome = data.draw(st.from_type(kind))
    assert outcome_of(reply_of(outcome)) == outcome


@pytest.mark.parametrize("kind", OUTCOMES, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(max_examples=10, deadline=None)
def test_a_reply_that_is_cut_or_too_long_is_no_outcome(kind: Any, data: st.DataObject) -> None:
    reply = reply_of(data.draw(st.from_type(kind)))
    with pytest.raises(CodecError):
        outcome_of(reply[:-1])
    with pytest.raises(CodecError):
        outcome_of([*reply, 0])


@pytest.mark.parametrize("reply", [["NONSENSE"], ["DENIED", 99, 0], ["DENIED", "x", 0], ["REFUSED", "NO_SUCH_REASON", "", 0]])
def test_a_strange_reply_is_no_outcome(reply: list[Any]) -> None:
    with pytest.raises(CodecError):
        outcome_of(reply)


def test_the_form_of_a_command_is_as_the_library_reads_it() -> None:
    arguments: list[Any] = []
    command_arguments(arguments, Touch(QueueKey("a", "q"), TenantPolicy("bulk", 50, "A b")))
    assert arguments == ["touch", 7, "a/q", 1, "bulk", 50, 2_000, "A b", 0]


def test_a_settle_with_a_next_lease_carries_it_behind_a_one() -> None:
    reply: list[Any] = ["SETTLED", 2, 0, 7, "bulk", 1, "a/q", 5, "bulk", 4, 3, 2, "1 2 3 4 5 1", 1]
    outcome = outcome_of(reply)
    assert isinstance(outcome, Settled)
    assert outcome.next is not None
    assert outcome.next.lease == LeaseKey("a", "q", 5)
    assert outcome.next.terms == SliceTerms(1, 2, 3, 4, 5, Ordering.STRICT)
