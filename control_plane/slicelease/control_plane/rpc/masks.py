"""Update masks: which fields of a resource a call changes (AIP-134, AIP-161).

May live here: merging of a given resource into the current one, by descriptor. May not know: what the fields mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from google.protobuf.message import Message

from .status import invalid_field

_M = TypeVar("_M", bound=Message)
ALL = "*"
_FIXED = frozenset({"name", "etag"})
"""Identity, not content: taken from the request whatever the mask says."""


def merged(current: _M, given: _M, mask: Sequence[str], writable: Iterable[str], output_only: Iterable[str]) -> _M:
    """A copy of `current` in which the masked fields have the values they have in `given`.

    Absent mask: every field that is set in `given`, to its leaves; `*`: all. Output-only fields in the mask are ignored
    (AIP-203). Raises CallError for a path that is no field.
    """
    result = type(current)()
    result.CopyFrom(current)
    for path in _paths(given, mask, frozenset(writable), _FIXED | frozenset(output_only)):
        _assign(result, given, path.split("."))
    return result


def _paths(given: Message, mask: Sequence[str], writable: frozenset[str], ignored: frozenset[str]) -> list[str]:
    if not mask:
        return [path for path in _set_leaves(given) if path.partition(".")[0] in writable]
    if ALL in mask:
        if len(mask) > 1:
            raise invalid_field("update_mask", "`*` stands alone")
        return sorted(writable)
    return [path for path in mask if _is_writable(given, path, writable, ignored)]


def _is_writable(given: Message, path: str, writable: frozenset[str], ignored: frozenset[str]) -> bool:
    head, _, rest = path.partition(".")
    if path in ignored:
        return False
    field = given.DESCRIPTOR.fields_by_name.get(head)
    nested = field.message_type if field is not None else None
    known = head in writable and (not rest or (nested is not None and rest in nested.fields_by_name))
    if not known:
        raise invalid_field("update_mask", f"no such field: {path[:80]!r}")
    return True


def _set_leaves(message: Message, prefix: str = "") -> list[str]:
    leaves: list[str] = []
    for field, value in message.ListFields():
        nested = isinstance(value, Message) and not value.DESCRIPTOR.full_name.startswith("google.protobuf.")
        leaves += _set_leaves(value, f"{prefix}{field.name}.") if nested else [prefix + field.name]
    return leaves


def _assign(target: Any, source: Any, path: list[str]) -> None:
    for step in path[:-1]:
        target, source = getattr(target, step), getattr(source, step)
    leaf = path[-1]
    if target.DESCRIPTOR.fields_by_name[leaf].message_type is None:
        setattr(target, leaf, getattr(source, leaf))
        return
    target.ClearField(leaf)
    if source.HasField(leaf):
        getattr(target, leaf).CopyFrom(getattr(source, leaf))
