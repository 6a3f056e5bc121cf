"""The scripts behind `make dev` and `make test` on a machine that lacks something: they pass over what cannot run, and
what they cannot mend they name with the line that does.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """An empty PATH folder, to be filled with the programs that the machine shall have."""
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


def program(machine: Path, name: str, script: str) -> Path:
    path = machine / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def run(machine: Path, script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = ["/bin/sh", str(ROOT / "scripts" / script), *arguments]
    env = {"PATH": str(machine), "HOME": str(machine), **environment}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_a_shim_that_cannot_run_is_passed_over(machine: Path) -> None:
    program(machine, "python3.11", "echo 'pyenv: python3.11: command not found' >&2; exit 127")
    good = program(machine, "python3", f'exec {sys.executable} "$@"')
    ended = run(machine, "find_python.sh", "python3.11", "python3")
    assert ended.stdout.strip() == str(good)


def test_a_version_of_pyenv_is_found_behind_its_shim(machine: Path) -> None:
    program(machine, "python3.13", "exit 127")
    version = machine / "pyenv" / "versions" / "3.13.7" / "bin"
    version.mkdir(parents=True)
    good = program(version, "python3", f'exec {sys.executable} "$@"')
    ended = run(machine, "find_python.sh", "python3.13", PYENV_ROOT=str(machine / "pyenv"))
    assert ended.stdout.strip() == str(good)


def test_a_python_without_venv_is_refused_with_the_apt_line(machine: Path) -> None:
    program(machine, "python3", f"""case "$*" in *ensurepip*) exit 1 ;; esac; exec {sys.executable} "$@" """)
    ended = run(machine, "find_python.sh", "python3.11", "python3")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "sudo apt-get install -y python3-venv" in ended.stderr
    assert "Tried: python3.11 python3" in ended.stderr


def test_an_environment_is_not_begun_without_python(machine: Path, tmp_path: Path) -> None:
    os.symlink("/usr/bin/dirname", machine / "dirname")
    ended = run(machine, "make_venv.sh", str(tmp_path / "venv"), "python3")
    assert ended.returncode != 0
    assert "sudo apt-get install -y python3-venv" in ended.stderr
    assert not (tmp_path / "venv").exists()


def test_missing_servers_are_named_with_the_apt_line_when_not_root(machine: Path) -> None:
    program(machine, "id", "echo 1000")
    program(machine, "rabbitmq-server", "exit 0")
    ended = run(machine, "install_servers.sh")
    assert ended.returncode == 1
    assert "sudo apt-get install -y redis-server\n" in ended.stderr


@pytest.mark.parametrize(("uid", "ci", "first"), [("0", "", "apt-get"), ("1000", "true", "sudo")])
def test_missing_servers_are_installed_as_root_or_in_ci(machine: Path, tmp_path: Path, uid: str, ci: str, first: str) -> None:
    said = tmp_path / "said"
    program(machine, "id", f"echo {uid}")
    program(machine, "rabbitmq-server", "exit 0")
    for name in ("apt-get", "sudo"):
        program(machine, name, f'echo {name} "$@" >> {said}')
    ended = run(machine, "install_servers.sh", **({"CI": ci} if ci else {}))
    assert ended.returncode == 0, ended.stderr
    update, install = said.read_text().splitlines()
    assert update.split()[0] == install.split()[0] == first
    assert "install" in install
    assert install.endswith("redis-server")


def test_nothing_is_installed_when_nothing_is_missing(machine: Path) -> None:
    program(machine, "rabbitmq-server", "exit 0")
    program(machine, "redis-server", "exit 0")
    ended = run(machine, "install_servers.sh")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
