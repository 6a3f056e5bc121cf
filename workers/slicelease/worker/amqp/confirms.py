"""Publisher confirms of one channel: which publish an ack, a nack or a return speaks of.

No I/O. The broker numbers the publishes of a channel from 1; it may confirm them in any order and several at once
(`multiple`). A return carries no number: it precedes the confirm of its publish, and belongs to the earliest mandatory
publish that was not returned yet and carried the same content to the same place.
"""

from __future__ import annotations

from itertools import takewhile

from slicelease.worker.amqp.calls import PublishCall
from slicelease.worker.amqp.errors import COMMAND_INVALID, ProtocolViolation, PublishRefused, Unroutable


class Confirms:
    """The publishes of one channel that wait for the broker's word."""

    __slots__ = ("_returnable", "_sequence", "_waiting", "returns_unmatched_total")

    def __init__(self) -> None:
        self._sequence = 0
        self._waiting: dict[int, PublishCall] = {}
        self._returnable: dict[int, PublishCall] = {}
        self.returns_unmatched_total = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def next_sequence(self) -> int:
        """The number that the broker will give to the publish sent now."""
        self._sequence += 1
        return self._sequence

    def add(self, call: PublishCall, mandatory: bool) -> None:
        """A publish was sent."""
        self._waiting[call.sequence] = call
        if mandatory:
            self._returnable[call.sequence] = call

    def settle(self, tag: int, *, multiple: bool, refused: bool) -> list[PublishCall]:
        """The publishes that a basic.ack (or nack: `refused`) ends, in the order they were sent."""
        settled = self._take(tag, multiple)
        if not settled:
            raise ProtocolViolation(COMMAND_INVALID, f"confirm of publish {tag}, which does not wait for one")
        for call in settled:
            self._returnable.pop(call.sequence, None)
            call.error = PublishRefused("the broker refused the message (basic.nack)") if refused else call.returned
            call.done = True
        return settled

    def give_back(self, returned: Unroutable, properties: bytes, body: bytes) -> None:
        """A message came back as unroutable: remember that for the confirm of its publish."""
        call = self._match(returned, properties, body)
        if call is None:
            self.returns_unmatched_total += 1
        else:
            del self._returnable[call.sequence]
            call.returned = returned

    def take_all(self) -> list[PublishCall]:
        """Every waiting publish; none waits afterwards."""
        calls = list(self._waiting.values())
        self._waiting.clear()
        self._returnable.clear()
        return calls

    def _take(self, tag: int, multiple: bool) -> list[PublishCall]:
        waiting = self._waiting
        if not multiple:
            call = waiting.pop(tag, None)
            return [] if call is None else [call]
        if tag > self._sequence:
            return []
        numbers = list(takewhile(lambda number: number <= tag, waiting)) if tag else list(waiting)
        return [waiting.pop(number) for number in numbers]

    def _match(self, returned: Unroutable, properties: bytes, body: bytes) -> PublishCall | None:
        """The publish of a return; one whose properties the broker rewrote is recognised by place and body."""
        same_place = None
        for call in self._returnable.values():
            if call.routing_key == returned.routing_key and call.exchange == returned.exchange and call.body == body:
                if call.properties == properties:
                    return call
                same_place = same_place or call
        return same_place
