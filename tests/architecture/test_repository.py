"""What is committed: every task is in the help, and nothing speaks of the machine that it was written on."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

IGNORED = re.compile(r"\.venv.*|__pycache__|build|dist|\.git|\..*_cache|\.hypothesis|.*\.egg-info")
# Written in halves, so that this file does not find itself.
PRIVATE = re.compile("|".join(("/" + r"work/(main|shared)\b", "/" + r"home/\w+", "/" + r"root/\.", "/tmp/" + "setup")))


def ours() -> list[Path]:
    """Every file of the tree but results and caches; asks no git, which a machine that only runs the tests may lack."""
    found = []
    for folder, subfolders, names in os.walk(ROOT):
        subfolders[:] = [name for name in subfolders if not IGNORED.fullmatch(name)]
        found += [path for name in names if (path := Path(folder, name)).is_file() and not path.is_symlink()]
    return found


def make(*arguments: str) -> str:
    return subprocess.run(["make", *arguments], cwd=ROOT, capture_output=True, check=True, text=True).stdout


def test_every_task_is_in_the_help() -> None:
    makefile = (ROOT / "Makefile").read_text()
    tasks = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    listed = {line.split()[0] for line in make("help").splitlines()}
    assert tasks == listed
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert set(phony.split()) == tasks


@pytest.mark.parametrize("task", ["dev", "test", "lint", "smoke"])
def test_the_promised_tasks_exist(task: str) -> None:
    assert f"\n  {task} " in f"\n{make('help')}"


def test_no_file_names_a_place_on_the_machine_it_was_written_on() -> None:
    found = []
    for path in ours():
        text = path.read_bytes().decode(errors="replace")
        found += [f"{path.relative_to(ROOT)}: {hit.group()}" for hit in PRIVATE.finditer(text)]
    assert found == []


def test_every_module_opens_with_what_may_live_in_it() -> None:
    generated = re.compile(r"_pb2(_grpc)?\.pyi?$")
    modules = [path for path in ours() if path.suffix == ".py" and not generated.search(path.name)]
    texts = {str(path.relative_to(ROOT)): path.read_text().strip() for path in modules}
    assert [name for name, text in texts.items() if text and not text.startswith(('"""', "#", 'r"""'))] == []
