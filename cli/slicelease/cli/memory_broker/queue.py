"""One queue: messages in order, and their way back to their place.

May live here: the order of messages and the arguments of a queue. May not know: channels, consumers, locks, time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush


@dataclass(frozen=True, slots=True)
class Message:
    """A message as the broker holds it: the body untouched, and the properties that our parts use."""

    body: bytes
    message_id: str = ""
    correlation_id: str = ""
    content_type: str = ""
    type: str = ""
    headers: Mapping[str, object] = field(default_factory=dict)


@dataclass(slots=True, order=True)
class Entry:
    """A message at its place in a queue; places only rise, so a lower one is nearer to the head."""

    place: int
    message: Message = field(compare=False)
    redelivered: bool = field(default=False, compare=False)


class MessageQueue:
    """Messages that are ready, in the order of their places.

    What is given back returns to its own place: ahead of all that were behind it, and flagged as redelivered.
    """

    __slots__ = ("_fresh", "_next_place", "_returned", "arguments", "name")

    def __init__(self, name: str, arguments: Mapping[str, object]) -> None:
        self.name = name
        self.arguments = dict(arguments)
        self._fresh: deque[Entry] = deque()
        # Every place here lies before every place in `_fresh`: an entry can come back only after it was taken.
        self._returned: list[Entry] = []
        self._next_place = 0

    def __len__(self) -> int:
        return len(self._fresh) + len(self._returned)

    def __iter__(self) -> Iterator[Entry]:
        """The ready entries from the head on."""
        yield from sorted(self._returned)
        yield from self._fresh

    @property
    def full(self) -> bool:
        """Whether `x-max-length` ready messages are in the queue."""
        limit = self.arguments.get("x-max-length")
        return isinstance(limit, int) and len(self) >= limit

    @property
    def refuses_when_full(self) -> bool:
        """Whether a full queue refuses a publish; otherwise it drops its head, for good."""
        return self.arguments.get("x-overflow") in ("reject-publish", "reject-publish-dlx")

    def append(self, message: Message) -> None:
        """Puts a message at the tail."""
        self._fresh.append(Entry(self._next_place, message))
        self._next_place += 1

    def take(self) -> Entry | None:
        """Takes the entry at the head, or None when nothing is ready."""
        if self._returned:
            return heappop(self._returned)
        return self._fresh.popleft() if self._fresh else None

    def give_back(self, entry: Entry) -> None:
        """Returns a taken entry to its place."""
        entry.redelivered = True
        heappush(self._returned, entry)

    def purge(self) -> int:
        """Drops everything that is ready; how much that was."""
        dropped = len(self)
        self._fresh.clear()
        self._returned.clear()
        return dropped

    def differing_argument(self, arguments: Mapping[str, object]) -> str | None:
        """The first argument, by name, in which a declaration differs from the queue, or None."""
        names = sorted(self.arguments.keys() | arguments.keys())
        return next((name for name in names if self.arguments.get(name) != arguments.get(name)), None)
