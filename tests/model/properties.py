"""What must hold in every state, and the state that must stay in reach.

May live here: predicates over a state, under a setting. May not know: steps.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.model import state as s
from tests.model.balance import TOKENS_BY_GRANTS
from tests.model.explorer import Named
from tests.model.ledger_rules import LedgerRules
from tests.model.setting import Setting
from tests.model.state import Draft, State

ONE_HOLDER = "a queue has one holder that can ack, and a holder has a live lease (rule 3)"
TOLD_OF_WORK = "an IDLE queue has no work that nobody will tell of (rules 1 and 2)"
NO_BROKEN_STEP = "settle never ends IDLE on a dirty queue (rule 2)"
BALANCED = "no class has more grantable queues than announcements out (rule 6)"
FEW_ANNOUNCED = "no class has more announcements out than there are queues (rule 6)"
TICKETS_EXIST = "every published announcement is in the attention queue or in a worker's hand (rule 8)"
UNDER_CEILING = "no class has more live leases than its ceiling (rule 3)"
IN_ORDER = "nobody works on a queue in order while a lost holder has messages of it (rule 13)"
TURNS_BOUNDED = "a fault costs one turn without a token at most (rule 6)"
CAN_REST = "all IDLE, no work and no ticket can still be reached"


def invariants(setting: Setting) -> list[Named[State]]:
    """The invariants that have a meaning under the setting, cheap ones first."""
    rules = LedgerRules(setting.ceilings, setting.ordered, setting.variant)
    found: list[Named[State]] = [
        (NO_BROKEN_STEP, lambda state: not state[6]),
        (TOLD_OF_WORK, _told_of_work),
        (FEW_ANNOUNCED, _few_announced),
        (ONE_HOLDER, _one_holder),
    ]
    if setting.variant not in TOKENS_BY_GRANTS:
        found.append((BALANCED, _on_draft(lambda d: all(d.live(p) >= rules.grantable(d, p) for p in range(len(d.stale))))))
    if "lost tickets" not in setting.happens:
        found.append((TICKETS_EXIST, _tickets_exist))
    if any(setting.ceilings):
        found.append((UNDER_CEILING, _on_draft(lambda d: _under_ceiling(d, setting.ceilings))))
    if setting.ordered:
        found.append((IN_ORDER, _on_draft(_in_order)))
    if setting.faults:
        found.append((TURNS_BOUNDED, lambda state: state[5][2] <= state[5][1]))
    return found


def goal(setting: Setting) -> Named[State]:
    """The state that everything must be able to come to without another fault, operator or publish.

    An announcement whose ticket was lost stays out until a queue needs it (rule 17): that is rest, too.
    """
    if "lost tickets" in setting.happens:
        return CAN_REST, lambda state: _at_rest(state) and all(a[1] and not a[2] for a in state[3])
    return CAN_REST, lambda state: _at_rest(state) and not state[3]


def _on_draft(holds: Callable[[Draft], bool]) -> Callable[[State], bool]:
    return lambda state: holds(Draft.of(state))


def _told_of_work(state: State) -> bool:
    return not any(q[1] == s.IDLE and q[6] and q[5] == s.TOLD for q in state[0])


def _few_announced(state: State) -> bool:
    return all(sum(1 for a in state[3] if a[0] == p) <= len(state[0]) for p in range(len(state[4])))


def _one_holder(state: State) -> bool:
    acting = [w[2] for w in state[1] if w[1] in s.CAN_ACK]
    holding = [w[2] for w in state[1] if w[1] in s.HOLDS_LEASE]
    leased = all(state[0][index][1] == s.LEASED for index in holding)
    return leased and len(acting) == len(set(acting)) and len(holding) == len(set(holding))


def _tickets_exist(state: State) -> bool:
    held = {w[5] for w in state[1]}
    return all(not published or copies or number in held for number, (_, published, copies) in enumerate(state[3], 1))


def _under_ceiling(d: Draft, ceilings: tuple[int, ...]) -> bool:
    leases = [q.lease_class for q in d.queues if q.state == s.LEASED]
    return all(not ceiling or leases.count(priority) <= ceiling for priority, ceiling in enumerate(ceilings))


def _in_order(d: Draft) -> bool:
    return not any(w.phase == s.SLICE and w.hand and d.late(w.queue) for w in d.workers)


def _at_rest(state: State) -> bool:
    queues, workers, strays, _, stale, (closed, *_), _ = state
    quiet = all(q[1:7] == (s.IDLE, 0, 0, 0, 0, 0) for q in queues)
    return quiet and not (strays or closed or any(stale)) and all(w[1] == s.FREE for w in workers)
