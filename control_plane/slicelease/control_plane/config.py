"""Settings of the control plane: names, units, defaults, and the bounds that belong together.

May live here: the settings model and what the ledger gets of it. May not know: where values come from (the command line's
matter) and what is done with them.
"""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from .domain import names
from .domain.policy import LedgerConfig

_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?")
_UNIT_S = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3_600.0}
_LONGEST_S = 10.0**9
_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:/@\[\]]+):(?P<port>\d{1,5})")


def _read_span(value: object) -> object:
    """`5s`, `500ms`, `1m`, `2h`, or plain seconds."""
    if isinstance(value, str):
        found = _SPAN.fullmatch(value.strip())
        if found is None:
            raise ValueError("a duration such as 5s, 500ms, 1m or plain seconds")
        return _read_span(float(found[1]) * _UNIT_S[found[2] or ""])
    if isinstance(value, bool) or (isinstance(value, int | float) and not -_LONGEST_S < value < _LONGEST_S):
        raise ValueError("a duration such as 5s, 500ms, 1m or plain seconds")
    return timedelta(seconds=value) if isinstance(value, int | float) else value


def _show_span(value: timedelta) -> str:
    return f"{value.total_seconds():g}s"


Span = Annotated[timedelta, BeforeValidator(_read_span), PlainSerializer(_show_span, return_type=str)]


def _check_address(value: str) -> str:
    found = _ADDRESS.fullmatch(value)
    if found is None or int(found["port"]) > 65_535:
        raise ValueError("an address is host:port, such as 127.0.0.1:50051")
    return value


Address = Annotated[str, AfterValidator(_check_address)]


def _span(default: str, text: str, least: str, most: str) -> Any:
    bounds: dict[str, Any] = {"ge": _read_span(least), "le": _read_span(most)}
    return Field(default=_read_span(default), description=f"{text} {least} to {most}.", **bounds)


def milliseconds(span: timedelta) -> int:
    """Whole milliseconds of a span."""
    return round(span / timedelta(milliseconds=1))


class ControlPlaneSettings(BaseSettings):
    """All settings of the control plane. Invalid values raise pydantic.ValidationError that names the key, never the value."""

    model_config = SettingsConfigDict(
        env_prefix="SLICELEASE_", frozen=True, extra="forbid", hide_input_in_errors=True, validate_default=True
    )

    amqp_url: SecretStr = Field(
        default=SecretStr("amqp://guest:guest@127.0.0.1:5672/"),
        description="RabbitMQ, as amqp:// or amqps:// URL with user, password and vhost.",
    )
    redis_url: SecretStr = Field(
        default=SecretStr("redis://127.0.0.1:6379/0"),
        description="Redis or Valkey that holds the ledger, as redis://, rediss:// or unix:// URL.",
    )
    listen: Address = Field(
        default="127.0.0.1:50051", description="Address of the gRPC server, host:port; port 0 takes a free one."
    )
    metrics_listen: Address | None = Field(
        default="127.0.0.1:9464",
        description="Address of /metrics, /ready and /live over HTTP, host:port; empty for none.",
    )
    cell: str = Field(default="default", description="Name of the installation in Redis: its keys carry it. An id as of tenants.")
    unknown_tenants: Literal["refuse", "create"] = Field(
        default="refuse",
        description="Work for an unknown tenant or queue: refuse it, or create them in the default class.",
    )
    default_class: str = Field(default="standard", description="Priority class of tenants that name none.")
    new_ledger: Literal["closed", "open"] = Field(
        default="closed",
        description="Whether an empty store grants at once (open) or first waits until every lease of a lost one has ended.",
    )
    lease_length: Span = _span("15s", "Validity of a renewed lease.", "2s", "10m")
    first_validity: Span = _span("5s", "Validity of a lease until its first renewal; not above lease_length.", "1s", "10m")
    shutdown_grace: Span = _span("20s", "Time that running calls have to end after SIGTERM.", "0s", "10m")
    reconcile_period: Span = _span("10s", "Pause between two rounds that look for work nobody told of.", "500ms", "1h")
    amqp_heartbeat: Span = _span("5s", "Longest AMQP heartbeat of any worker; whole seconds.", "1s", "1m")
    request_ttl: Span = _span("10m", "How long the answer to a request_id is kept; not below lease_length.", "1m", "24h")
    max_connection_age: Span = _span(
        "30m", "Age at which a client's connection is ended softly, so that load spreads again.", "10s", "24h"
    )
    log_format: Literal["json", "console"] = Field(default="json", description="Form of the log on standard error.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Least level that is logged.")
    tls_cert: Path | None = Field(default=None, description="PEM file with the server's certificate chain; needs tls_key.")
    tls_key: Path | None = Field(default=None, description="PEM file with the server's private key; needs tls_cert.")

    @field_validator("metrics_listen", "tls_cert", "tls_key", mode="before")
    @classmethod
    def _empty_is_none(cls, value: object) -> object:
        return None if value == "" else value

    @field_validator("amqp_url")
    @classmethod
    def _check_amqp(cls, value: SecretStr) -> SecretStr:
        return _check_scheme(value, ("amqp://", "amqps://"))

    @field_validator("redis_url")
    @classmethod
    def _check_redis(cls, value: SecretStr) -> SecretStr:
        return _check_scheme(value, ("redis://", "rediss://", "unix://"))

    @field_validator("cell", "default_class")
    @classmethod
    def _check_id(cls, value: str) -> str:
        if not names.is_id(value) or value == names.RESERVED_CLASS:
            raise ValueError("1 to 63 of A-Z a-z 0-9 _ -, beginning with a letter or digit, and not `work`")
        return value

    @field_validator("amqp_heartbeat")
    @classmethod
    def _check_whole_seconds(cls, value: timedelta) -> timedelta:
        if value.microseconds:
            raise ValueError("whole seconds: AMQP counts heartbeats so")
        return value

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.first_validity > self.lease_length:
            raise ValueError("first_validity: not above lease_length")
        if self.request_ttl < self.lease_length:
            raise ValueError("request_ttl: not below lease_length, or a late retry would be taken for a new request")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key: give both or neither")
        return self

    def ledger_config(self) -> LedgerConfig:
        """What every ledger step is given. A restarted store may have lost leases as long as the longest that was granted."""
        lease_ms = milliseconds(self.lease_length)
        quarantine_ms = 3 * milliseconds(self.amqp_heartbeat) + 1_000
        return LedgerConfig(
            lease_ms=lease_ms,
            first_lease_ms=milliseconds(self.first_validity),
            admission_ms=lease_ms + quarantine_ms,
            quarantine_ms=quarantine_ms,
            request_ttl_ms=milliseconds(self.request_ttl),
            open_when_new=self.new_ledger == "open",
        )


def _check_scheme(value: SecretStr, schemes: tuple[str, ...]) -> SecretStr:
    if not value.get_secret_value().startswith(schemes):
        raise ValueError(f"a URL that begins with {' or '.join(schemes)}")
    return value
