"""The public face of a worker: the app on which handlers are registered, the work they get, and how they refuse it.

May live here: registration and choice of handlers. May not know: leases, the broker, how a handler is run.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, TypeVar, overload

from .ports import Delivery, MalformedMessageError, MessageProperties

_NO_HEADERS: Mapping[str, Any] = MappingProxyType({})


class Reject(Exception):  # noqa: N818  reads as an order: raise Reject("no such customer")
    """Raised by a handler: this message will never succeed. It is dead-lettered at once, with the reason.

    The slice goes on with the next message. `reason` is text for people, put into a header of the dead letter; at most 255
    bytes of it are kept.
    """

    def __init__(self, reason: str = "rejected by its handler") -> None:
        super().__init__(reason)
        self.reason = reason


class Work:
    """One message of work, as a handler gets it.

    `tenant`, `queue`: ids of its owner. `payload`: the publisher's bytes. `message_id`: the publisher's, or one derived
    that is the same at each delivery: what to make effects idempotent by. `attempt`: the number of this try, from 1.
    `redelivered`: it was delivered before, perhaps to a worker that died. `fencing_token`: rises with every lease; give it to
    stores that refuse writes of an older one. `correlation_id`, `type`, `content_type`: as published, "" when absent.
    `headers`: the publisher's, read only. Reading one of the last four raises MalformedMessageError when the broker's
    properties cannot be decoded; let it pass, the message is then dead-lettered.
    """

    __slots__ = ("_delivery", "attempt", "fencing_token", "payload", "queue", "redelivered", "tenant")

    def __init__(self, delivery: Delivery, tenant: str, queue: str, attempt: int, fencing_token: int) -> None:
        self._delivery = delivery
        self.tenant = tenant
        self.queue = queue
        self.payload = delivery.body
        self.attempt = attempt
        self.redelivered = delivery.redelivered
        self.fencing_token = fencing_token

    def __repr__(self) -> str:
        return f"<Work {self.message_id!r} of {self.tenant}/{self.queue}, attempt {self.attempt}, {len(self.payload)} bytes>"

    @property
    def message_id(self) -> str:
        """The publisher's, or one derived."""
        return self._delivery.message_id

    @property
    def correlation_id(self) -> str:
        """As published, "" when absent."""
        return self._properties.correlation_id or ""

    @property
    def type(self) -> str:
        """As published, "" when absent."""
        return self._properties.type or ""

    @property
    def content_type(self) -> str:
        """As published, "" when absent."""
        return self._properties.content_type or ""

    @property
    def headers(self) -> Mapping[str, Any]:
        """As published; empty when absent."""
        return MappingProxyType(self._properties.headers) if self._properties.headers else _NO_HEADERS

    @property
    def _properties(self) -> MessageProperties:
        return self._delivery.properties


Handler = Callable[[Work], Awaitable[None]] | Callable[[Work], None]
_H = TypeVar("_H", bound=Callable[[Work], Any])

ANY_TYPE = "*"
"""The pattern of a handler registered without a type: every message, also one without a type."""


class SliceWorker:
    """Holds an application's handlers; `slicelease worker --app module:attribute` runs it.

    `@app.handler` takes every message, `@app.handler(type="invoice.*")` those whose AMQP type fits the pattern: `*` stands
    for any characters (dots too), `?` for one, case counts. Of several patterns that fit, the most specific wins: an exact
    type before a pattern, then the one with more ordinary characters, then the one registered first. A message that no
    handler takes is dead-lettered with the reason `no_handler`, so that it is seen, holds nothing up and can be redriven.

    Handlers are async functions (under Trio) or ordinary ones, which run in threads. A thread cannot be stopped: when the
    lease is lost or the worker's grace is over, its message is not acked and its late result is dropped.
    """

    def __init__(self) -> None:
        self._handlers: dict[str, Callable[[Work], Any]] = {}
        self._choose = lru_cache(maxsize=1024)(self._most_specific)

    @overload
    def handler(self, function: _H, /) -> _H: ...

    @overload
    def handler(self, *, type: str) -> Callable[[_H], _H]: ...

    def handler(self, function: Callable[[Work], Any] | None = None, *, type: str = ANY_TYPE) -> Any:  # noqa: A002  AMQP's name
        """Registers a handler, for every message or for a type. Raises ValueError for a pattern that has one already."""
        if function is not None:
            return self._register(ANY_TYPE, function)
        return lambda given: self._register(type, given)

    @property
    def patterns(self) -> tuple[str, ...]:
        """The registered patterns, in the order of registration."""
        return tuple(self._handlers)

    @property
    def needs_type(self) -> bool:
        """Whether the choice of the handler depends on the message."""
        return list(self._handlers) != [ANY_TYPE]

    def handler_for(self, message_type: str) -> Callable[[Work], Any] | None:
        """The handler of a message of this type ("" for none), or None."""
        return self._choose(message_type)

    def handler_name_of(self, work: Work) -> str:
        """The name of the handler that takes this message, for logs; empty when none does."""
        try:
            handler = self.handler_for(work.type if self.needs_type else "")
        except MalformedMessageError:
            return ""
        return "" if handler is None else handler_name(handler)

    def _register(self, pattern: str, function: _H) -> _H:
        if not pattern:
            raise ValueError("a handler's type must not be empty; leave it out to take every message")
        if pattern in self._handlers:
            raise ValueError(f"there is a handler for type {pattern!r} already: {handler_name(self._handlers[pattern])}")
        if not callable(function):
            raise TypeError(f"a handler must be a function, not {function!r}")
        self._handlers[pattern] = function
        self._choose.cache_clear()
        return function

    def _most_specific(self, message_type: str) -> Callable[[Work], Any] | None:
        fitting = [pattern for pattern in self._handlers if _fits(pattern, message_type)]
        return self._handlers[max(fitting, key=_specificity)] if fitting else None


def is_async(handler: Callable[[Work], Any]) -> bool:
    """Whether a handler is to be awaited: an async function, or an object whose call is one."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004


def handler_name(handler: Callable[[Work], Any]) -> str:
    """Its module and name, for logs."""
    return f"{getattr(handler, '__module__', '?')}.{getattr(handler, '__qualname__', type(handler).__qualname__)}"


def _fits(pattern: str, message_type: str) -> bool:
    return pattern == message_type or re.fullmatch(_regex(pattern), message_type, re.DOTALL) is not None


def _regex(pattern: str) -> str:
    return "".join({"*": ".*", "?": "."}.get(character, re.escape(character)) for character in pattern)


def _specificity(pattern: str) -> tuple[bool, int]:
    """Exact before patterns, then by ordinary characters; `max` keeps the first of equals."""
    wild = sum(pattern.count(character) for character in "*?")
    return wild == 0, len(pattern) - wild
