"""Generate the Python code of ``protos/slicelease`` beside its .proto files, or check that what is there is fresh.

Run by ``make proto`` and ``make proto-check`` (``--check`` writes nothing and ends with 1 when a file is missing, other
or left over). Protos of others come from the installed googleapis-common-protos, so the generated imports and the
descriptors at run time are the same ones.
"""

import argparse
import importlib.resources
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTOS = ROOT / "protos"
GENERATED = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py", "*_pb2_grpc.pyi")


class GenerateError(Exception):
    """protoc refused; carries its output."""


def main(argv: list[str]) -> int:
    """Generate, or with ``--check`` compare; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the code is not fresh")
    check = parser.parse_args(argv).check
    with tempfile.TemporaryDirectory() as folder:
        try:
            generate(Path(folder))
        except GenerateError as refused:
            sys.stderr.write(f"{refused}\n")
            return 1
        stale = differences(Path(folder), PROTOS)
        if not check:
            install(Path(folder), PROTOS)
    for line in stale:
        sys.stdout.write(f"{line}\n")
    if check and stale:
        sys.stderr.write("the generated code is not what the .proto files give: run `make proto` and commit\n")
    return 1 if check and stale else 0


def generate(target: Path) -> None:
    """Write the code of every .proto file under ``target``, in the folders of its package."""
    sources = sorted(str(path) for path in (PROTOS / "slicelease").rglob("*.proto"))
    outputs = [f"--{kind}_out={target}" for kind in ("python", "mypy", "grpc_python", "mypy_grpc")]
    command = [sys.executable, "-m", "grpc_tools.protoc", *includes(), *outputs, *sources]
    # The mypy plugins are found beside this interpreter, also when its environment is not activated.
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])
    ended = subprocess.run(command, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise GenerateError(ended.stderr)


def includes() -> list[str]:
    """Return protoc's search path: ours, google.protobuf's, then those of googleapis."""
    well_known = importlib.resources.files("grpc_tools") / "_proto"
    # A namespace package has no folder of its own: google/rpc/status_pb2.py lies two below the root we want.
    googleapis = Path(str(importlib.resources.files("google.rpc") / "status_pb2.py")).parents[2]
    return [f"-I{PROTOS}", f"-I{well_known}", f"-I{googleapis}"]


def differences(fresh: Path, committed: Path) -> list[str]:
    """Return one line for each generated file that is missing, other or left over in ``committed``."""
    new, old = _generated(fresh), _generated(committed)
    return (
        [f"missing: {name}" for name in sorted(new.keys() - old.keys())]
        + [f"differs: {name}" for name in sorted(new.keys() & old.keys()) if new[name] != old[name]]
        + [f"left over: {name}" for name in sorted(old.keys() - new.keys())]
    )


def install(fresh: Path, committed: Path) -> None:
    """Make the generated files of ``committed`` those of ``fresh``; untouched when equal."""
    new, old = _generated(fresh), _generated(committed)
    for name in old.keys() - new.keys():
        (committed / name).unlink()
    for name, content in new.items():
        if old.get(name) != content:
            (committed / name).write_bytes(content)


def _generated(folder: Path) -> dict[str, bytes]:
    files = (path for pattern in GENERATED for path in (folder / "slicelease").rglob(pattern))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
