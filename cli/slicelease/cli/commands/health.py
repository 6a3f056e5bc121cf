"""`slicelease health`: asks the gRPC health service, and answers with the exit code."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from slicelease.cli.extras import needs_extra

_SERVING, _NOT_SERVING = 0, 1


@click.command("health")
@click.option(
    "--control-plane",
    "addresses",
    envvar="SLICELEASE_CONTROL_PLANE",
    default="127.0.0.1:50051",
    show_default=True,
    metavar="HOST:PORT[,...]",
    help="Whom to ask; every one of them must be serving. [env: SLICELEASE_CONTROL_PLANE]",
)
@click.option(
    "--service",
    default="",
    metavar="NAME",
    help="slicelease.redis, slicelease.rabbitmq, slicelease.ledger or a gRPC service; default: all of it.",
)
@click.option(
    "--tls-ca",
    envvar="SLICELEASE_TLS_CA",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="PEM file of the authority to check the server by; without it the link is plaintext. [env: SLICELEASE_TLS_CA]",
)
@click.option("--timeout", "timeout_s", default=3.0, show_default=True, metavar="SECONDS", help="Longest wait for an answer.")
def command(addresses: str, service: str, tls_ca: Path | None, timeout_s: float) -> None:
    """Exit 0 when the control plane is SERVING, else 1 with the reason on stderr."""
    with needs_extra("control-plane"):
        from slicelease.cli.health_check import ask
    ca = None if tls_ca is None else tls_ca.read_bytes()
    answers = {address: ask(address, service, ca, timeout_s) for address in map(str.strip, addresses.split(",")) if address}
    for address, status in answers.items():
        click.echo(f"{address} {status}", err=status != "SERVING")
    sys.exit(_SERVING if answers and set(answers.values()) == {"SERVING"} else _NOT_SERVING)
