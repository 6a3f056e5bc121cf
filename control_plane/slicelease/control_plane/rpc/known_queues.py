"""Which queues exist: remembered by this process, looked up where they are not, created where newcomers are welcome.

May live here: that memory, and making sure that a queue is at the broker before work goes to it. May not know: gRPC, messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from slicelease.control_plane.domain.commands import Command, GetQueue, Touch
from slicelease.control_plane.domain.names import QueueKey, queue_name
from slicelease.control_plane.domain.outcomes import Outcome, QueueView, RefusalReason, Refused, Touched
from slicelease.control_plane.domain.policy import QueueType, TenantPolicy
from slicelease.control_plane.ports import Broker, BrokerUnavailableError, Ledger, QueueArgumentsDifferError

from .flights import all_at_once
from .refusals import expect
from .status import CallError, arguments_differ, broker_unavailable

MAX_KNOWN = 200_000
"""Queues remembered: a few tens of megabytes; the oldest are forgotten first."""

DECLARED_AT_ONCE = 64
"""The broker declares some 150 new queues a second, and each call has the time limit of its own adapter."""

_MISSING = {RefusalReason.TENANT_NOT_FOUND, RefusalReason.QUEUE_NOT_FOUND}
_Seen = tuple[Command, Outcome]


class KnownQueues:
    """The memory. `newcomers` is the policy of unknown tenants; None refuses them."""

    def __init__(self, ledger: Ledger, broker: Broker, newcomers: TenantPolicy | None) -> None:
        self._ledger = ledger
        self._broker = broker
        self.newcomers = newcomers
        self._known: dict[QueueKey, QueueType | None] = {}
        """The type to declare a queue with; None once that is done, so that only what was just looked up is declared."""

    def unknown(self, keys: Iterable[QueueKey]) -> list[QueueKey]:
        """Those that are not remembered."""
        return [key for key in keys if key not in self._known]

    def forget(self, key: QueueKey) -> None:
        """The queue may be gone: it is looked up before its next use."""
        self._known.pop(key, None)

    async def look_up(self, keys: Sequence[QueueKey]) -> dict[QueueKey, CallError]:
        """Looks the queues up; the errors of those that do not exist and are not to be created."""
        outcomes = await self._ledger.execute([GetQueue(key) for key in keys])
        return await self.note(keys, outcomes)

    async def note(self, keys: Sequence[QueueKey], outcomes: Sequence[Outcome]) -> dict[QueueKey, CallError]:
        """The same with the outcomes of GetQueue at hand."""
        seen: dict[QueueKey, _Seen] = {key: (GetQueue(key), outcome) for key, outcome in zip(keys, outcomes, strict=True)}
        missing = [key for key, (_, outcome) in seen.items() if isinstance(outcome, Refused) and outcome.reason in _MISSING]
        if missing and self.newcomers is not None:
            seen |= await self._create(missing, self.newcomers)
        return self._remember(seen)

    async def _create(self, keys: Sequence[QueueKey], policy: TenantPolicy) -> dict[QueueKey, _Seen]:
        """Creates tenant and queue with a touch; a refused touch is what was seen of it."""
        touches = [Touch(key, create=policy) for key in keys]
        looks = [GetQueue(key) for key in keys]
        outcomes = await self._ledger.execute([*touches, *looks])
        seen: dict[QueueKey, _Seen] = {}
        for place, key in enumerate(keys):
            touched, looked = outcomes[place], outcomes[place + len(keys)]
            seen[key] = (looks[place], looked) if isinstance(touched, Touched) else (touches[place], touched)
        return seen

    def _remember(self, seen: Mapping[QueueKey, _Seen]) -> dict[QueueKey, CallError]:
        errors: dict[QueueKey, CallError] = {}
        for key, (command, outcome) in seen.items():
            try:
                self._known[key] = expect(outcome, QueueView, command).policy.queue_type
            except CallError as error:
                errors[key] = error
        while len(self._known) > MAX_KNOWN:
            del self._known[next(iter(self._known))]
        return errors

    async def declare(self, keys: Sequence[QueueKey]) -> dict[QueueKey, CallError]:
        """Makes sure that the broker has those that were looked up since; the errors of those that failed."""
        errors: dict[QueueKey, CallError] = {}
        keys = [key for key in keys if self._known.get(key) is not None]
        for begin in range(0, len(keys), DECLARED_AT_ONCE):
            await all_at_once([partial(self._declare, key, errors) for key in keys[begin : begin + DECLARED_AT_ONCE]])
        return errors

    async def _declare(self, key: QueueKey, errors: dict[QueueKey, CallError]) -> None:
        queue_type = self._known.get(key)
        if queue_type is None:
            return
        try:
            await self._broker.declare_work_queue(key, queue_type)
        except QueueArgumentsDifferError as error:
            errors[key] = arguments_differ(queue_name(key), error.argument)
        except BrokerUnavailableError:
            errors[key] = broker_unavailable()
        else:
            if key in self._known:  # not if it was forgotten meanwhile
                self._known[key] = None
