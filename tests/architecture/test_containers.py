"""compose.yaml and the Dockerfile, as far as they can be checked without a Docker engine."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.tools import environment_tool, slicelease_path

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = ROOT / "compose.yaml"


def services() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())["services"]
    return loaded


def validate(path: Path) -> subprocess.CompletedProcess[str]:
    """Check a file against the compose-spec schema that check-jsonschema carries (Apache-2.0; no network)."""
    command = [environment_tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_compose_yaml_is_valid() -> None:
    ended = validate(COMPOSE)
    assert ended.returncode == 0, ended.stdout


def test_a_misspelt_key_is_found(tmp_path: Path) -> None:
    other = tmp_path / "compose.yaml"
    other.write_text(COMPOSE.read_text().replace("healthcheck:", "healthchek:"))
    ended = validate(other)
    assert ended.returncode != 0
    assert "healthchek" in ended.stdout


def test_it_runs_what_it_promises() -> None:
    assert set(services()) == {"redis", "rabbitmq", "control-plane", "worker"}
    assert services()["worker"]["deploy"]["replicas"] == 2


def test_who_waits_for_health_waits_for_a_service_that_has_a_check() -> None:
    waits = {
        (name, needed): needed in services() and "healthcheck" in services()[needed]
        for name, service in services().items()
        for needed, how in service.get("depends_on", {}).items()
        if how["condition"] == "service_healthy"
    }
    assert len(waits) == 4
    assert all(waits.values()), waits


def test_ports_are_published_on_loopback_only() -> None:
    published = [port for service in services().values() for port in service.get("ports", [])]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


@pytest.mark.parametrize("name", ["control-plane", "worker"])
def test_our_commands_take_the_settings_that_compose_gives_them(name: str) -> None:
    """Every variable is one that the command's --help lists, and the command line is accepted."""
    service = services()[name]
    known = slicelease(service["command"][0], "--help")
    assert [setting for setting in service["environment"] if setting not in known] == []
    assert [flag for flag in service["command"] if flag.startswith("--") and flag not in known] == []


def test_the_health_check_is_a_command_of_ours() -> None:
    marker, program, command, *flags = services()["control-plane"]["healthcheck"]["test"]
    assert (marker, program) == ("CMD", "slicelease")
    assert [flag for flag in flags if flag.startswith("--") and flag not in slicelease(command, "--help")] == []


def test_the_image_gets_every_part_and_leaves_root() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    sources = {word for line in lines if line.startswith("COPY ") and "--from" not in line for word in line.split()[1:-1]}
    assert [source for source in sources if not (ROOT / source).exists()] == []
    assert {f"!{source}" for source in sources} <= set((ROOT / ".dockerignore").read_text().split())
    users = [line for line in lines if line.startswith("USER ")]
    assert users == ["USER slicelease"]


def slicelease(*arguments: str) -> str:
    wide = {**os.environ, "COLUMNS": "200"}
    ended = subprocess.run([slicelease_path(), *arguments], env=wide, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout
