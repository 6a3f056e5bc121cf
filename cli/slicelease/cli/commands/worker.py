"""`slicelease worker`: settings and the application, then the worker's own entry point."""

from __future__ import annotations

from pathlib import Path

import click

from slicelease.cli.app_loading import load_app
from slicelease.cli.early_signals import leave
from slicelease.cli.extras import needs_extra
from slicelease.cli.options import build, gather, settings_options
from slicelease.worker.config import WorkerSettings


@click.command("worker")
@click.option(
    "--app", "reference", required=True, metavar="MODULE:ATTRIBUTE", help="The SliceWorker to run, e.g. shop.tasks:app."
)
@settings_options(WorkerSettings)
def command(reference: str, config_file: Path | None, **flags: object) -> None:
    """Run a worker until SIGTERM or Ctrl-C, then end its slices inside the grace.

    Modules are looked for in the current directory, too.
    """
    settings = build(WorkerSettings, gather(WorkerSettings, flags=flags, config_file=config_file))
    with needs_extra("worker"):
        from slicelease.worker.app import run
    leave(run(settings, load_app(reference, folder=Path.cwd())))
