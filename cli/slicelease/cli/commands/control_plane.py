"""`slicelease control-plane`: settings, then the control plane's own entry point."""

from __future__ import annotations

from pathlib import Path

import click

from slicelease.cli.early_signals import leave
from slicelease.cli.extras import needs_extra
from slicelease.cli.options import build, gather, settings_options
from slicelease.control_plane.config import ControlPlaneSettings


@click.command("control-plane")
@settings_options(ControlPlaneSettings)
def command(config_file: Path | None, **flags: object) -> None:
    """Run the control plane until SIGTERM or Ctrl-C, then drain.

    Needs Redis and RabbitMQ; any number of processes may share them.
    """
    settings = build(ControlPlaneSettings, gather(ControlPlaneSettings, flags=flags, config_file=config_file))
    with needs_extra("control-plane"):
        from slicelease.control_plane.app import run
    leave(run(settings))
