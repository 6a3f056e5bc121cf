"""Temporary folders named after their owner, so that those of a killed test run are swept by the next one."""

import os
import shutil
import tempfile
from pathlib import Path

_PREFIX = "slicelease-test-dir-"


def private_folder(kind: str) -> Path:
    """Make an empty folder for a server of this process, and remove those whose process is gone."""
    _sweep()
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-{kind}-"))


def _sweep() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        owner_pid = folder.name.removeprefix(_PREFIX).split("-")[0]
        if owner_pid.isdigit() and not Path("/proc", owner_pid).exists():
            shutil.rmtree(folder, ignore_errors=True)
