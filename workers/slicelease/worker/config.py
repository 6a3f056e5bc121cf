"""Settings of a worker: names, units, defaults, bounds.

May live here: the settings model. May not know: where values come from (the command line's matter), what is done with them.
"""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?")
_UNIT_S = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3_600.0}
_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:/@\[\],]+):(?P<port>\d{1,5})")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_MAX_CLASSES = 64


def _read_span(value: object) -> object:
    """`5s`, `500ms`, `1m`, `2h`, or plain seconds."""
    if isinstance(value, str):
        found = _SPAN.fullmatch(value.strip())
        if found is None:
            raise ValueError("a duration such as 5s, 500ms, 1m or plain seconds")
        return timedelta(seconds=float(found[1]) * _UNIT_S[found[2] or ""])
    if isinstance(value, int | float) and not isinstance(value, bool):
        return timedelta(seconds=value)
    return value


def _show_span(value: timedelta) -> str:
    return f"{value.total_seconds():g}s"


def _check_address(value: str) -> str:
    found = _ADDRESS.fullmatch(value)
    if found is None or int(found["port"]) > 65_535:
        raise ValueError("an address is host:port, such as 127.0.0.1:9465")
    return value


def _check_addresses(value: str) -> str:
    parts = [part.strip() for part in value.split(",") if part.strip()]
    if not parts:
        raise ValueError("at least one host:port")
    for part in parts:
        _check_address(part)
    return ",".join(parts)


def _split(value: object) -> object:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _check_classes(value: tuple[str, ...]) -> tuple[str, ...]:
    if not 1 <= len(value) <= _MAX_CLASSES or len(set(value)) != len(value):
        raise ValueError(f"1 to {_MAX_CLASSES} different class ids")
    for class_id in value:
        if _ID.fullmatch(class_id) is None or class_id == "work":
            raise ValueError("a class id is 1 to 63 of A-Z a-z 0-9 _ -, beginning with a letter or digit, and not `work`")
    return value


Span = Annotated[timedelta, BeforeValidator(_read_span), PlainSerializer(_show_span, return_type=str)]
Address = Annotated[str, AfterValidator(_check_address)]
Addresses = Annotated[str, AfterValidator(_check_addresses)]
Classes = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split), AfterValidator(_check_classes)]


def _span(default: str, text: str, least: str, most: str) -> Any:
    bounds: dict[str, Any] = {"ge": _read_span(least), "le": _read_span(most)}
    return Field(default=_read_span(default), description=f"{text} {least} to {most}.", **bounds)


class WorkerSettings(BaseSettings):
    """All settings of a worker. Invalid values raise pydantic.ValidationError that names the key, never the value."""

    model_config = SettingsConfigDict(
        env_prefix="SLICELEASE_", frozen=True, extra="forbid", hide_input_in_errors=True, validate_default=True
    )

    amqp_url: SecretStr = Field(
        default=SecretStr("amqp://guest:guest@127.0.0.1:5672/"),
        description="RabbitMQ, as amqp:// or amqps:// URL with user, password and vhost.",
    )
    control_plane: Addresses = Field(
        default="127.0.0.1:50051",
        description="Address of the control plane, host:port, or a comma list that is taken in turn; one name may have many "
        "addresses, which are looked up again and again, names in a list only at the start.",
    )
    classes: Classes = Field(
        default=("interactive", "standard", "bulk"), description="Priority classes that this worker serves, a comma list."
    )
    slots: int = Field(default=8, ge=1, le=1_000, description="Slices at once in this process, 1 to 1000.")
    ticket_hold: Span = _span("60s", "How long one ticket carries a chain of slices.", "0s", "10m")
    shutdown_grace: Span = _span("20s", "Time that running messages have to end after SIGTERM.", "0s", "10m")
    amqp_heartbeat: Span = _span("5s", "AMQP heartbeat, whole seconds, not above the control plane's amqp_heartbeat.", "1s", "1m")
    metrics_listen: Address | None = Field(
        default=None, description="Address of /metrics and /ready over HTTP, host:port; empty for none."
    )
    log_format: Literal["json", "console"] = Field(default="json", description="Form of the log on standard error.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Least level that is logged.")
    tls_ca: Path | None = Field(
        default=None,
        description="PEM file of authorities to trust: the control plane is then called over TLS, and amqps:// trusts them too.",
    )

    @field_validator("metrics_listen", "tls_ca", mode="before")
    @classmethod
    def _empty_is_none(cls, value: object) -> object:
        return None if value == "" else value

    @field_validator("amqp_url")
    @classmethod
    def _check_amqp(cls, value: SecretStr) -> SecretStr:
        if not value.get_secret_value().startswith(("amqp://", "amqps://")):
            raise ValueError("a URL that begins with amqp:// or amqps://")
        return value

    @field_validator("amqp_heartbeat")
    @classmethod
    def _check_whole_seconds(cls, value: timedelta) -> timedelta:
        if value.microseconds:
            raise ValueError("whole seconds: AMQP counts heartbeats so")
        return value
