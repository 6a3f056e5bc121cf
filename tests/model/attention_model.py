"""The model: the ledger's rules and everything around them as the steps of one state.

May live here: who takes part. May not know: what anybody does.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model import state as s
from tests.model.explorer import Step
from tests.model.ledger_rules import LedgerRules
from tests.model.setting import Setting
from tests.model.slices import Slices
from tests.model.slots import Slots
from tests.model.state import Draft, State
from tests.model.surroundings import Announcer, Installation, LedgerClock, Operators, Publishers
from tests.model.words import describe

IN_SLICE = frozenset((s.SLICE, s.EMPTY, s.ENDING, s.FAILING, s.UNLINKED, s.LOST, s.OUTDATED))


class AttentionModel:
    """The model of one setting, for the explorer."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.rules = LedgerRules(setting.ceilings, setting.ordered, setting.variant, "announcer" in setting.prompt)
        self._by_queue = [actor(setting, self.rules) for actor in (Publishers, LedgerClock, Operators)]
        self._by_worker = Slots(setting, self.rules), Slices(setting, self.rules)
        self._others = [actor(setting, self.rules) for actor in (Announcer, Installation)]

    def initial(self) -> State:
        """All IDLE, no work, nobody holds anything. Slots that serve the same classes are alike."""
        queues = [s.Queue(priority) for priority in self.setting.queues]
        workers = [s.Worker(self.setting.serves.index(serves)) for serves in self.setting.serves]
        return Draft(queues, workers, [], [], [0] * len(self.setting.ceilings)).frozen()

    def canonical(self, state: State) -> State:
        """Queues, workers and ids have no names."""
        return s.canonical(state)

    def describe(self, state: State) -> str:
        """The state in words."""
        return describe(state)

    def successors(self, state: State) -> Iterator[Step[State]]:
        """Every step of everybody."""
        now = Draft.of(state)
        slots, slices = self._by_worker
        for index in range(len(now.queues)):
            for actor in self._by_queue:
                yield from actor.steps(state, now, index)
        for number, worker in enumerate(now.workers):
            yield from slots.steps(state, now, number)
            if worker.phase in IN_SLICE:
                yield from slices.steps(state, now, number)
        for other in self._others:
            yield from other.steps(state, now)
