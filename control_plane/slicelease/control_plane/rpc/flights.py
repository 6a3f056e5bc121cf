"""Messages on their way to the broker: one flight each, which lands with an answer.

May live here: the state of a flight and what a claim makes of it. May not know: the ledger, the broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from slicelease.control_plane.domain.commands import ClaimPublish, RequestKey
from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.outcomes import Outcome, PublishClaim, RefusalReason, Refused
from slicelease.control_plane.ports import WorkMessage

from .refusals import expect
from .status import CallError
from .work_convert import Wanted

Answer = WorkMessage | CallError
"""The message as it was published, with its final ids, or why it was not."""


class Flight:
    """One message on its way.

    `sent`: the broker may have it. `in_progress_ms`: another replica works on the same request, ask again then; else 0.
    """

    __slots__ = ("future", "in_progress_ms", "message", "sent", "wanted")

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.message = wanted.message
        self.future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.in_progress_ms = 0
        self.sent = False

    @property
    def key(self) -> QueueKey:
        """Its queue."""
        return self.wanted.key

    @property
    def request(self) -> RequestKey | None:
        """The identity of its request, if it has one."""
        return self.wanted.request

    @property
    def open(self) -> bool:
        """Whether it has not landed."""
        return not self.future.done()

    @property
    def failed(self) -> bool:
        """Whether it landed with an error."""
        return not self.open and isinstance(self.future.result(), CallError)

    def land(self, answer: Answer) -> None:
        """Answers all who wait for it, unless it has landed."""
        if self.open:
            self.future.set_result(answer)

    def take_claim(self, command: ClaimPublish, outcome: Outcome) -> None:
        """What the ledger answered to its claim."""
        self.in_progress_ms = 0
        if isinstance(outcome, Refused) and outcome.reason is RefusalReason.REQUEST_IN_PROGRESS:
            self.in_progress_ms = max(1, outcome.retry_after_ms)
            return
        try:
            claim = expect(outcome, PublishClaim, command)
        except CallError as error:
            self.land(error)
            return
        self.message = replace(self.message, message_id=claim.message_id, correlation_id=claim.correlation_id)
        if claim.done:
            self.land(self.message)


def keys_of(flights: Iterable[Flight]) -> list[QueueKey]:
    """The queues of those that are still open, each once, in order."""
    return list(dict.fromkeys(flight.key for flight in flights if flight.open))


def land_failed(flights: Iterable[Flight], errors: Mapping[QueueKey, CallError]) -> None:
    """Lands those whose queue has an error."""
    for flight in flights:
        if (error := errors.get(flight.key)) is not None:
            flight.land(error)


async def all_at_once(calls: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """Runs all at a time, begun in order; a single one without a task of its own."""
    if len(calls) == 1:
        await calls[0]()
    elif calls:
        await asyncio.gather(*(call() for call in calls))
