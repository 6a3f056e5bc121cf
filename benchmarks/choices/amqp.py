"""Which AMQP client under Trio: ours against aio-pika, alone and under trio-asyncio; and what trio-amqp and async-amqp do today.

`python -m benchmarks.choices.amqp`: starts a private RabbitMQ; the candidates that are not our dependencies are installed into a
throw-away environment.
"""

from __future__ import annotations

import subprocess
import tempfile
import venv
from pathlib import Path

from benchmarks.side_by_side import Alternative, compare
from tests.servers import RabbitMQ

MESSAGES = 6_400


def main() -> None:
    with RabbitMQ() as broker:
        compare(
            "AMQP under Trio",
            [
                Alternative("our client (Trio)", "benchmarks.choices.amqp_ours", (broker.url, str(MESSAGES))),
                Alternative("aio-pika (asyncio)", "benchmarks.choices.amqp_aio_pika", (broker.url, str(MESSAGES))),
                Alternative("aio-pika under trio-asyncio", "benchmarks.choices.amqp_aio_pika", (broker.url, "1280", "trio")),
            ],
        )
    for package, module in (("trio-amqp", "trio_amqp"), ("async-amqp", "async_amqp")):
        print(f"\n{package}: {_imports(package, module)}")


def _imports(package: str, module: str) -> str:
    """What importing the newest release with today's Trio says."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder, "bin", "python"))
        # Trio once brought async_generator along; without it the import would stop before what matters.
        install = [python, "-m", "pip", "install", "-q", package, "trio", "async_generator"]
        installed = subprocess.run(install, capture_output=True, text=True, check=False)
        if installed.returncode != 0:
            return "cannot be installed: " + installed.stderr.strip().splitlines()[-1]
        tried = subprocess.run([python, "-W", "ignore", "-c", f"import {module}"], capture_output=True, text=True, check=False)
        said = tried.stderr.strip().splitlines()
        return f"import fails: {said[-1]}" if tried.returncode else "imports"


if __name__ == "__main__":
    main()
