"""The `slicelease` command.

May live here: the list of subcommands. Each is imported only when it is called, so that `--version` is fast and every
part runs with its own extra alone.
"""

from __future__ import annotations

from slicelease.cli import early_signals

early_signals.install()  # before what takes time

import importlib  # noqa: E402
import io  # noqa: E402
import sys  # noqa: E402
from importlib.metadata import version  # noqa: E402

import click  # noqa: E402

_SUBCOMMANDS = {
    "control-plane": ("slicelease.cli.commands.control_plane", "Run the control plane: gRPC, ledger, announcements."),
    "worker": ("slicelease.cli.commands.worker", "Run a worker with an application's handlers."),
    "dev": ("slicelease.cli.commands.dev", "Run everything in one process, with a demo load."),
    "health": ("slicelease.cli.commands.health", "Ask a control plane whether it is ready; for container checks."),
}


class LazyGroup(click.Group):
    """Knows its subcommands by name and one line of help until one is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        """In the order of the table."""
        return list(_SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Imports the subcommand; None for an unknown name."""
        if cmd_name not in _SUBCOMMANDS:
            return None
        command = importlib.import_module(_SUBCOMMANDS[cmd_name][0]).command
        if not isinstance(command, click.Command):
            raise TypeError(f"{_SUBCOMMANDS[cmd_name][0]}.command is no click command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Lists them without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _SUBCOMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(version("slicelease"), prog_name="slicelease", message="%(prog)s %(version)s")
def slicelease() -> None:
    """Slice leases for per-tenant RabbitMQ work queues.

    Settings come from flags, else SLICELEASE_* environment variables, else a TOML file (--config), else defaults.
    """


def main() -> None:
    """Runs the command; exits 2 for wrong usage or settings, 1 for what cannot be done.

    What a handler prints is seen when it prints it, also in a pipe or a container's log.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    slicelease(prog_name="slicelease")


if __name__ == "__main__":
    main()
