"""Settings from flags, environment and a TOML file: click options made from the models, and the values they give.

May live here: precedence (flag, environment, TOML, default) and the texts of what is wrong. May not know: what a setting
is for. Everything wrong with settings is a click.UsageError, so exit code 2.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
from pydantic import ValidationError
from pydantic_settings import BaseSettings

from .settings_fields import (
    CONFIG_ENV,
    ENV_PREFIX,
    SettingField,
    fields_of,
    known_environment,
    known_keys,
    strange_environment,
)

_F = TypeVar("_F", bound=Callable[..., object])
_S = TypeVar("_S", bound=BaseSettings)


@dataclass(frozen=True, slots=True)
class Given:
    """A value that somebody gave, and where."""

    value: object
    source: str


def settings_options(
    *models: type[BaseSettings], leave_out: Iterable[str] = (), defaults: Mapping[str, str] | None = None
) -> Callable[[_F], _F]:
    """Decorates a command with `--config` and one option for each setting; unset ones arrive as None.

    `defaults` are texts of defaults that differ from the models'.
    """
    hidden = set(leave_out)
    fields = [field for name, field in fields_of(*models).items() if name not in hidden]

    def decorate(function: _F) -> _F:
        for field in reversed(fields):
            function = _option(field, (defaults or {}).get(field.name, field.default))(function)
        config = click.option(
            "--config",
            "config_file",
            envvar=CONFIG_ENV,
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help=f"TOML file of settings, keys as the flags with `_` for `-`. [env: {CONFIG_ENV}]",
        )
        return config(function)

    return decorate


def gather(
    *models: type[BaseSettings],
    flags: Mapping[str, object],
    config_file: Path | None,
    environ: Mapping[str, str] | None = None,
) -> dict[str, Given]:
    """What was given for the settings of the models, by name. Raises click.UsageError for unknown names."""
    environ = os.environ if environ is None else environ
    _refuse_strange_environment(environ)
    fields = fields_of(*models)
    given = {} if config_file is None else _from_toml(config_file, fields)
    for name, field in fields.items():
        if field.env in environ:
            given[name] = Given(environ[field.env], field.env)
        if flags.get(name) is not None:
            given[name] = Given(flags[name], field.flag)
    return given


def build(model: type[_S], given: Mapping[str, Given]) -> _S:
    """The settings of one model; what it does not have is left out. Raises click.UsageError that names the bad value."""
    own: dict[str, Any] = {name: one.value for name, one in given.items() if name in model.model_fields}
    try:
        return model(**own)
    except ValidationError as invalid:
        fields = fields_of(model)
        lines = [_wrong(error, given, fields) for error in invalid.errors(include_url=False, include_context=False)]
        raise click.UsageError("\n".join(lines)) from None


def _option(field: SettingField, default: str) -> Callable[[_F], _F]:
    notes = [f"env: {field.env}", f"default: {default or 'none'}"]
    metavar = f"[{'|'.join(field.choices)}]" if field.choices else "TEXT"
    return click.option(field.flag, field.name, default=None, metavar=metavar, help=f"{field.description} [{'; '.join(notes)}]")


def _refuse_strange_environment(environ: Mapping[str, str]) -> None:
    known = known_environment()
    for name in strange_environment(environ, known):
        raise click.UsageError(f"environment variable {name} is no setting{_meant(name, known)}")


def _from_toml(file: Path, fields: Mapping[str, SettingField]) -> dict[str, Given]:
    """Values of the file. Keys of another part are left alone, so that one file can serve all of them."""
    known = known_keys()
    given: dict[str, Given] = {}
    for key, value in _read_toml(file).items():
        if key not in known:
            raise click.UsageError(f"{file}: {key!r} is no setting{_meant(key, known)}")
        if key in fields:
            given[key] = Given(value, f"{key} in {file}")
    return given


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise click.UsageError(f"--config {file} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--config {file} is no TOML: {error}") from error


def _meant(name: str, known: Iterable[str]) -> str:
    bare = {one.removeprefix(ENV_PREFIX): one for one in known}
    close = difflib.get_close_matches(name.removeprefix(ENV_PREFIX), sorted(bare), n=1, cutoff=0.6)
    return f"; did you mean {bare[close[0]]}?" if close else "; settings are listed by --help"


def _wrong(error: Any, given: Mapping[str, Given], fields: Mapping[str, SettingField]) -> str:
    """One line: where the value came from, what it was unless it is secret, and what is wrong with it."""
    name = str(error["loc"][0]) if error["loc"] else ""
    text = str(error["msg"]).removeprefix("Value error, ")
    if name not in fields:
        return text
    where = given[name].source if name in given else fields[name].flag
    shown = "" if fields[name].secret or name not in given else f" {given[name].value!r}"
    return f"{where}:{shown} is not valid: {text}" if shown else f"{where}: {text}"
