"""Publishing work: claim, make sure of the queue, publish with confirm, touch. One message or a thousand, the same way.

May live here: that order, and what each failure in it means. May not know: gRPC, AMQP, Redis.

    claim the request_id and look up the queue -> create, where unknown tenants are welcome -> declare -> publish -> touch

A message that was confirmed and whose touch was not recorded is answered UNAVAILABLE: the retry publishes it again under the
same message id, and the reconciler finds it should nobody retry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial

import structlog

from slicelease.control_plane.domain.commands import ClaimPublish, Command, GetQueue, ReleasePublish, RequestKey, Touch
from slicelease.control_plane.domain.names import QueueKey, queue_name
from slicelease.control_plane.domain.outcomes import Outcome, Touched
from slicelease.control_plane.metrics import Metrics
from slicelease.control_plane.ports import (
    Broker,
    BrokerUnavailableError,
    Ledger,
    LedgerUnavailableError,
    QueueFullError,
    QueueGoneError,
)

from .flights import Answer, Flight, all_at_once, keys_of, land_failed
from .gate import Gate
from .known_queues import KnownQueues
from .refusals import expect, from_exception, unexpected
from .status import CallError, broker_unavailable, queue_full, request_id_reused, request_in_progress
from .work_convert import Wanted

POLL_S = 0.1
"""How often a request that another replica works on is asked for again, at most."""

_log = structlog.get_logger("slicelease.rpc")


class Publisher:
    """Publishes for all callers of this process."""

    def __init__(self, ledger: Ledger, broker: Broker, queues: KnownQueues, gate: Gate, metrics: Metrics) -> None:
        self._ledger = ledger
        self._broker = broker
        self._queues = queues
        self._gate = gate
        self._metrics = metrics
        self._flights: dict[str, Flight] = {}

    async def publish(self, wanted: Sequence[Wanted], patience_s: float) -> list[Answer]:
        """An answer for each message, in order; those of one queue are published in order.

        What was begun is carried to its end though the caller leaves. `patience_s`: how long to wait for a request that another
        replica is working on.
        """
        own: list[Flight] = []
        futures = [self._join(each, own) for each in wanted]
        if own:
            self._gate.keep(asyncio.get_running_loop().create_task(self._carry_out(own, patience_s)))
        return [await asyncio.shield(future) for future in futures]

    def _join(self, wanted: Wanted, own: list[Flight]) -> asyncio.Future[Answer]:
        """The flight of the same request in this process, or a new one of `own`."""
        flight, request = Flight(wanted), wanted.request
        if request is None:
            own.append(flight)
            return flight.future
        running = self._flights.setdefault(request.request_id, flight)
        if running is flight:
            own.append(flight)
        elif running.request != request:
            flight.land(request_id_reused(request.request_id))
            return flight.future
        return running.future

    async def _carry_out(self, flights: list[Flight], patience_s: float) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + patience_s
        try:
            await self._go(flights)
            while (rest := [flight for flight in flights if flight.open]) and loop.time() + POLL_S < end:
                await asyncio.sleep(min(POLL_S, min(flight.in_progress_ms for flight in rest) / 1_000))
                await self._go(rest)
        except Exception as error:  # noqa: BLE001  # whatever it is, every caller gets an answer
            _fail(flights, error)
        finally:
            await self._land_all(flights)

    async def _go(self, flights: list[Flight]) -> None:
        """One try of all; afterwards only those that another replica is working on are open."""
        await self._claim_and_look(flights)
        ready = [flight for flight in flights if flight.open and not flight.in_progress_ms]
        land_failed(ready, await self._queues.declare(keys_of(ready)))
        await self._send(ready)
        await self._touch([flight for flight in ready if flight.open])

    async def _claim_and_look(self, flights: list[Flight]) -> None:
        """One ledger step: claims the request_ids and looks up the queues that are not known here."""
        claims = {flight: _claim(flight, flight.request) for flight in flights if flight.request is not None}
        keys = self._queues.unknown(keys_of(flights))
        commands: list[Command] = [*claims.values(), *map(GetQueue, keys)]
        if not commands:
            return
        outcomes = await self._ledger.execute(commands)
        for (flight, command), outcome in zip(claims.items(), outcomes, strict=False):
            flight.take_claim(command, outcome)
        errors = await self._queues.note(keys, outcomes[len(claims) :])
        land_failed((flight for flight in flights if not flight.in_progress_ms), errors)

    # ---- send -------------------------------------------------------------------------------------------------------

    async def _send(self, flights: list[Flight]) -> None:
        """Publishes in order; what finds its queue gone is looked up, declared and published once more, in order."""
        gone = await self._publish(flights)
        if not gone:
            return
        for flight in gone:
            self._queues.forget(flight.key)
        land_failed(gone, await self._queues.look_up(keys_of(gone)))
        land_failed(gone, await self._queues.declare(keys_of(gone)))
        for flight in await self._publish(gone):
            flight.land(broker_unavailable())

    async def _publish(self, flights: list[Flight]) -> list[Flight]:
        """Publishes what is open; those whose queue the broker does not have."""
        gone: set[Flight] = set()
        await all_at_once([partial(self._publish_one, flight, gone) for flight in flights if flight.open])
        return [flight for flight in flights if flight in gone]

    async def _publish_one(self, flight: Flight, gone: set[Flight]) -> None:
        flight.sent = True
        try:
            await self._broker.publish_work(flight.key, flight.message)
        except QueueGoneError:
            flight.sent = False
            gone.add(flight)
        except QueueFullError:
            flight.sent = False
            flight.land(queue_full(queue_name(flight.key)))
        except BrokerUnavailableError:
            flight.land(broker_unavailable())

    # ---- touch ------------------------------------------------------------------------------------------------------

    async def _touch(self, flights: list[Flight]) -> None:
        """One ledger step: every queue is touched once, or once for each claim to finish."""
        touches = [self._touch_of(flight.key, flight.request) for flight in flights if flight.request is not None]
        finished = {touch.key for touch in touches}
        touches += [self._touch_of(key, None) for key in keys_of(flights) if key not in finished]
        if not touches:
            return
        outcomes = await self._ledger.execute(touches)
        touched = {touch.key: (touch, outcome) for touch, outcome in zip(touches, outcomes, strict=True)}
        for flight in flights:
            self._touched(flight, *touched[flight.key])

    def _touch_of(self, key: QueueKey, finishes: RequestKey | None) -> Touch:
        return Touch(key, create=self._queues.newcomers, finishes=finishes)

    def _touched(self, flight: Flight, command: Touch, outcome: Outcome) -> None:
        try:
            expect(outcome, Touched, command)
        except CallError as error:  # deleted since it was looked up
            self._queues.forget(flight.key)
            flight.land(error)
        else:
            flight.land(flight.message)

    # ---- the end ----------------------------------------------------------------------------------------------------

    async def _land_all(self, flights: list[Flight]) -> None:
        """Answers whoever is still waiting, frees the claims of what was surely not sent, and forgets the flights."""
        unsent: list[ReleasePublish] = []
        for flight in flights:
            if flight.request is not None:
                flight.land(request_in_progress(flight.request.request_id, flight.in_progress_ms))
                self._flights.pop(flight.request.request_id, None)
                if flight.failed and not flight.sent and not flight.in_progress_ms:
                    unsent.append(ReleasePublish(flight.request))
            self._count(flight)
        if unsent:
            await self._release(unsent)

    async def _release(self, unsent: list[ReleasePublish]) -> None:
        try:
            await self._ledger.execute(unsent)
        except LedgerUnavailableError:
            _log.debug("claims of unsent work were left to run out", claims=len(unsent))

    def _count(self, flight: Flight) -> None:
        answer = flight.future.result()
        if isinstance(answer, CallError):
            self._metrics.count("work_published_total", answer.fault.reason.value)
        else:
            self._metrics.count("work_published_total", "published" if flight.sent else "repeated")


def _claim(flight: Flight, request: RequestKey) -> ClaimPublish:
    return ClaimPublish(request, flight.message.message_id, flight.message.correlation_id)


def _fail(flights: Iterable[Flight], error: Exception) -> None:
    known = from_exception(error) or unexpected("publishing failed", exc_info=error)
    for flight in flights:
        flight.land(known)
