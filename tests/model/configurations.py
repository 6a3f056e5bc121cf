"""The settings that are explored, each small enough to be explored whole, each with its own subject.

May live here: names and settings. May not know: what is found (docs/model.md has the numbers).
"""

from __future__ import annotations

from tests.model.setting import PROMPT, Setting

_ALL_PROMPT = frozenset(PROMPT)
_PUBLISHING_PROMPT = frozenset({"publisher", "announcer"})

FAST: dict[str, Setting] = {
    "one queue, one slot": Setting(
        queues=(0,),
        serves=((0,),),
        happens=frozenset(
            {"crash", "freeze", "lost reply", "lost link", "error", "dead publisher", "touch"}
            | {"double announcement", "pause", "purge", "lost tickets"}
        ),
    ),
    "one queue, two slots": Setting(
        queues=(0,),
        serves=((0,), (0,)),
        happens=frozenset({"crash", "freeze", "lost reply", "lost link", "error", "dead publisher", "touch"}),
        messages=2,
        in_hand=2,
        stale=1,
    ),
    "lost store": Setting(
        queues=(0,),
        serves=((0,), (0,)),
        happens=frozenset({"crash", "freeze", "lost reply", "dead publisher", "lost store"}),
    ),
    "lost store and tickets, two queues": Setting(
        queues=(0, 0),
        serves=((0,),),
        happens=frozenset({"crash", "lost store", "lost tickets"}),
        prompt=_ALL_PROMPT,
    ),
    "in order": Setting(
        queues=(0,),
        serves=((0,), (0,)),
        happens=frozenset({"crash", "freeze", "lost link", "error", "pause", "lost store"}),
        prompt=_ALL_PROMPT,
        ordered=True,
        messages=2,
        in_hand=2,
    ),
    "two queues, crashes": Setting(
        queues=(0, 0), serves=((0,), (0,)), happens=frozenset({"crash", "freeze"}), prompt=_ALL_PROMPT, stale=1
    ),
    "two queues, lost replies": Setting(
        queues=(0, 0), serves=((0,), (0,)), happens=frozenset({"lost reply"}), prompt=_PUBLISHING_PROMPT, stale=1
    ),
    "two classes, moving": Setting(
        queues=(0, 1),
        serves=((0, 1), (0,)),
        happens=frozenset({"class change", "pause", "touch"}),
        ceilings=(1, 1),
        prompt=_ALL_PROMPT,
    ),
    "two classes, freezes": Setting(
        queues=(0, 1), serves=((0, 1), (1,)), happens=frozenset({"freeze"}), ceilings=(0, 0), prompt=_ALL_PROMPT, stale=1
    ),
    "two classes, moving, with freezes": Setting(
        queues=(0, 1),
        serves=((0, 1),),
        happens=frozenset({"class change", "freeze"}),
        ceilings=(1, 1),
        prompt=_ALL_PROMPT,
        stale=1,
    ),
    "ceiling, three queues": Setting(
        queues=(0, 0, 0),
        serves=((0,), (0,)),
        happens=frozenset({"freeze", "error"}),
        ceilings=(1,),
        prompt=_ALL_PROMPT,
        stale=1,
    ),
    "announcer": Setting(
        queues=(0, 0),
        serves=((0,),),
        happens=frozenset({"double announcement", "touch", "pause", "lost tickets"}),
        prompt=frozenset({"publisher", "answer"}),
        stale=3,
    ),
    "two faults": Setting(
        queues=(0, 0), serves=((0,),), happens=frozenset({"crash"}), prompt=_ALL_PROMPT, stale=9, strays=2, faults=2
    ),
}

SLOW: dict[str, Setting] = {
    "two queues, two slots, nobody prompt": Setting(queues=(0, 0), serves=((0,), (0,)), happens=frozenset({"crash"}), stale=1),
    "two queues, lost store": Setting(
        queues=(0, 0), serves=((0,), (0,)), happens=frozenset({"crash", "lost store"}), prompt=_PUBLISHING_PROMPT, stale=2
    ),
}
"""Explored by hand and in the long runs."""
