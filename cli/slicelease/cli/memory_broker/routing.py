"""Exchanges: to which queues a message goes.

May live here: bindings and the rules of direct, fanout and alternate exchanges. May not know: queues beyond their names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum


class ExchangeKind(StrEnum):
    """How an exchange chooses among its bindings."""

    DIRECT = "direct"
    FANOUT = "fanout"


class UnknownExchangeError(Exception):
    """There is no exchange of that name."""


class ExchangeDiffersError(Exception):
    """The exchange exists with another kind or alternate."""


@dataclass(slots=True)
class _Exchange:
    kind: ExchangeKind
    alternate: str
    bindings: dict[str, dict[str, None]] = field(default_factory=dict)

    def chosen(self, routing_key: str) -> Iterable[str]:
        if self.kind is ExchangeKind.DIRECT:
            return self.bindings.get(routing_key, ())
        return dict.fromkeys(queue for queues in self.bindings.values() for queue in queues)


class Routing:
    """All exchanges but the default one, which reaches every queue by its name."""

    def __init__(self) -> None:
        self._exchanges: dict[str, _Exchange] = {}

    def declare(self, name: str, kind: ExchangeKind, alternate: str) -> None:
        """Adds an exchange. Raises ExchangeDiffersError where it exists otherwise."""
        known = self._exchanges.setdefault(name, _Exchange(kind, alternate))
        if (known.kind, known.alternate) != (kind, alternate):
            raise ExchangeDiffersError(f"exchange {name} exists as {known.kind} with alternate {known.alternate!r}")

    def knows(self, name: str) -> bool:
        """Whether there is an exchange of that name."""
        return name in self._exchanges

    def bind(self, queue: str, exchange: str, routing_key: str) -> None:
        """Adds a binding. Raises UnknownExchangeError."""
        self._exchange(exchange).bindings.setdefault(routing_key, {})[queue] = None

    def forget_queue(self, queue: str) -> None:
        """Drops every binding of a queue that is gone."""
        for exchange in self._exchanges.values():
            for queues in exchange.bindings.values():
                queues.pop(queue, None)

    def queues_for(self, exchange: str, routing_key: str) -> list[str]:
        """The queues that a message reaches, each once; the alternate's where the exchange itself reaches none.

        Raises UnknownExchangeError for the exchange itself; an alternate that does not exist reaches nothing.
        """
        seen: set[str] = set()
        found = list(self._exchange(exchange).chosen(routing_key))
        while not found and exchange not in seen:
            seen.add(exchange)
            exchange = self._exchanges[exchange].alternate
            if exchange not in self._exchanges:
                break
            found = list(self._exchanges[exchange].chosen(routing_key))
        return found

    def _exchange(self, name: str) -> _Exchange:
        try:
            return self._exchanges[name]
        except KeyError:
            raise UnknownExchangeError(f"no exchange {name!r}") from None
