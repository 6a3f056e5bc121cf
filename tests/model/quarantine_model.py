"""How long "empty" is not believed: rule 13 in seconds, the one place where the order of events alone does not decide.

May live here: one message, its lost holder, one who takes over, and a clock. May not know: the other rules.

The holder may renew until its lease ends, and stops by its own clock a margin before that. Frozen, it sends nothing more; the
broker drops a silent connection after two to three heartbeats (it looks once a heartbeat) and only then requeues the message.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from tests.model.explorer import Named, Step

RUNNING: Final = -1


class Instant(NamedTuple):
    """Seconds since the last renewal; seconds frozen, or RUNNING; who holds what."""

    since_renewal: int
    frozen: int
    held: bool
    taken_over: bool
    idle: bool


@dataclass(frozen=True, slots=True)
class QuarantineModel:
    """All in seconds. `believed_after`: since the last renewal, or with `from_end` since the end of the lease."""

    lease_s: int = 15
    margin_s: int = 1
    heartbeat_s: int = 5
    believed_after_s: int = 16
    from_end: bool = False
    renews_within_s: int = 15
    """Longest time after which a running holder has renewed; the lease's length when the control plane may be away."""

    @property
    def h_s(self) -> int:
        """H, in seconds since the last renewal."""
        return self.believed_after_s + (self.lease_s if self.from_end else 0)

    def initial(self) -> Instant:
        """Just granted, the message fetched."""
        return Instant(0, RUNNING, True, False, False)

    def canonical(self, state: Instant) -> Instant:
        """There are no names."""
        return state

    def describe(self, state: Instant) -> str:
        """The state in words."""
        holder = "the first runs" if state.frozen == RUNNING else f"the first is frozen for {state.frozen} s"
        told = [f"{state.since_renewal} s since its renewal", holder]
        told += ["its connection holds the message"] * state.held + ["the second has the lease"] * state.taken_over
        return "; ".join(told + ["IDLE"] * state.idle)

    def successors(self, now: Instant) -> Iterator[Step[Instant]]:
        """Every step at this second, and the next second."""
        if now.held and now.frozen >= 3 * self.heartbeat_s:
            yield Step("the broker drops the silent connection", True, now._replace(held=False))
            return  # it happens before anything else in this second
        lapsed = now.since_renewal >= self.lease_s
        if now.frozen == RUNNING and now.held:
            yield Step("the first freezes", True, now._replace(frozen=0))
            if not lapsed:
                yield Step("the first renews", True, now._replace(since_renewal=0))
        if now.held and now.frozen >= 2 * self.heartbeat_s:
            yield Step("the broker drops the silent connection", True, now._replace(held=False))
        if lapsed and not now.taken_over and not now.idle:
            yield Step("the second is granted the queue", True, now._replace(taken_over=True))
        if now.taken_over and now.held:
            yield self._settle(now)
        if self._may_pass(now):
            yield Step("a second passes", True, self._pass(now))

    def _settle(self, now: Instant) -> Step[Instant]:
        """Empty is seen and told within the same second."""
        believed = now.since_renewal >= self.h_s
        label = "the second settles empty and is " + ("believed" if believed else "not believed")
        return Step(label, True, now._replace(taken_over=False, idle=believed))

    def _may_pass(self, now: Instant) -> bool:
        """A running holder renews, or stops, in time."""
        must_act_s = min(self.renews_within_s, self.lease_s - self.margin_s)
        late = now.frozen == RUNNING and now.held and now.since_renewal >= must_act_s
        return not late and now.since_renewal < self.h_s + 3 * self.heartbeat_s

    def _pass(self, now: Instant) -> Instant:
        frozen = now.frozen if now.frozen == RUNNING else now.frozen + 1
        return now._replace(since_renewal=now.since_renewal + 1, frozen=frozen)


BELIEVED_TOO_EARLY = "no queue is IDLE while a lost connection holds its message (rule 13)"


def believed_in_time() -> Named[Instant]:
    """The invariant."""
    return BELIEVED_TOO_EARLY, lambda state: not (state.idle and state.held)
