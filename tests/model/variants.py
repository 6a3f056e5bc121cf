"""Rules as they must not be: each plants one fault in one setting, and the explorer must find it.

May live here: the faults, what each breaks and how its trace ends. May not know: how a fault is planted (ledger_rules.py and
the actors name the variant at the place).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.model import properties as p
from tests.model.configurations import FAST
from tests.model.setting import PROMPT, Setting


@dataclass(frozen=True, slots=True)
class Variant:
    """A planted fault: the setting, the property that it breaks first, and words of the last step of a shortest trace."""

    base: Setting
    breaks: str
    ends: str

    def setting(self, name: str) -> Setting:
        """The base with the fault planted."""
        return replace(self.base, variant=name)


_PROMPT = frozenset(PROMPT)
_ONE = Setting(queues=(0,), serves=((0,),), prompt=_PROMPT)
_TWO_SLOTS = Setting(queues=(0,), serves=((0,), (0,)), prompt=_PROMPT, messages=2, in_hand=2)
_REPLIES = Setting(queues=(0,), serves=((0,), (0,)), happens=frozenset({"lost reply"}), prompt=_PROMPT - {"answer"})
_CLASSES = Setting(queues=(0, 1), serves=((0, 1), (0,)), ceilings=(0, 0), prompt=_PROMPT)

VARIANTS: dict[str, Variant] = {
    "tokens handed about by grants": Variant(_CLASSES, p.CAN_REST, ""),
    "raised attention is a token": Variant(replace(_ONE, happens=frozenset({"touch"})), p.FEW_ANNOUNCED, ""),
    "settle ignores dirty": Variant(_ONE, p.NO_BROKEN_STEP, ""),
    "settle without the barrier": Variant(_ONE, p.TOLD_OF_WORK, ""),
    "a lost link settles like any other end": Variant(replace(_ONE, happens=frozenset({"lost link"})), p.TOLD_OF_WORK, ""),
    "empty is believed before H": Variant(replace(_TWO_SLOTS, happens=frozenset({"freeze"})), p.TOLD_OF_WORK, ""),
    "empty is believed when told after H": Variant(replace(_TWO_SLOTS, happens=frozenset({"freeze"})), p.TOLD_OF_WORK, ""),
    "an ordered queue does not rest": Variant(replace(_TWO_SLOTS, happens=frozenset({"freeze"}), ordered=True), p.IN_ORDER, ""),
    "a replay grants the full validity": Variant(_REPLIES, p.ONE_HOLDER, ""),
    "a replay grants an ended lease": Variant(_REPLIES, p.ONE_HOLDER, ""),
    "give-back after a later reply": Variant(_REPLIES, p.ONE_HOLDER, ""),
    "a late settle is accepted": Variant(replace(_TWO_SLOTS, happens=frozenset({"freeze"})), p.ONE_HOLDER, ""),
    "no top-up after touch": Variant(_ONE, p.BALANCED, ""),
    "no top-up after ask": Variant(_CLASSES, p.BALANCED, ""),
    "no top-up after settle": Variant(_ONE, p.BALANCED, ""),
    "no top-up after expiry": Variant(replace(_ONE, happens=frozenset({"crash"})), p.BALANCED, ""),
    "no top-up after give-back": Variant(_REPLIES, p.BALANCED, ""),
    "no top-up after due": Variant(replace(_ONE, happens=frozenset({"error"})), p.BALANCED, ""),
    "no top-up after resume": Variant(replace(_ONE, happens=frozenset({"pause"})), p.BALANCED, ""),
    "no top-up after class change": Variant(replace(_CLASSES, happens=frozenset({"class change"})), p.BALANCED, ""),
    "no top-up after opening": Variant(replace(_ONE, happens=frozenset({"lost store"})), p.BALANCED, ""),
    "no top-up after look": Variant(replace(_ONE, happens=frozenset({"lost tickets"})), p.BALANCED, ""),
    "a denial is acked before it is recorded": Variant(
        replace(_ONE, happens=frozenset({"pause"}), prompt=_PROMPT - {"answer"}), p.TICKETS_EXIST, ""
    ),
    "a ticket is acked before its answer": Variant(replace(_ONE, happens=frozenset({"crash"})), p.TICKETS_EXIST, ""),
    "a duplicate counts as a token": Variant(FAST["two faults"], p.TURNS_BOUNDED, ""),
    "no rule for lost tickets": Variant(replace(_ONE, happens=frozenset({"lost tickets"})), p.CAN_REST, ""),
    "no reconciler": Variant(
        replace(_ONE, happens=frozenset({"dead publisher"}), prompt=_PROMPT - {"publisher"}), p.CAN_REST, ""
    ),
    "admission stays open after a loss": Variant(replace(_TWO_SLOTS, happens=frozenset({"lost store"})), p.ONE_HOLDER, ""),
    "a lost store leaves no suspicion": Variant(replace(_TWO_SLOTS, happens=frozenset({"lost store"})), p.TOLD_OF_WORK, ""),
    "usage is a counter that expiry forgets": Variant(
        replace(_ONE, happens=frozenset({"crash"}), ceilings=(1,)), p.CAN_REST, ""
    ),
}
