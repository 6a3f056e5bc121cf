"""Who imports whom: the contracts of .importlinter, and purity of the files that may not see a clock."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools import environment_tool

ROOT = Path(__file__).resolve().parents[2]
WORKER = ROOT / "workers/slicelease/worker"
DOMAIN = ROOT / "control_plane/slicelease/control_plane/domain"

PURE_WORKER = ("slice_machine.py", "lease_window.py", "attention.py", "amqp/connection.py")
IMPURE = {"asyncio", "logging", "os", "random", "secrets", "select", "socket", "ssl", "threading", "time", "trio", "uuid"}


def imports(path: Path) -> Iterator[str]:
    """The absolute module names that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module


def test_the_import_contracts_are_kept() -> None:
    ended = subprocess.run([environment_tool("lint-imports")], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("path", sorted(DOMAIN.rglob("*.py")), ids=lambda path: path.name)
def test_the_domain_knows_the_standard_library_and_itself_only(path: Path) -> None:
    own = "slicelease.control_plane.domain"
    foreign = {name for name in imports(path) if name.split(".")[0] not in sys.stdlib_module_names}
    assert {name for name in foreign if name != own and not name.startswith(f"{own}.")} == set()


@pytest.mark.parametrize(
    "path", [*sorted(DOMAIN.rglob("*.py")), *(WORKER / name for name in PURE_WORKER)], ids=lambda path: path.name
)
def test_a_pure_file_sees_no_clock_no_dice_no_log_and_no_loop(path: Path) -> None:
    assert {name for name in imports(path) if name.split(".")[0] in IMPURE} == set()
