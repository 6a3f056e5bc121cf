"""What a run of `slicelease dev` is asked to do.

May live here: the plan, and how it follows from the settings that were given. May not know: how it is carried out.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from slicelease.cli.options import Given, build
from slicelease.cli.settings_fields import masked
from slicelease.control_plane.config import ControlPlaneSettings
from slicelease.worker.config import WorkerSettings


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """The demo load. Without `messages` it goes on at `rate_per_s` until the run ends."""

    tenants: int
    messages: int | None
    seed: int
    rate_per_s: int


@dataclass(frozen=True, slots=True)
class DevPlan:
    """All of it. `amqp_url` and `redis_url` are None where the embedded part is used, `seconds` without an end by time.

    `worker_given` are the settings of the workers but for where the control plane is, which is known once it runs.
    """

    control_plane: ControlPlaneSettings
    worker_given: Mapping[str, Given]
    run_id: str
    workers: int
    work_ms: int
    demo: DemoPlan | None
    seconds: float | None
    amqp_url: str | None
    redis_url: str | None
    data_dir: Path | None
    as_json: bool
    own_cell: bool
    """The ledger's cell was made up for this run, in a Redis of the user's."""
    metrics_asked_for: bool

    @property
    def outlives(self) -> bool:
        """Whether ledger or broker are still there after the run, so that the demo must clean up behind itself."""
        return self.amqp_url is not None or self.redis_url is not None or self.data_dir is not None

    @property
    def tenant_prefix(self) -> str:
        """What the ids of demo tenants begin with: with the run in it where others may be there."""
        return f"demo-{self.run_id}-" if self.outlives else "demo-"

    @property
    def ledger_text(self) -> str:
        """Where the ledger is, for people."""
        if self.redis_url is not None:
            return f"{masked(self.redis_url)}, cell {self.control_plane.cell}"
        return "embedded Valkey, " + ("nothing kept" if self.data_dir is None else f"kept in {self.data_dir}")

    @property
    def broker_text(self) -> str:
        """Where the broker is, for people."""
        return "in memory, nothing kept" if self.amqp_url is None else masked(self.amqp_url)

    @property
    def metrics_text(self) -> str:
        """Where the metrics are, for people."""
        address = self.control_plane.metrics_listen
        if address is not None:
            return f"http://{address}/metrics"
        return "off" if self.metrics_asked_for else "off: their port is in use, see --metrics-listen"

    def worker_settings(self, address: str) -> WorkerSettings:
        """The settings of a worker of the control plane at this address. Raises click.UsageError."""
        return build(WorkerSettings, {**self.worker_given, "control_plane": Given(address, "the control plane's address")})


def make_plan(
    given: Mapping[str, Given],
    *,
    demo: DemoPlan | None,
    workers: int,
    work_ms: int,
    seconds: float | None,
    data_dir: Path | None,
    as_json: bool,
) -> DevPlan:
    """The plan for the settings that were given. Raises click.UsageError for what is wrong with them."""
    amqp_url, redis_url = _text(given, "amqp_url"), _text(given, "redis_url")
    if data_dir is not None and redis_url is not None:
        raise click.UsageError("--data-dir is for the embedded ledger: it does not go with a Redis of yours")
    run_id = secrets.token_hex(3)
    plan = DevPlan(
        control_plane=build(ControlPlaneSettings, {**_defaults(run_id, redis_url, demo), **given}),
        # The address of the metrics is the control plane's.
        worker_given={name: one for name, one in given.items() if name != "metrics_listen"},
        run_id=run_id,
        workers=workers,
        work_ms=work_ms,
        demo=demo,
        seconds=seconds,
        amqp_url=amqp_url,
        redis_url=redis_url,
        data_dir=data_dir,
        as_json=as_json,
        own_cell="cell" not in given and _own_cell(redis_url, demo),
        metrics_asked_for="metrics_listen" in given,
    )
    plan.worker_settings(plan.control_plane.listen)  # what is wrong with them is said now
    return plan


def _defaults(run_id: str, redis_url: str | None, demo: DemoPlan | None) -> dict[str, Given]:
    """Where `dev` differs from the control plane's own defaults."""
    values = {
        "unknown_tenants": "create",
        "new_ledger": "open",
        "log_format": "console",
        "log_level": "info" if demo is None else "warning",
        "cell": f"dev-{run_id}" if _own_cell(redis_url, demo) else "default",
    }
    return {name: Given(value, "the default of dev") for name, value in values.items()}


def _own_cell(redis_url: str | None, demo: DemoPlan | None) -> bool:
    """A demo in a Redis of the user's has a ledger of its own: others' tenants stay out of it, and ours out of theirs."""
    return redis_url is not None and demo is not None


def _text(given: Mapping[str, Given], name: str) -> str | None:
    return str(given[name].value) if name in given else None
