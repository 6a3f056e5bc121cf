"""What the pages tell people to type works as typed: every command and every program in them is run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.pages import ADDRESS, ROOT, blocks, commands, pages
from tests.e2e.processes import Dev
from tests.servers import Redis, free_port
from tests.tools import buf_path, grpcurl_path, slicelease_path

RUN_ELSEWHERE = {
    "make dev": "test_make_dev_runs_the_system_with_the_flags_given",
    "make dev ARGS='--tenants 500 --messages 50000 --seed 7 --seconds 60 --json'": "the same, with a smaller load",
    "slicelease dev --app examples.invoices:app": "test_own_handlers_run_in_it_and_a_message_that_none_takes_is_named",
    "make test": "whoever runs this suite; and .ci/run",
}
"""Commands that run without end or would call this suite from within, and what runs them."""

SHORTER = {"SLICELEASE_MACHINE_EXAMPLES=2000": "SLICELEASE_MACHINE_EXAMPLES=5"}
"""What makes a long command of a page short enough for a test."""

LANGUAGES = {"sh", "python", "toml", "mermaid", "text", "lua", "diff", "yaml", "json"}


@pytest.fixture(scope="module", params=[page for page in pages() if commands(page)], ids=lambda page: page.stem)
def page_and_address(request: pytest.FixtureRequest) -> Iterator[tuple[Path, str]]:
    """Each page with a system of its own, as `slicelease dev --no-demo` gives it."""
    with Dev("--no-demo") as dev:
        yield request.param, dev.address


def test_every_command_of_a_page_works_as_typed(page_and_address: tuple[Path, str], redis_server: Redis, tmp_path: Path) -> None:
    page, address = page_and_address
    for where, command in commands(page):
        if command in RUN_ELSEWHERE:
            continue
        typed = command.replace(ADDRESS, address)
        for long, short in SHORTER.items():
            typed = typed.replace(long, short)
        ended = subprocess.run(
            typed,
            shell=True,
            cwd=ROOT,
            env=environment(tmp_path, redis_server.url),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ended.returncode == 0, f"{where}: {command}\n{ended.stdout}{ended.stderr}"


def environment(folder: Path, redis_url: str) -> dict[str, str]:
    """The tools of this environment first on PATH, the real grpcurl before its wrapper; redis-cli finds the given server."""
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    for path in (grpcurl_path(), buf_path(), slicelease_path()):
        link = tools / Path(path).name
        if not link.exists():
            link.symlink_to(path)
    redis_cli = tools / "redis-cli"
    redis_cli.write_text(f'#!/bin/sh\nexec {shutil.which("redis-cli")} -u {redis_url} "$@"\n')
    redis_cli.chmod(0o700)
    own = {key: value for key, value in os.environ.items() if not key.startswith("SLICELEASE_")}
    return own | {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.parametrize("page", [page for page in pages() if any(block.language == "python" for block in blocks(page))])
def test_every_program_of_a_page_runs(page: Path) -> None:
    with Dev("--no-demo") as dev:
        for block in blocks(page):
            if block.language != "python":
                continue
            program = block.text.replace(ADDRESS, dev.address)
            ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
            assert ended.returncode == 0, f"{block.where}\n{ended.stderr}"


def test_what_is_run_elsewhere_still_stands_in_a_page() -> None:
    shown = {command for page in pages() for _, command in commands(page)}
    assert set(RUN_ELSEWHERE) <= shown
    steps = re.search(r"for step in (.*);", (ROOT / ".ci" / "run").read_text())
    assert steps is not None
    assert "test" in steps[1].split()


def test_make_dev_runs_the_system_with_the_flags_given() -> None:
    with free_port() as port:
        flags = f"--tenants 10 --messages 200 --seconds 60 --json --listen 127.0.0.1:{port} --metrics-listen 127.0.0.1:0"
        ended = subprocess.run(
            ["make", "dev", f"ARGS={flags}"], cwd=ROOT, capture_output=True, text=True, timeout=200, check=False
        )
    assert ended.returncode == 0, ended.stderr
    figures = json.loads(ended.stdout)
    assert (figures["published"], figures["processed"], figures["lost"]) == (200, 200, 0)


def test_blocks_name_a_language_that_this_suite_knows() -> None:
    unknown = [
        f"{block.where}: {block.language}" for page in pages() for block in blocks(page) if block.language not in LANGUAGES
    ]
    assert unknown == []
