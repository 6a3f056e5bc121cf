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
    "tokens come with READY": Variant(_CLASSES, p.FEW_ANNOUNCED, "settles B"),
    "tokens handed about by grants": Variant(_CLASSES, p.CAN_REST, "worker 2 asks and is denied"),
    "raised attention is a token": Variant(replace(_ONE, happens=frozenset({"touch"})), p.FEW_ANNOUNCED, "touches it"),
    "settle ignores dirty": Variant(_ONE, p.NO_BROKEN_STEP, "worker 1 settles A"),
    "settle without the barrier": Variant(_ONE, p.TOLD_OF_WORK, "takes back what a dead link held of A"),
    "a lost link settles like any other end": Variant(
        replace(_ONE, happens=frozenset({"lost link"})), p.TOLD_OF_WORK, "takes back what a dead link held of A"
    ),
    "empty is believed before H": Variant(
        replace(_TWO_SLOTS, happens=frozenset({"freeze"})), p.TOLD_OF_WORK, "closes its channel, returns its ticket"
    ),
    "empty is believed when told after H": Variant(
        replace(_TWO_SLOTS, happens=frozenset({"freeze"})), p.TOLD_OF_WORK, "worker 2 settles A"
    ),
    "an ordered queue does not rest": Variant(
        replace(_TWO_SLOTS, happens=frozenset({"freeze"}), ordered=True), p.IN_ORDER, "worker 2 fetches a message of A"
    ),
    "a replay grants the full validity": Variant(_REPLIES, p.ONE_HOLDER, "worker 2 receives the lease on A"),
    "a replay grants an ended lease": Variant(_REPLIES, p.ONE_HOLDER, "is granted its ended lease on A"),
    "give-back after a later reply": Variant(_REPLIES, p.ONE_HOLDER, "worker 2 receives the lease on A"),
    "a late settle is accepted": Variant(
        replace(_TWO_SLOTS, happens=frozenset({"freeze"})), p.ONE_HOLDER, "settles its old lease on A"
    ),
    "no top-up after touch": Variant(_ONE, p.BALANCED, "touches it"),
    "no top-up after ask": Variant(_CLASSES, p.BALANCED, "asks and is granted B"),
    "no top-up after settle": Variant(_ONE, p.BALANCED, "settles A"),
    "no top-up after expiry": Variant(replace(_ONE, happens=frozenset({"crash"})), p.BALANCED, "the lease on A lapses"),
    "no top-up after give-back": Variant(_REPLIES, p.BALANCED, "the give-back of A reaches the ledger"),
    "no top-up after due": Variant(replace(_ONE, happens=frozenset({"error"})), p.BALANCED, "the back-off of A is over"),
    "no top-up after resume": Variant(replace(_ONE, happens=frozenset({"pause"})), p.BALANCED, "A is resumed"),
    "no top-up after class change": Variant(
        replace(_CLASSES, happens=frozenset({"class change"})), p.BALANCED, "A moves to class 1"
    ),
    "no top-up after opening": Variant(replace(_ONE, happens=frozenset({"lost store"})), p.BALANCED, "admission opens"),
    "no top-up after look": Variant(replace(_ONE, happens=frozenset({"lost tickets"})), p.BALANCED, "are found lost"),
    "a denial is acked before it is recorded": Variant(
        replace(_ONE, happens=frozenset({"pause"}), prompt=_PROMPT - {"answer"}), p.BALANCED, "acks its ticket"
    ),
    "a ticket is acked before its answer": Variant(replace(_ONE, happens=frozenset({"crash"})), p.TICKETS_EXIST, "worker 1 dies"),
    "a duplicate counts as a token": Variant(FAST["two faults"], p.TURNS_BOUNDED, "asks and is granted B"),
    "no rule for lost tickets": Variant(
        replace(_ONE, happens=frozenset({"lost tickets"})), p.CAN_REST, "the attention queue of class 0 is lost"
    ),
    "no reconciler": Variant(
        replace(_ONE, happens=frozenset({"dead publisher"}), prompt=_PROMPT - {"publisher"}),
        p.CAN_REST,
        "dies before it touches A",
    ),
    "admission stays open after a loss": Variant(
        replace(_TWO_SLOTS, happens=frozenset({"lost store"})), p.ONE_HOLDER, "worker 2 asks and is granted A"
    ),
    "a lost store leaves no suspicion": Variant(
        replace(_TWO_SLOTS, happens=frozenset({"lost store"})), p.TOLD_OF_WORK, "closes its channel, returns its ticket"
    ),
    "usage is a counter that expiry forgets": Variant(
        replace(_ONE, happens=frozenset({"crash"}), ceilings=(1,)), p.CAN_REST, "worker 1 dies"
    ),
}
