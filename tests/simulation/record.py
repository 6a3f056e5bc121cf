"""What must hold, looked at in O(1) after every step of the ledger, every start and every ack; now and then from scratch.

May know ledger commands, deliveries and payloads. May not know how anything is done: it keeps its own account of leases and
messages, from what was said. The first broken promise ends the run.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import trio

from slicelease.control_plane.domain.commands import Acquire, Command, EndReason, GiveBack, Renew, Settle
from slicelease.control_plane.domain.names import LeaseKey, QueueKey
from slicelease.control_plane.domain.outcomes import GivenBack, Granted, Outcome, Renewed, Settled
from slicelease.worker import Work
from slicelease.worker.ports import Delivery

from .process import SimProcess

FINISHED, DONE, ACKED, DEAD = 1, 2, 4, 8
"""Of a message: its handler ended well; its worker acked it; the broker took the ack; it is a dead letter."""


class BrokenPromiseError(AssertionError):
    """An invariant does not hold."""


@dataclass(slots=True)
class QueueAccount:
    """What is known of a queue. `frontier` is the first place not done; `running` the processes whose handler is at work."""

    strict: bool
    numbers: list[int] = field(default_factory=list)
    frontier: int = 0
    running: list[SimProcess] = field(default_factory=list)
    token: int = 0
    open: bool = False
    free_from_ms: int = 0
    """Before that no other lease may be granted, unless this one is settled."""


class Record:
    """The account of a run. `quarantine_ms`, `max_attempts` as the ledger is configured."""

    def __init__(self, quarantine_ms: int, max_attempts: int) -> None:
        self.queues: dict[QueueKey, QueueAccount] = {}
        self.flags = bytearray()
        self.starts = array("H")
        """Of each message: how often its handler was started before it was first done with."""
        self.cancelled: Counter[int] = Counter()
        self.in_broker = 0
        self.repeats = 0
        self.grants = 0
        self.last_token = 0
        self.longest_wait_ms: Counter[str] = Counter()
        self._quarantine_ms = quarantine_ms
        self._max_attempts = max_attempts
        self._fault = ""
        self._digest = blake2b(digest_size=8)

    @property
    def trace(self) -> str:
        """The hash of all that happened."""
        return self._digest.hexdigest()

    def note(self, text: str) -> None:
        """Adds an event to the trace."""
        self._digest.update(f"{trio.current_time():.6f} {text}\n".encode())

    def finished(self) -> int:
        """Messages whose handler ended well."""
        return sum(flag & FINISHED for flag in self.flags)

    # ---- messages ----------------------------------------------------------------------------------------------------

    def publishing(self, key: QueueKey) -> tuple[int, int]:
        """A message goes to the broker: its number, and its place in its queue."""
        account, number = self.queues[key], len(self.flags)
        account.numbers.append(number)
        self.flags.append(0)
        self.starts.append(0)
        self.in_broker += 1
        return number, len(account.numbers) - 1

    def started(self, process: SimProcess, work: Work, number: int, place: int) -> None:
        account, flags = self.queues[QueueKey(work.tenant, work.queue)], self.flags[number]
        self.note(f"start {number} {work.attempt} {process.number}")
        if flags & ACKED:
            self._broken(f"{work!r} was acked and came again")
        if place > account.frontier and account.strict:
            self._broken(f"{work!r} at place {place} started before place {account.frontier} was done")
        for other in account.running:
            if not other.excused:
                self._broken(f"{work!r} started in process {process.number} while process {other.number} works on its queue")
        account.running.append(process)
        if flags & (FINISHED | DONE):
            # Its ack was lost, of a dead letter too: its attempts are counted anew.
            self.repeats += 1
            return
        self.starts[number] += 1
        limit = self._max_attempts + 1 + self.cancelled[number]
        if work.attempt > self._max_attempts or self.starts[number] > limit:
            self._broken(f"{work!r} was started {self.starts[number]} times")

    def ended(self, process: SimProcess, work: Work, number: int, how: str) -> None:
        """A handler ended: `finished`, `failed`, `rejected`, `cancelled` or `killed`."""
        self.note(f"{how} {number}")
        account = self.queues[QueueKey(work.tenant, work.queue)]
        account.running.remove(process)
        if how == "finished":
            self.flags[number] |= FINISHED
            self._advance(account)
        elif how == "cancelled":
            self.cancelled[number] += 1

    def acking(self, delivery: Delivery) -> None:
        number, key = number_of(delivery.body), key_of(delivery.body)
        self.flags[number] |= DONE
        self._advance(self.queues[key])

    def acked(self, delivery: Delivery) -> None:
        number = number_of(delivery.body)
        if self.flags[number] & ACKED:
            self._broken(f"message {number} was acked twice")
        self.flags[number] |= ACKED
        self.in_broker -= 1

    def _advance(self, account: QueueAccount) -> None:
        numbers, flags = account.numbers, self.flags
        while account.frontier < len(numbers) and flags[numbers[account.frontier]] & (FINISHED | DONE):
            account.frontier += 1

    # ---- leases ------------------------------------------------------------------------------------------------------

    def stepped(self, commands: Sequence[Command], outcomes: Sequence[Outcome], now_ms: int) -> None:
        """The ledger has done a step."""
        self.check()
        for command, outcome in zip(commands, outcomes, strict=True):
            self._digest.update(f"{now_ms} {type(command).__name__} {type(outcome).__name__}\n".encode())
            match command, outcome:
                case Settle(), Settled():
                    self._settled(command, now_ms)
                    if outcome.next is not None:
                        self._granted(outcome.next, now_ms)
                case Acquire(), Granted():
                    self._granted(outcome, now_ms)
                case Renew(), Renewed():
                    self._renewed(command.lease, now_ms + outcome.valid_ms)
                case GiveBack(), GivenBack(ended=True):
                    self._close(command.lease, now_ms)

    def _granted(self, granted: Granted, now_ms: int) -> None:
        key, token = granted.lease.of_queue, granted.lease.token
        account = self.queues[key]
        if token == account.token:
            return  # the same answer again
        self._digest.update(f"grant {key.member} {token}\n".encode())
        if token <= self.last_token:
            self._broken(f"token {token} after {self.last_token}")
        if now_ms < account.free_from_ms:
            self._broken(f"{key.member} granted {account.free_from_ms - now_ms} ms too early")
        self.grants += 1
        self.last_token = account.token = token
        account.open = True
        self._free_from(account, now_ms + granted.valid_ms)
        waited = self.longest_wait_ms
        waited[granted.priority_class] = max(waited[granted.priority_class], granted.waited_ms)

    def _free_from(self, account: QueueAccount, ends_ms: int) -> None:
        account.free_from_ms = ends_ms + (self._quarantine_ms if account.strict else 0)

    def _renewed(self, lease: LeaseKey, ends_ms: int) -> None:
        account = self.queues[lease.of_queue]
        if not account.open or account.token != lease.token:
            self._broken(f"{lease} was renewed and is not held")
        self._free_from(account, ends_ms)

    def _settled(self, command: Settle, now_ms: int) -> None:
        closed = self._close(command.lease, now_ms)
        if closed is not None and command.end_reason is EndReason.BROKER_LOST:
            self._free_from(closed, now_ms)

    def _close(self, lease: LeaseKey, now_ms: int) -> QueueAccount | None:
        """The lease ended by its holder's word; the queue, unless that was known (the same answer again)."""
        account = self.queues[lease.of_queue]
        if account.token != lease.token or not account.open:
            return None
        account.open, account.free_from_ms = False, now_ms
        return account

    def _broken(self, text: str) -> None:
        self._fault = self._fault or f"at {trio.current_time():.6f} s: {text}"
        self.check()

    def check(self) -> None:
        """Raises the first broken promise again: what is raised in a handler, the runtime takes for the handler's failure."""
        if self._fault:
            raise BrokenPromiseError(self._fault)


def payload(number: int, place: int, fate: str, key: QueueKey) -> bytes:
    """The body of a message."""
    return f"{number} {place} {fate} {key.member}".encode()


def number_of(body: bytes) -> int:
    return int(body[: body.index(b" ")])


def key_of(body: bytes) -> QueueKey:
    return QueueKey.from_member(body.rsplit(b" ", 1)[1].decode())
