"""The command's frame: version, help, missing parts, and what it does not import."""

import subprocess
import sys
from importlib.metadata import version

import pytest
from click.testing import CliRunner

from slicelease.cli.extras import needs_extra
from slicelease.cli.main import slicelease
from slicelease.cli.settings_fields import fields_of, settings_model


def help_of(*command: str) -> str:
    result = CliRunner().invoke(slicelease, [*command, "--help"], terminal_width=200)
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def test_version_and_subcommands() -> None:
    assert CliRunner().invoke(slicelease, ["--version"]).output == f"slicelease {version('slicelease')}\n"
    text = help_of()
    for name in ("control-plane", "worker", "dev", "health"):
        assert f" {name} " in text
    assert CliRunner().invoke(slicelease, ["devv"]).exit_code == 2


@pytest.mark.parametrize("part", ["control-plane", "worker"])
def test_help_lists_every_setting_with_its_variable_and_default(part: str) -> None:
    text = help_of(part)
    fields = fields_of(settings_model(part))
    assert fields
    for field in fields.values():
        shown = " ".join(f"{field.description} [env: {field.env}; default: {field.default or 'none'}]".split())
        assert f"{field.flag} " in text
        assert shown in text


def test_help_of_dev_lists_the_settings_of_both_parts() -> None:
    text = help_of("dev")
    for field in fields_of(settings_model("control-plane"), settings_model("worker")).values():
        if field.name not in {"control_plane", "tls_cert", "tls_key", "tls_ca"}:
            assert f"{field.flag} " in text
            assert f"[env: {field.env}; default: " in text
    assert "default: in memory" in text
    assert "guest:guest" not in text


def test_version_and_help_import_no_part() -> None:
    code = (
        "import sys; from slicelease.cli.main import slicelease;"
        "slicelease(['--help'], standalone_mode=False);"
        "print(sorted(m for m in sys.modules if m.split('.')[0] in {'grpc','trio','pydantic','redis','rich','uvloop'}))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "Missing option '--app'"),
        (["--app", "nowhere_at_all:app"], "there is no module 'nowhere_at_all' here or on sys.path"),
        (["--app", "json:dumps"], "is no SliceWorker but function"),
        (["--app", "json:dumps", "--slots", "many"], "--slots: 'many' is not valid"),
    ],
)
def test_a_worker_that_cannot_start_says_why(args: list[str], said: str) -> None:
    result = CliRunner().invoke(slicelease, ["worker", *args])
    assert result.exit_code == 2
    assert said in result.output


@pytest.mark.parametrize(
    ("args", "package", "extra"),
    [
        (["worker", "--app", "json:dumps"], "trio", "worker"),
        (["control-plane"], "uvloop", "control-plane"),
        (["health"], "grpc_health", "control-plane"),
        (["dev"], "rich", "embedded"),
    ],
)
def test_a_part_that_is_not_installed_is_named_with_the_line_that_installs_it(args: list[str], package: str, extra: str) -> None:
    code = (
        "import sys\n"
        f"sys.modules[{package!r}] = None\n"
        "from slicelease.cli.main import slicelease\n"
        f"slicelease({args!r}, prog_name='slicelease')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f'{package} is not installed; this command needs: pip install "slicelease[{extra}]"' in done.stderr


def test_a_module_of_ours_that_is_missing_is_a_bug_and_passes() -> None:
    with pytest.raises(ModuleNotFoundError), needs_extra("worker"):
        raise ModuleNotFoundError("No module named 'slicelease.nothing'", name="slicelease.nothing")


def test_a_control_plane_reads_all_settings_without_the_workers_packages_and_the_other_way_round() -> None:
    for missing, command in (("trio", ["control-plane", "--help"]), ("redis", ["worker", "--help"])):
        code = (
            "import sys\n"
            f"sys.modules[{missing!r}] = None\n"
            "from slicelease.cli.main import slicelease\n"
            "from slicelease.cli.settings_fields import known_environment\n"
            "assert {'SLICELEASE_SLOTS', 'SLICELEASE_LISTEN'} <= known_environment()\n"
            f"slicelease({command!r})\n"
        )
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
