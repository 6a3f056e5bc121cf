"""Settings from flag, environment, TOML and default; and every mistake named, with exit code 2."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from slicelease.cli.options import build, gather, settings_options
from slicelease.control_plane.config import ControlPlaneSettings
from slicelease.worker.config import WorkerSettings


@click.command()
@settings_options(ControlPlaneSettings)
def show(config_file: Path | None, **flags: object) -> None:
    settings = build(ControlPlaneSettings, gather(ControlPlaneSettings, flags=flags, config_file=config_file))
    click.echo(f"{settings.listen} {settings.lease_length.total_seconds()}")


def run(*args: str, toml: Path | None = None, **env: str) -> tuple[int, str]:
    config = [] if toml is None else ["--config", str(toml)]
    result = CliRunner().invoke(show, [*config, *args], env=env)
    return result.exit_code, result.output


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    file = tmp_path / "settings.toml"
    file.write_text('listen = "h:3"\nlease_length = 20\n')
    return file


def test_flag_before_environment_before_toml_before_default(toml: Path) -> None:
    assert run() == (0, "127.0.0.1:50051 15.0\n")
    assert run(toml=toml) == (0, "h:3 20.0\n")
    assert run(toml=toml, SLICELEASE_LISTEN="h:2") == (0, "h:2 20.0\n")
    assert run("--listen", "h:1", toml=toml, SLICELEASE_LISTEN="h:2") == (0, "h:1 20.0\n")
    assert run("--lease-length", "30s", SLICELEASE_CONFIG=str(toml)) == (0, "h:3 30.0\n")


@pytest.mark.parametrize(
    ("args", "env", "said"),
    [
        (["--lease-length", "soon"], {}, "--lease-length: 'soon' is not valid: a duration such as 5s"),
        ([], {"SLICELEASE_LEASE_LENGTH": "1ms"}, "SLICELEASE_LEASE_LENGTH: '1ms' is not valid: Input should be"),
        (["--log-level", "loud"], {}, "--log-level: 'loud' is not valid: Input should be 'debug', 'info'"),
        ([], {"SLICELEASE_LISTN": "h:1"}, "variable SLICELEASE_LISTN is no setting; did you mean SLICELEASE_LISTEN?"),
        ([], {"SLICELEASE_XYZZY": "1"}, "SLICELEASE_XYZZY is no setting; settings are listed by --help"),
        (["--first-validity", "1m"], {}, "first_validity: not above lease_length"),
        (["--listn", "h:1"], {}, "No such option"),
        (["--config", "/nowhere.toml"], {}, "--config /nowhere.toml cannot be read: No such file"),
    ],
)
def test_a_mistake_is_named(args: list[str], env: dict[str, str], said: str) -> None:
    code, output = run(*args, toml=None, **env)
    assert code == 2
    assert said in output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('listn = "h:1"', "'listn' is no setting; did you mean listen?"),
        ("[worker]\nslots = 1", "'worker' is no setting"),
        ("lease_length = true", "lease_length in "),
        ("lease_length = [1]", "lease_length in "),
        ("listen =", "is no TOML: "),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text)
    code, output = run(toml=file)
    assert code == 2
    assert said in output


def test_one_file_may_hold_the_settings_of_all_parts(tmp_path: Path) -> None:
    file = tmp_path / "all.toml"
    file.write_text('slots = 3\nlisten = "h:1"\nclasses = "bulk"\n')
    assert run(toml=file) == (0, "h:1 15.0\n")
    worker = build(WorkerSettings, gather(WorkerSettings, flags={}, config_file=file))
    assert worker.slots == 3


@pytest.mark.parametrize("url", ["amqps//u:hunter2@h", "http://u:hunter2@h/"])
def test_a_bad_url_is_named_without_its_password(url: str) -> None:
    for code, output in (run("--amqp-url", url), run(SLICELEASE_AMQP_URL=url)):
        assert code == 2
        assert "hunter2" not in output
        assert "AMQP_URL: a URL" in output or "--amqp-url: a URL" in output


def test_variables_of_other_parts_and_programs_are_no_mistake() -> None:
    assert run(SLICELEASE_SLOTS="4", SLICELEASE_SERVICE_HOST="10.0.0.1", SLICE="x") == (0, "127.0.0.1:50051 15.0\n")
