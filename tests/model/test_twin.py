"""Model and specification agree: random walks through the model, with the ledger's commands beside them."""

import random
import re
from dataclasses import replace
from functools import cache

import pytest

from tests.model.configurations import FAST
from tests.model.setting import PROMPT, Setting
from tests.model.walk import PATTERNS, Walk

WALKS, STEPS = 40, 120

# The specification judges "empty" by when it is told, the model by when its lease was granted (docs/model.md).
DIFFERS = ""

# Announcers are prompt, and the store is not lost: creating everything again is not a step of the model.
SETTINGS = {
    name: replace(
        setting,
        prompt=setting.prompt | {"announcer"},
        happens=setting.happens - {"lost store", "double announcement"},
        variant=DIFFERS,
    )
    for name, setting in FAST.items()
}


def walk(setting: Setting, seed: int) -> list[str]:
    dice = random.Random(seed)
    taken = Walk(setting)
    for _ in range(STEPS):
        taken.advance(dice)
    return taken.told


@cache
def labels(name: str) -> frozenset[str]:
    return frozenset(label for seed in range(WALKS) for label in walk(SETTINGS[name], seed))


@pytest.mark.parametrize("name", SETTINGS)
def test_the_specification_does_what_the_model_says(name: str) -> None:
    assert any("settles" in label for label in labels(name))


def test_every_step_that_concerns_the_ledger_is_walked() -> None:
    told = frozenset[str]().union(*(labels(name) for name in SETTINGS))
    assert [pattern for pattern in PATTERNS if not any(re.search(pattern, label) for label in told)] == []


@pytest.mark.parametrize("variant", ["settle ignores dirty", "no top-up after settle"])
def test_the_comparison_finds_a_model_that_is_not_the_specification(variant: str) -> None:
    setting = Setting(queues=(0,), serves=((0,),), prompt=frozenset(PROMPT), variant=variant)
    with pytest.raises(AssertionError, match="the model has"):
        [walk(setting, seed) for seed in range(WALKS)]
