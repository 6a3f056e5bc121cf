"""Settings: durations, bounds, addresses, and that no error shows a secret."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pydantic import ValidationError

from slicelease.control_plane.config import ControlPlaneSettings


def problem(**given: object) -> str:
    with pytest.raises(ValidationError) as caught:
        ControlPlaneSettings(**given)  # type: ignore[arg-type]  # texts, as the environment gives them
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5s", 5.0), ("500ms", 0.5), ("1m", 60.0), ("0.5h", 1_800.0), ("7", 7.0), (7, 7.0), (7.5, 7.5), (" 7 s ", 7.0)],
)
def test_a_duration_is_read(text: object, seconds: float) -> None:
    settings = ControlPlaneSettings(reconcile_period=text)  # type: ignore[arg-type]  # as above
    assert settings.reconcile_period == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["5x", "", "-1s", "1e3", "nan", "inf", "5 s 3 ms", "0s", "2h", True, float("inf"), float("nan"), "9" * 400]
)
def test_a_duration_that_is_none_or_out_of_bounds_is_named(text: object) -> None:
    assert "reconcile_period" in problem(reconcile_period=text)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"first_validity": "20s"}, "first_validity"),
        ({"request_ttl": "1m", "lease_length": "10m"}, "request_ttl"),
        ({"tls_cert": "c.pem"}, "tls_key"),
        ({"amqp_heartbeat": "2500ms"}, "amqp_heartbeat"),
        ({"listen": "50051"}, "listen"),
        ({"listen": "host:99999"}, "listen"),
        ({"cell": "a.b"}, "cell"),
        ({"cell": "a}b"}, "cell"),
        ({"default_class": "work"}, "default_class"),
        ({"unknown_tenants": "maybe"}, "unknown_tenants"),
        ({"amqp_uri": "amqp://h"}, "amqp_uri"),
    ],
)
def test_a_bad_value_is_an_error_that_names_its_key(given: dict[str, object], named: str) -> None:
    assert named in problem(**given)


@pytest.mark.parametrize("key", ["amqp_url", "redis_url"])
def test_no_error_and_no_text_shows_a_secret(key: str) -> None:
    """S04."""
    assert "hunter2" not in problem(**{key: "http://user:hunter2@host"})
    settings = ControlPlaneSettings(
        amqp_url="amqp://u:hunter2@h/v",  # type: ignore[arg-type]  # as above
        redis_url="redis://:hunter2@h",  # type: ignore[arg-type]  # as above
    )
    assert "hunter2" not in repr(settings) + str(settings.model_dump()) + settings.model_dump_json()


def test_the_ledger_is_given_what_belongs_together() -> None:
    settings = ControlPlaneSettings(lease_length="30s", amqp_heartbeat="7s", new_ledger="open")  # type: ignore[arg-type]  # as above
    config = settings.ledger_config()
    assert (config.lease_ms, config.first_lease_ms) == (30_000, 5_000)
    assert config.quarantine_ms == 3 * 7_000 + 1_000
    assert config.admission_ms == config.lease_ms + config.quarantine_ms
    assert config.open_when_new
    assert not config.open_when_restarted


def test_empty_means_none_where_none_is_possible() -> None:
    assert ControlPlaneSettings(metrics_listen="").metrics_listen is None


def test_every_setting_is_described() -> None:
    assert [name for name, field in ControlPlaneSettings.model_fields.items() if not field.description] == []
