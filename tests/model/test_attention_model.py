"""The rules hold in every reachable state of every configuration, each planted fault is found, and the page says so."""

from pathlib import Path

import pytest

from tests.model import document
from tests.model import state as s
from tests.model.attention_model import AttentionModel
from tests.model.configurations import FAST, SLOW
from tests.model.document import check, documented
from tests.model.explorer import reachable
from tests.model.setting import EVENTS, Setting
from tests.model.state import State
from tests.model.variants import VARIANTS


@pytest.mark.parametrize("name", FAST)
def test_the_rules_hold_in_every_reachable_state(name: str) -> None:
    report = check(FAST[name], limit=200_000)
    assert report.counterexample is None, str(report.counterexample)
    assert report.states == documented()[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_the_rules_hold_in_every_reachable_state_of_the_large_ones(name: str) -> None:
    report = check(SLOW[name])
    assert report.counterexample is None, str(report.counterexample)
    assert report.states == documented()[name]


@pytest.mark.parametrize("name", VARIANTS)
def test_a_planted_fault_is_found(name: str) -> None:
    variant = VARIANTS[name]
    found = check(variant.setting(name)).counterexample
    assert found is not None
    assert found.broken == variant.breaks
    assert variant.ends in found.steps[-1][0], str(found)
    assert len(found.steps) == documented()[name]


@pytest.mark.parametrize("name", VARIANTS)
def test_without_its_fault_the_setting_of_a_variant_holds(name: str) -> None:
    report = check(VARIANTS[name].base)
    assert report.counterexample is None, str(report.counterexample)


def test_the_page_knows_all_of_them_and_no_other() -> None:
    assert documented().keys() == FAST.keys() | SLOW.keys() | VARIANTS.keys()


def test_the_table_of_variants_is_fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "model.md"
    copy.write_text(document.PAGE.read_text())
    monkeypatch.setattr(document, "PAGE", copy)
    document.write("variants", document.variants())
    assert copy.read_text() == (document.ROOT / "docs/model.md").read_text()


def test_everything_that_may_happen_happens_somewhere() -> None:
    assert frozenset[str]().union(*(setting.happens for setting in FAST.values())) == EVENTS.keys()


def test_an_unknown_event_is_refused() -> None:
    with pytest.raises(ValueError, match="flood"):
        Setting(queues=(0,), serves=((0,),), happens=frozenset({"flood"}))


def test_every_state_of_a_queue_and_every_phase_of_a_slot_is_reached() -> None:
    names = "one queue, one slot", "in order", "lost store"
    states = [state for name in names for state in reachable(AttentionModel(FAST[name]))]
    assert {queue[1] for state in states for queue in state[0]} == {s.IDLE, s.READY, s.LEASED, s.WAITING, s.QUARANTINED}
    assert {worker[1] for state in states for worker in state[1]} == set(range(s.FREE, s.OUTDATED + 1))
    assert {queue[4] for state in states for queue in state[0]} == {0, s.SUSPECT, s.PASSED}
    assert {worker[6] for state in states for worker in state[1]} == {s.NO_GIVEBACK, s.GIVEBACK_DUE, s.GIVEBACK_OUTRUN}


SMALL = Setting(queues=(0, 0), serves=((0,), (0,)), happens=frozenset({"lost reply"}), prompt=frozenset({"publisher", "answer"}))


def test_a_canonical_state_is_its_own() -> None:
    assert all(s.canonical(state) == state for state in reachable(AttentionModel(SMALL)))


class Named(AttentionModel):
    """The model without its symmetry."""

    def canonical(self, state: State) -> State:
        return state


def test_symmetry_leaves_states_out_and_loses_none() -> None:
    named, alike = set(reachable(Named(SMALL))), set(reachable(AttentionModel(SMALL)))
    assert len(alike) < len(named)
    assert {s.canonical(state) for state in named} == alike
