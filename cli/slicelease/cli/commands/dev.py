"""`slicelease dev`: options to a plan, the embedded store started in the main thread, then the session."""

from __future__ import annotations

from pathlib import Path

import click

from slicelease.cli.app_loading import load_app
from slicelease.cli.early_signals import leave
from slicelease.cli.extras import needs_extra
from slicelease.cli.options import gather, settings_options
from slicelease.control_plane.config import ControlPlaneSettings
from slicelease.worker.config import WorkerSettings

# Where the workers find the control plane is known; TLS has no use in one process.
_LEFT_OUT = ("control_plane", "tls_cert", "tls_key", "tls_ca")
_DEFAULTS = {
    "unknown_tenants": "create",
    "new_ledger": "open",
    "log_format": "console",
    "log_level": "warning, without a demo info",
    "amqp_url": "in memory",
    "redis_url": "embedded Valkey",
    "cell": "default, for a demo in your Redis one of its own",
}
_COUNT = click.IntRange(min=1)


@click.command("dev")
@click.option("--tenants", type=click.IntRange(1, 100_000), default=50, show_default=True, help="Tenants of the demo load.")
@click.option("--messages", type=_COUNT, help="Messages of the demo load; it ends when all are processed. Default: no end.")
@click.option("--rate", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Messages/s without --messages.")
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed gives the same load.")
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), help="End by time. Default: none.")
@click.option("--work-ms", type=click.IntRange(0, 600_000), default=0, show_default=True, help="How long a handler of dev takes.")
@click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True, help="Workers, each with its --slots.")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Keep the embedded ledger here. Default: nowhere.")
@click.option(
    "--app", "reference", metavar="MODULE:ATTRIBUTE", help="No load; run the handlers of your SliceWorker, e.g. shop.tasks:app."
)
@click.option("--no-demo", is_flag=True, help="No load; the handlers log what they get.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout at the end, all else on stderr.")
@settings_options(ControlPlaneSettings, WorkerSettings, leave_out=_LEFT_OUT, defaults=_DEFAULTS)
def command(
    tenants: int,
    messages: int | None,
    rate: int,
    seed: int,
    seconds: float | None,
    work_ms: int,
    workers: int,
    data_dir: Path | None,
    reference: str | None,
    no_demo: bool,
    as_json: bool,
    config_file: Path | None,
    **flags: object,
) -> None:
    """Run control plane, workers, ledger, broker and a demo load in one process, until Ctrl-C.

    With --app the workers run your own handlers, and there is no demo load: publish to them through gRPC.

    Needs neither Redis nor RabbitMQ. With --amqp-url or --redis-url it uses yours: give it a vhost that no other installation
    uses, for its workers take whatever is due there. Exit code: 0 when nothing is lost and nothing remains, 3 when the time
    was up, 1 when something is lost or the run failed.
    """
    if (no_demo or reference is not None) and (as_json or messages):
        flag = "--no-demo" if reference is None else "--app"
        raise click.UsageError(f"{flag} has no load: --messages and --json do not go with it")
    given = gather(ControlPlaneSettings, WorkerSettings, flags=flags, config_file=config_file)
    with needs_extra("embedded"):
        from slicelease.cli.dev.plan import DemoPlan, make_plan
        from slicelease.cli.dev.run import run
    app = None if reference is None else load_app(reference, folder=Path.cwd())
    demo = None if no_demo or app is not None else DemoPlan(tenants, messages, seed, rate)
    plan = make_plan(given, demo=demo, workers=workers, work_ms=work_ms, seconds=seconds, data_dir=data_dir, as_json=as_json)
    leave(run(plan, app))
