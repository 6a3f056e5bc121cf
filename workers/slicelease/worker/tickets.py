"""Tickets in hand: consumers that bring them, the desk that gives them to slots, and their way back.

May know Trio, the broker's port and the pure desk. May not know leases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import structlog
import trio

from .attention import NotATicketError, TicketDesk, TurnEnd, is_spent, parse_ticket
from .leases import Ticket
from .metrics import WorkerMetrics
from .ports import BrokerLostError, DeadLetterError, QueueUnreadableError, TicketDelivery, TicketStream, WorkerBroker

_log = structlog.get_logger(__name__)

_RETRY_CONSUME_S = 1.0
_HOLD_BACK_S = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class HeldTicket:
    """A ticket in hand. `stream` says where it came from: it is void when that is gone."""

    ticket: Ticket
    delivery: TicketDelivery
    stream: TicketStream


class TicketHall:
    """The tickets of one process. `random_number` gives numbers in [0, 1), for jitter."""

    def __init__(
        self,
        broker: WorkerBroker,
        classes: tuple[str, ...],
        slots: int,
        random_number: Callable[[], float],
        metrics: WorkerMetrics,
    ) -> None:
        self._broker = broker
        self._classes = classes
        self._slots = slots
        self._random = random_number
        self._metrics = metrics
        self._desk: TicketDesk[HeldTicket] = TicketDesk(slots)
        self._inboxes = [trio.open_memory_channel[HeldTicket](1) for _ in range(slots)]
        self._nap = trio.CancelScope()
        self._streams: dict[str, TicketStream] = {}
        self._stopping = False

    @property
    def consumed(self) -> tuple[str, ...]:
        """Classes whose attention queue is consumed now."""
        return tuple(self._streams)

    async def run(self) -> None:
        """Consumes until cancelled; then every ticket still in hand goes back."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send_overdue_back)
            for class_id in self._classes:
                nursery.start_soon(self._consume, class_id)

    async def stop(self) -> None:
        """No more tickets: those that wait go back, `next_ticket` answers None. Those in slots stay in hand."""
        self._stopping = True
        for held in self._desk.withdraw(lambda _: True):
            self._give_back(held)
        for send, _ in self._inboxes:
            send.close()
        async with trio.open_nursery() as nursery:
            for stream in self._streams.values():
                nursery.start_soon(_stop, stream)

    async def next_ticket(self, slot: int) -> HeldTicket | None:
        """Waits for the slot's first ticket, or None at the end."""
        async for held in self._inboxes[slot][1]:
            if not self._stopping:
                return held
            self._give_back(held)
        return None

    async def turn_over(self, slot: int, held: HeldTicket, end: TurnEnd) -> HeldTicket | None:
        """The slot's turn with a ticket ended: acks it or gives it back; the ticket that the slot takes at once, if any."""
        if is_spent(end):
            self._ack(held)
        else:
            if not self._stopping:
                await trio.sleep(_HOLD_BACK_S * (0.5 + self._random()))
            self._give_back(held)
        return None if self._stopping else self._desk.freed(slot)

    # ---- consumers ---------------------------------------------------------------------------------------------------

    async def _consume(self, class_id: str) -> None:
        """Keeps one consumer on the class's attention queue."""
        told = ""
        while not self._stopping:
            await self._broker.wait_connected()
            try:
                async with self._broker.consume_tickets(class_id, self._slots) as stream:
                    told = ""
                    await self._take_from(class_id, stream)
            except BrokerLostError:
                pass
            except QueueUnreadableError as error:
                if str(error) != told:
                    _log.warning("attention queue unreadable; trying again", class_id=class_id, why=str(error))
                told = str(error)
            await trio.sleep(_RETRY_CONSUME_S * (0.5 + self._random()))

    async def _take_from(self, class_id: str, stream: TicketStream) -> None:
        self._streams[class_id] = stream
        try:
            if self._stopping:
                await _stop(stream)
            async for delivery in stream:
                await self._arrived(class_id, stream, delivery)
            await trio.sleep_forever()  # stopped: its tickets in hand are good until the stream's block ends
        finally:
            self._streams.pop(class_id, None)
            self._desk.withdraw(lambda held: held.stream is stream)

    async def _arrived(self, class_id: str, stream: TicketStream, delivery: TicketDelivery) -> None:
        try:
            held = HeldTicket(parse_ticket(class_id, delivery.body), delivery, stream)
        except NotATicketError as error:
            await self._refuse(class_id, delivery, str(error))
            return
        if self._stopping:
            self._give_back(held)
            return
        slot = self._desk.arrived(held, trio.current_time())
        if slot is not None:
            self._inboxes[slot][0].send_nowait(held)
        elif self._desk.next_overdue_s < self._nap.deadline:
            self._nap.deadline = self._desk.next_overdue_s

    async def _refuse(self, class_id: str, delivery: TicketDelivery, why: str) -> None:
        _log.warning("not a ticket; moved to the unsorted dead letters", class_id=class_id, why=why)
        try:
            await delivery.refuse(why)
        except DeadLetterError as error:
            # It stays in hand until the stream ends: it takes one place of the prefetch rather than looping.
            _log.error("no dead letter", class_id=class_id, why=str(error))
            return
        self._metrics.tickets_refused.inc()

    # ---- the way back ------------------------------------------------------------------------------------------------

    async def _send_overdue_back(self) -> None:
        while True:
            with trio.CancelScope(deadline=self._desk.next_overdue_s) as self._nap:
                await trio.sleep_forever()
            for held in self._desk.overdue(trio.current_time()):
                self._metrics.tickets_overdue.inc()
                _nack(held)

    def _give_back(self, held: HeldTicket) -> None:
        self._metrics.tickets_returned.inc()
        _nack(held)

    def _ack(self, held: HeldTicket) -> None:
        try:
            held.delivery.ack()
        except BrokerLostError:
            return  # it comes again, as a turn to ask that is no token
        self._metrics.tickets_acked.inc()


def _nack(held: HeldTicket) -> None:
    try:
        held.delivery.nack()
    except BrokerLostError:
        return  # its link is gone, so it has gone back


async def _stop(stream: TicketStream) -> None:
    try:
        await stream.stop()
    except (BrokerLostError, QueueUnreadableError):
        return  # it has ended by itself
