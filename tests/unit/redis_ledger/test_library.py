"""The Lua text: its name, and that its words are those of the Python side."""

import re
import typing
from collections.abc import Iterator
from typing import Any

from slicelease.control_plane.domain.commands import Command
from slicelease.control_plane.domain.outcomes import Failed, Outcome, RefusalReason
from slicelease.control_plane.redis_ledger.codec import word_of
from slicelease.control_plane.redis_ledger.library import build, library, parts

TEXT = library().text
COMMANDS: tuple[Any, ...] = typing.get_args(Command)
OUTCOMES: tuple[Any, ...] = typing.get_args(Outcome)


def code_lines() -> Iterator[tuple[str, str]]:
    """Lines of the parts without their comments."""
    for name, text in parts().items():
        yield from ((name, re.sub(r"--.*$", "", line)) for line in text.splitlines())


def test_the_name_tells_the_schema_and_the_text() -> None:
    assert re.fullmatch(r"slicelease_1_[0-9a-f]{8}", library().name)
    assert library().text.startswith(f"#!lua name={library().name}\n")
    changed = dict(parts())
    changed["90_step.lua"] += "\n"
    assert build(changed).name != library().name
    assert build(parts(), schema=2).name.startswith("slicelease_2_")


def test_functions_are_named_after_the_library() -> None:
    assert library().step == f"{library().name}_step"
    assert library().step_at == f"{library().name}_step_at"
    assert re.findall(r"register_function\(NAME \.\. '(\w+)'", TEXT) == ["_step", "_step_at"]


def test_every_command_has_its_function_and_no_function_is_left_over() -> None:
    assert set(re.findall(r"^function commands\.(\w+)\(", TEXT, re.MULTILINE)) == {word_of(kind) for kind in COMMANDS}


def test_every_outcome_is_answered_by_its_word() -> None:
    words = {word_of(kind).upper() for kind in OUTCOMES}
    answered = set(re.findall(r"\{\s*'([A-Z_]+)'", TEXT)) - {"STEP", "SCHEMA"}
    assert answered == words
    assert word_of(Failed).upper() in words


def test_every_refusal_has_a_reason_of_the_specification() -> None:
    reasons = set(re.findall(r"'([A-Z]+_[A-Z_]+)'", TEXT)) & set(RefusalReason)
    assert reasons == set(RefusalReason)
    assert set(re.findall(r"refused\('([A-Z_]+)'", TEXT)) <= set(RefusalReason)


def test_numbers_are_never_printed_but_by_d() -> None:
    """`tostring` and `..` shorten big integers; the one tostring is for the text of a failure."""
    printed = [(name, line.strip()) for name, line in code_lines() if "tostring" in line]
    assert printed == [("90_step.lua", "local text = type(answer) == 'table' and answer.err or tostring(answer)")]
    sums = [(name, line.strip()) for name, line in code_lines() if re.search(r"\.\. *(\d|S\.now|S\.meta\.\w+)", line)]
    assert sums == []


def test_text_is_not_compared_by_the_locale() -> None:
    """Ids are compared by their bytes only: no `<` between things called id, member, after or name."""
    compared = [
        (name, line.strip()) for name, line in code_lines() if re.search(r"(?<!#)\b(\w*_?id|member|after|name) [<>]=? ", line)
    ]
    assert compared == []


def test_nothing_is_replaced_or_deleted_by_pattern() -> None:
    assert [line for _, line in code_lines() if re.search(r"'(KEYS|SCAN|FLUSH\w*|FUNCTION)'", line)] == []
