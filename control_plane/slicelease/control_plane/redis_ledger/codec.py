"""Commands to flat arguments, flat replies to outcomes: by the types of their fields, so that a new field is never forgotten.

May live here: the wire form of every type that commands and outcomes are made of. May not know: connections, Redis, time.

    command    word, number of arguments, arguments          outcome    WORD, fields
    optional   0, or 1 and the value                         many       how many, then each
    enum       its number (0 where it is absent)             terms, totals    their integers in one text
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from enum import IntEnum, StrEnum
from functools import cache, lru_cache
from typing import Any, NamedTuple

from slicelease.control_plane.domain.commands import Command, Totals
from slicelease.control_plane.domain.names import LeaseKey, QueueKey
from slicelease.control_plane.domain.outcomes import Outcome
from slicelease.control_plane.domain.policy import LedgerConfig, Ordering, SliceTerms, TenantPolicy

Value = str | int
Put = Callable[[list[Value], Any], None]
Take = Callable[[Iterator[Value]], Any]


class Form(NamedTuple):
    """How a type goes into a flat list and comes out of it."""

    put: Put
    take: Take


class CodecError(ValueError):
    """A list that is no reply (or no command) of this library's version."""


def word_of(kind: type) -> str:
    """`ClaimPublish` to `claim_publish`; outcomes are spelt in capitals."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


# ---- forms of types -----------------------------------------------------------------------------------------------------


def _put_value(out: list[Value], value: Any) -> None:
    out.append(value)


def _put_integer(out: list[Value], value: int) -> None:
    out.append(int(value))


def _take_text(items: Iterator[Value]) -> str:
    return str(next(items))


def _take_integer(items: Iterator[Value]) -> int:
    return int(next(items))


def _put_queue(out: list[Value], key: QueueKey) -> None:
    out.append(f"{key.tenant}/{key.queue}")


def _take_queue(items: Iterator[Value]) -> QueueKey:
    return QueueKey.from_member(str(next(items)))


def _put_lease(out: list[Value], key: LeaseKey) -> None:
    out.append(f"{key.tenant}/{key.queue}")
    out.append(key.token)


def _take_lease(items: Iterator[Value]) -> LeaseKey:
    tenant, _, queue = str(next(items)).partition("/")
    return LeaseKey(tenant, queue, int(next(items)))


@lru_cache(maxsize=1024)
def terms_text(terms: SliceTerms) -> str:
    """Six integers in the order of the fields."""
    return " ".join(str(int(getattr(terms, field.name))) for field in fields(terms))


@lru_cache(maxsize=1024)
def terms_of(text: str) -> SliceTerms:
    """The inverse of `terms_text`."""
    messages, slice_ms, attempts, backoff_ms, cap_ms, ordering = map(int, text.split(" "))
    return SliceTerms(messages, slice_ms, attempts, backoff_ms, cap_ms, Ordering(ordering))


def _put_totals(out: list[Value], t: Totals) -> None:
    out.append(f"{t.messages} {t.failed} {t.dead_lettered} {t.bytes} {t.handler_ms}")


def _put_tenant_policy(out: list[Value], policy: TenantPolicy) -> None:
    out += (policy.priority_class, policy.weight, policy.charge_per_ms, policy.display_name)


def _take_tenant_policy(items: Iterator[Value]) -> TenantPolicy:
    priority_class, weight, _compiled, name = [next(items) for _ in range(4)]
    return TenantPolicy(str(priority_class), int(weight), str(name))


_SPECIAL: dict[Any, Form] = {
    str: Form(_put_value, _take_text),
    int: Form(_put_value, _take_integer),
    bool: Form(_put_integer, lambda items: int(next(items)) == 1),
    QueueKey: Form(_put_queue, _take_queue),
    LeaseKey: Form(_put_lease, _take_lease),
    SliceTerms: Form(lambda out, terms: out.append(terms_text(terms)), lambda items: terms_of(str(next(items)))),
    Totals: Form(_put_totals, lambda items: Totals(*map(int, str(next(items)).split(" ")))),
    TenantPolicy: Form(_put_tenant_policy, _take_tenant_policy),
}


@cache
def form_of(kind: Any) -> Form:
    """The form of a field's type."""
    if kind in _SPECIAL:
        return _SPECIAL[kind]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is types.UnionType and arguments[-1] is type(None):
        return _absent_is_zero(arguments[0]) if issubclass(arguments[0], IntEnum) else _optional(form_of(arguments[0]))
    if origin is types.UnionType:
        return _one_of(arguments)
    if origin is tuple and arguments[-1] is Ellipsis:
        return _many(form_of(arguments[0]))
    if origin is tuple:
        return _fixed(tuple(map(form_of, arguments)))
    if issubclass(kind, IntEnum):
        return Form(_put_integer, lambda items: kind(int(next(items))))
    if issubclass(kind, StrEnum):
        return Form(_put_value, lambda items: kind(str(next(items))))
    if is_dataclass(kind):
        return _record(kind)
    raise TypeError(f"no form for {kind}")


def _absent_is_zero(kind: type[IntEnum]) -> Form:
    return Form(lambda out, value: out.append(int(value or 0)), lambda items: kind(n) if (n := int(next(items))) else None)


def _optional(form: Form) -> Form:
    def put(out: list[Value], value: Any) -> None:
        if value is None:
            out.append(0)
        else:
            out.append(1)
            form.put(out, value)

    return Form(put, lambda items: form.take(items) if int(next(items)) else None)


def _many(form: Form) -> Form:
    def put(out: list[Value], values: Sequence[Any]) -> None:
        out.append(len(values))
        for value in values:
            form.put(out, value)

    return Form(put, lambda items: tuple([form.take(items) for _ in range(int(next(items)))]))


def _fixed(forms: tuple[Form, ...]) -> Form:
    def put(out: list[Value], values: Sequence[Any]) -> None:
        for form, value in zip(forms, values, strict=True):
            form.put(out, value)

    return Form(put, lambda items: tuple([form.take(items) for form in forms]))


def _record(kind: Any) -> Form:
    hints = typing.get_type_hints(kind)
    named = [(field.name, form_of(hints[field.name])) for field in fields(kind)]
    puts = [(name, form.put) for name, form in named]
    takes = [form.take for _, form in named]

    def put(out: list[Value], value: Any) -> None:
        for name, put_field in puts:
            put_field(out, getattr(value, name))

    return Form(put, lambda items: kind(*[take(items) for take in takes]))


def _one_of(kinds: Iterable[type]) -> Form:
    forms = {kind: (word_of(kind).upper(), form_of(kind)) for kind in kinds}
    by_word = {word: form.take for word, form in forms.values()}

    def put(out: list[Value], value: Any) -> None:
        word, form = forms[type(value)]
        out.append(word)
        form.put(out, value)

    return Form(put, lambda items: by_word[str(next(items))](items))


# ---- the three lists ----------------------------------------------------------------------------------------------------


COMMANDS: dict[type, tuple[str, Form]] = {kind: (word_of(kind), form_of(kind)) for kind in typing.get_args(Command)}
"""Every command with its word and form."""

_BY_WORD = dict(COMMANDS.values())
_OUTCOME = form_of(Outcome)


def config_arguments(config: LedgerConfig) -> list[Value]:
    """The configuration, in the order of its fields."""
    out: list[Value] = []
    form_of(LedgerConfig).put(out, config)
    return out


def command_arguments(out: list[Value], command: Command) -> None:
    """Appends the command."""
    word, form = COMMANDS[type(command)]
    start = len(out)
    out += (word, 0)
    form.put(out, command)
    out[start + 1] = len(out) - start - 2


def command_of(arguments: Sequence[Value]) -> Command:
    """The inverse of `command_arguments`; raises CodecError."""
    return typing.cast(Command, _whole(arguments[2:], _BY_WORD[str(arguments[0])].take))


def reply_of(outcome: Outcome) -> list[Value]:
    """The inverse of `outcome_of`."""
    out: list[Value] = []
    _OUTCOME.put(out, outcome)
    return out


def outcome_of(reply: Sequence[Value]) -> Outcome:
    """The outcome that a flat reply tells; raises CodecError."""
    return typing.cast(Outcome, _whole(reply, _OUTCOME.take))


def _whole(values: Sequence[Value], take: Take) -> Any:
    items = iter(values)
    try:
        taken = take(items)
    except (KeyError, StopIteration, ValueError, TypeError) as wrong:
        raise CodecError(f"not a list of this version: {values[:3]!r}") from wrong
    if next(items, None) is not None:
        raise CodecError(f"a list longer than its type: {values[:3]!r}")
    return taken
