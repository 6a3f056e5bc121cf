"""What can be set: one record a setting, read from the settings models of the parts.

May live here: names and help texts derived from a pydantic model, and the list of all environment variables. May not
know: click, files, values.
"""

from __future__ import annotations

import enum
import importlib
import re
import types
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, Union, get_args, get_origin
from urllib.parse import urlsplit, urlunsplit

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

ENV_PREFIX = "SLICELEASE_"
CONFIG_ENV = f"{ENV_PREFIX}CONFIG"

_MODELS = {
    "control-plane": ("slicelease.control_plane.config", "ControlPlaneSettings"),
    "worker": ("slicelease.worker.config", "WorkerSettings"),
}

# Kubernetes puts these into every container for each service of the namespace, so for one called `slicelease` or
# `slicelease-control-plane` too.
_KUBERNETES = re.compile(r"SLICELEASE_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)")


@dataclass(frozen=True, slots=True)
class SettingField:
    """One setting: its name in code and TOML, flag, environment variable, and what `--help` says of it."""

    name: str
    description: str
    default: str
    choices: tuple[str, ...]
    secret: bool

    @property
    def flag(self) -> str:
        """`--amqp-url` for `amqp_url`."""
        return "--" + self.name.replace("_", "-")

    @property
    def env(self) -> str:
        """`SLICELEASE_AMQP_URL` for `amqp_url`."""
        return ENV_PREFIX + self.name.upper()


def settings_model(part: str) -> type[BaseSettings]:
    """The settings model of `control-plane` or `worker`."""
    module, name = _MODELS[part]
    model: type[BaseSettings] = getattr(importlib.import_module(module), name)
    return model


def fields_of(*models: type[BaseSettings]) -> dict[str, SettingField]:
    """The settings of the models by name; the first model that has a setting describes it."""
    found: dict[str, SettingField] = {}
    for model in models:
        for name, info in model.model_fields.items():
            found.setdefault(name, _field(name, info))
    return found


def known_environment() -> frozenset[str]:
    """The environment variables of every part."""
    fields = fields_of(*(settings_model(part) for part in _MODELS))
    return frozenset({CONFIG_ENV, *(field.env for field in fields.values())})


def known_keys() -> frozenset[str]:
    """The TOML keys of every part."""
    return frozenset(fields_of(*(settings_model(part) for part in _MODELS)))


def strange_environment(environ: Iterable[str], known: frozenset[str]) -> list[str]:
    """Names that look like ours and are nobody's, those that Kubernetes sets left out; sorted."""
    ours = (name for name in environ if name.startswith(ENV_PREFIX) and name not in known)
    return sorted(name for name in ours if _KUBERNETES.fullmatch(name) is None)


def masked(url: str) -> str:
    """The URL with its password, if it has one, replaced by `***`; what cannot be read as a URL is hidden whole."""
    try:
        parts = urlsplit(url)
        password = parts.password
    except ValueError:
        return "***"
    if not password:
        return url
    user, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}:***@{host}"))


def _field(name: str, info: FieldInfo) -> SettingField:
    secret = name.endswith("_url") or _is_secret(info.annotation)
    return SettingField(
        name=name,
        description=(info.description or "").strip(),
        default=_shown(info.get_default(call_default_factory=True, validated_data={}), secret=secret),
        choices=_choices(info.annotation),
        secret=secret,
    )


def _is_secret(annotation: Any) -> bool:
    return annotation is SecretStr or any(_is_secret(inner) for inner in get_args(annotation))


def _shown(value: object, *, secret: bool) -> str:
    """The default as it would be written in a flag or variable; empty for none."""
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g}s"
    if isinstance(value, tuple | list | frozenset):
        return ",".join(_shown(item, secret=secret) for item in value)
    return masked(str(value)) if secret else str(value)


def _choices(annotation: Any) -> tuple[str, ...]:
    if get_origin(annotation) is Literal:
        return tuple(str(value) for value in get_args(annotation))
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return tuple(str(member.value) for member in annotation)
    if annotation is bool:
        return ("true", "false")
    if get_origin(annotation) in (Union, types.UnionType):
        return next(filter(None, map(_choices, get_args(annotation))), ())
    return ()
