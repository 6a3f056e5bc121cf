"""The tools that the documentation's lines run with are the real ones."""

import subprocess

from tests.tools import buf_path, grpcurl_path


def test_grpcurl_is_the_real_one() -> None:
    ended = subprocess.run([grpcurl_path(), "--version"], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stderr.startswith("grpcurl ")


def test_buf_answers() -> None:
    ended = subprocess.run([buf_path(), "--version"], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.strip().count(".") == 2
