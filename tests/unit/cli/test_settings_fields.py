"""What can be set, read from the models; and environment variables that are nobody's."""

from datetime import timedelta
from enum import Enum
from typing import Literal

import pytest
from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings

from slicelease.cli.settings_fields import fields_of, known_environment, masked, settings_model, strange_environment


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Sample(BaseSettings):
    amqp_url: str = Field(default="amqp://guest:secret@h:5672/", description="Where.")
    hidden: SecretStr = SecretStr("redis://u:secret@h/0")
    slots: int = 8
    grace: timedelta = timedelta(seconds=1.5)
    classes: tuple[str, ...] = ("a", "b")
    form: Literal["json", "console"] = "json"
    maybe: Literal["x"] | None = None
    colour: Colour = Colour.BLUE
    on: bool = True


def test_a_field_has_flag_variable_help_default_and_choices() -> None:
    fields = fields_of(Sample)
    first = fields["amqp_url"]
    assert (first.flag, first.env, first.description) == ("--amqp-url", "SLICELEASE_AMQP_URL", "Where.")
    assert {name: field.default for name, field in fields.items()} == {
        "amqp_url": "amqp://guest:***@h:5672/",
        "hidden": "redis://u:***@h/0",
        "slots": "8",
        "grace": "1.5s",
        "classes": "a,b",
        "form": "json",
        "maybe": "",
        "colour": "blue",
        "on": "true",
    }
    assert {name: field.choices for name, field in fields.items() if field.choices} == {
        "form": ("json", "console"),
        "maybe": ("x",),
        "colour": ("red", "blue"),
        "on": ("true", "false"),
    }


@pytest.mark.parametrize("part", ["control-plane", "worker"])
def test_every_setting_of_ours_is_described(part: str) -> None:
    for field in fields_of(settings_model(part)).values():
        assert field.description, field.name


def test_names_that_look_like_ours_are_found_and_those_of_kubernetes_are_not() -> None:
    environ = [
        "PATH",
        "SLICELEASE_AMQP_URL",
        "SLICELEASE_CONFIG",
        "SLICELEASE_SLOTS",
        "SLICELEASE_AMPQ_URL",
        "SLICELEASE_",
        "SLICELEASE_PORT",
        "SLICELEASE_PORT_50051_TCP",
        "SLICELEASE_PORT_50051_TCP_ADDR",
        "SLICELEASE_SERVICE_HOST",
        "SLICELEASE_SERVICE_PORT_GRPC",
        "SLICELEASE_CONTROL_PLANE_SERVICE_HOST",
        "SLICELEASE_CONTROL_PLANE_PORT_50051_TCP_PROTO",
    ]
    assert strange_environment(environ, known_environment()) == ["SLICELEASE_", "SLICELEASE_AMPQ_URL"]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://h:1/0", "redis://h:1/0"),
        ("amqp://u:p@h/v", "amqp://u:***@h/v"),
        ("rediss://:p%40x@h/0", "rediss://:***@h/0"),
        ("amqp://u:a@b@h/v", "amqp://u:***@h/v"),
        ("unix:///tmp/x", "unix:///tmp/x"),
        ("amqp://u:p@[broken", "***"),
    ],
)
def test_a_password_is_never_shown(url: str, shown: str) -> None:
    assert masked(url) == shown
