"""Raised attention becomes touches: taken, read, coalesced by queue, recorded in one step, then acked.

May live here: what happens to each message of a batch. May not know: how touches are scheduled. Nothing is acked that is
not recorded, and nothing that can never be recorded goes back to the queue.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import structlog

from slicelease.control_plane.domain.commands import GetQueue, Touch
from slicelease.control_plane.domain.names import QueueKey, shown
from slicelease.control_plane.domain.outcomes import Failed, Outcome, QueueView, Refused, Touched
from slicelease.control_plane.domain.policy import TenantPolicy
from slicelease.control_plane.ports import Broker, BrokerUnavailableError, Ledger, LedgerUnavailableError, RaisedAttention

from .attention_body import AttentionError, parse_attention
from .observer import LoopObserver
from .work_queues import declare_or_adopt

_log = structlog.get_logger(__name__)

_BATCH = 1_000
_SHOWN_BYTES = 80


class Intake:
    """Consumes `attention.work`. With `create`, unknown tenants and queues are made with that policy; else refused."""

    def __init__(self, ledger: Ledger, broker: Broker, observer: LoopObserver, create: TenantPolicy | None) -> None:
        self._ledger = ledger
        self._broker = broker
        self._observer = observer
        self._create = create

    async def run_once(self) -> bool:
        """Waits for raised attention and handles a batch; always says that there may be more.

        After an error what was not handled is back in its queue. Raises LedgerUnavailableError, LedgerVersionError,
        BrokerUnavailableError.
        """
        raised = await self._broker.take_raised(_BATCH)
        self._observer.attention_raised(len(raised))
        try:
            await self._handle(raised)
        except Exception:
            await self._broker.return_raised(raised)  # those answered already are left out by the broker's adapter
            raise
        return True

    async def _handle(self, raised: Sequence[RaisedAttention]) -> None:
        by_queue, refused = self._sorted(raised)
        outcomes: Sequence[Outcome] = []
        if by_queue:
            outcomes = await self._ledger.execute([Touch(key, self._create) for key in by_queue])
            await self._declare_created([key for key, outcome in zip(by_queue, outcomes, strict=True) if _created(outcome)])
            await self._ack_recorded(by_queue, outcomes, refused)
        for reason, messages in refused.items():
            first = shown(messages[0].body[:_SHOWN_BYTES].decode(errors="replace"))
            _log.warning("raised attention refused", reason=str(reason), messages=len(messages), first=first)
            await self._broker.refuse_raised(messages, reason)
            self._observer.attention_refused(reason, len(messages))
        for outcome in outcomes:
            if isinstance(outcome, Failed):
                raise LedgerUnavailableError(outcome.cause)  # its messages go back, and the runner pauses

    def _sorted(
        self, raised: Sequence[RaisedAttention]
    ) -> tuple[dict[QueueKey, list[RaisedAttention]], defaultdict[str, list[RaisedAttention]]]:
        """Messages by the queue that they speak of, and those that are no attention by the reason."""
        by_queue: dict[QueueKey, list[RaisedAttention]] = {}
        refused: defaultdict[str, list[RaisedAttention]] = defaultdict(list)
        for message in raised:
            try:
                attention = parse_attention(message.body)
            except AttentionError as error:
                refused[error.fault].append(message)
            else:
                by_queue.setdefault(attention.key, []).append(message)
                _log.debug("attention raised", queue=attention.key.member, correlation_id=attention.correlation_id)
        return by_queue, refused

    async def _ack_recorded(
        self,
        by_queue: dict[QueueKey, list[RaisedAttention]],
        outcomes: Sequence[Outcome],
        refused: defaultdict[str, list[RaisedAttention]],
    ) -> None:
        """Acks what is recorded; adds to `refused` what the ledger refused."""
        recorded: list[RaisedAttention] = []
        for messages, outcome in zip(by_queue.values(), outcomes, strict=True):
            if isinstance(outcome, Refused):
                refused[outcome.reason].extend(messages)
            if isinstance(outcome, Touched):
                recorded.extend(messages)
                self._observer.attention_duplicate(len(messages) - 1)
                self._observer.attention_coalesced(int(outcome.coalesced))
        await self._broker.ack_raised(recorded)

    async def _declare_created(self, keys: Sequence[QueueKey]) -> None:
        """Makes the work queues of those that were unknown; one that cannot be made now is left to the reconciler."""
        if not keys:
            return
        for key, outcome in zip(keys, await self._ledger.execute([GetQueue(key) for key in keys]), strict=True):
            if isinstance(outcome, QueueView):
                try:
                    await declare_or_adopt(self._broker, key, outcome.policy.queue_type)
                except BrokerUnavailableError as error:
                    _log.warning("a new work queue is not declared yet", queue=key.member, reason=str(error))


def _created(outcome: Outcome) -> bool:
    return isinstance(outcome, Touched) and outcome.created
