"""What all calls of AdminService share: one ledger command, dry runs before a change at the broker, updates by mask, pages.

May live here: these ways of working. May not know: any one resource.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import structlog

from slicelease.control_plane.domain.commands import Command, GetQueue, ReadAnswer, RequestKey
from slicelease.control_plane.domain.names import QueueKey, queue_name
from slicelease.control_plane.domain.outcomes import Done, Page, QueueState, QueueView, RefusalReason, Refused
from slicelease.control_plane.domain.policy import QueueType
from slicelease.control_plane.ports import Broker, DirectiveBus, Ledger, QueueArgumentsDifferError, QueueNotEmptyError

from .checks import page_size
from .known_queues import KnownQueues
from .paging import after_token, page_token
from .refusals import expect, refusal
from .status import arguments_differ, queue_in_use, queue_not_empty

_T = TypeVar("_T")
_Listing = Callable[[str, int], Command]

UPDATE_TRIES = 5
"""How often an update without an etag starts over because another one came between its reading and its writing."""

_log = structlog.get_logger("slicelease.rpc")


class AdminCalls:
    """The parts that the calls work with."""

    def __init__(self, ledger: Ledger, broker: Broker, bus: DirectiveBus, queues: KnownQueues, default_class: str) -> None:
        self._ledger = ledger
        self._broker = broker
        self._bus = bus
        self._queues = queues
        self._default_class = default_class

    async def _one(self, command: Command, kind: type[_T]) -> _T:
        """The outcome of one command; raises CallError where it is refused."""
        (outcome,) = await self._ledger.execute([command])
        return expect(outcome, kind, command)

    async def _answered(self, command: Command, kind: type[_T], request: RequestKey | None) -> _T | None:
        """What the same request was answered before, if so: nothing must be done at the broker for it then.

        Something else may have that name by now. Raises CallError when the request_id had other content.
        """
        if request is None:
            return None
        (outcome,) = await self._ledger.execute([ReadAnswer(request)])
        return None if isinstance(outcome, Done) else expect(outcome, kind, command)

    async def _dry_run(self, command: Command, kind: type[_T], repeatable: bool) -> _T | None:
        """What a validate_only command shows, before the broker is changed for it.

        None where it is refused and the call is `repeatable` (has a request_id): it may have been answered before, so the real
        command decides.
        """
        (outcome,) = await self._ledger.execute([command])
        if isinstance(outcome, Refused) and repeatable:
            return None
        return expect(outcome, kind, command)

    async def _updated(self, etag: str, attempt: Callable[[], Awaitable[tuple[Command, Any]]], kind: type[_T]) -> _T:
        """Reads, merges and writes what was read; starts over when another update came between and the caller gave no etag."""
        for _ in range(UPDATE_TRIES):
            command, outcome = await attempt()
            if etag or not (isinstance(outcome, Refused) and outcome.reason is RefusalReason.ETAG_MISMATCH):
                break
        return expect(outcome, kind, command)

    async def _execute(self, command: Command) -> tuple[Command, Any]:
        (outcome,) = await self._ledger.execute([command])
        return command, outcome

    async def _page(
        self, of: str, request: Any, parent: Command | None, listing: Callable[[str, int], Command]
    ) -> tuple[Any, str]:
        """The items of a page and the token of the next; `parent`, when given, must exist."""
        command = listing(after_token(of, request.page_token), page_size(request.page_size))
        outcomes = await self._ledger.execute([command] if parent is None else [parent, command])
        if parent is not None and isinstance(outcomes[0], Refused):
            raise refusal(outcomes[0], parent)
        page = expect(outcomes[-1], Page, command)
        return page.items, page_token(of, page.next_after)

    async def _declare(self, key: QueueKey, queue_type: QueueType) -> None:
        """Declares the work queue at the broker; raises CallError naming an argument that differs."""
        try:
            await self._broker.declare_work_queue(key, queue_type)
        except QueueArgumentsDifferError as error:
            raise arguments_differ(queue_name(key), error.argument) from None

    async def _delete_at_broker(self, key: QueueKey, force: bool) -> None:
        """Deletes the work queue, with what it holds only when forced; raises CallError otherwise.

        What a slice has in hand is not among the messages that the broker counts: under a lease the queue is no empty one.
        """
        if not force:
            (view,) = await self._ledger.execute([GetQueue(key)])
            if isinstance(view, QueueView) and view.state in (QueueState.LEASED, QueueState.WAITING):
                raise queue_in_use(queue_name(key))
        self._queues.forget(key)
        try:
            await self._broker.delete_work_queue(key, if_empty=not force)
        except QueueNotEmptyError as error:
            raise queue_not_empty(queue_name(key), error.messages) from None


def note_change(what: str, name: str, context: Any) -> None:
    """Logs a change that an operator made: what, of which resource, from where."""
    _log.info("changed by an operator", what=what, name=name, peer=context.peer())
