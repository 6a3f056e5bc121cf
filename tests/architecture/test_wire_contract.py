"""The protos obey their rules, stay compatible with the committed contract, and their Python code is fresh."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools import buf_path

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


def test_the_generated_code_is_fresh() -> None:
    ended = run(sys.executable, "scripts/generate_protos.py", "--check")
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_protos_obey_the_lint_rules() -> None:
    ended = run(buf_path(), "lint")
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.fixture
def image(tmp_path: Path) -> Path:
    target = tmp_path / "protos.binpb"
    ended = run(buf_path(), "build", "-o", str(target))
    assert ended.returncode == 0, ended.stderr
    return target


def test_the_protos_are_compatible_with_the_committed_contract(image: Path) -> None:
    ended = run(buf_path(), "breaking", str(image), "--against", "protos/baseline.binpb")
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_removed_field_is_found(image: Path, tmp_path: Path) -> None:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    damaged = FileDescriptorSet.FromString(image.read_bytes())
    (attention,) = (file for file in damaged.file if file.name == "slicelease/v1/attention.proto")
    removed = attention.message_type[0].field.pop()
    other = tmp_path / "damaged.binpb"
    other.write_bytes(damaged.SerializeToString())
    ended = run(buf_path(), "breaking", str(other), "--against", "protos/baseline.binpb")
    assert ended.returncode != 0
    assert removed.name in ended.stdout
