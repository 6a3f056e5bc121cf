"""What `slicelease dev` says when it is ready, and at its end. Texts only; and a look where grpcurl is."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def grpcurl_lines(address: str) -> list[str]:
    """Three lines to try, in this order; each works while it runs, in a POSIX shell."""
    call = "grpcurl -plaintext"
    publish = '{"queue":"tenants/acme","payload":"aGVsbG8=","type":"greeting"}'
    service = "slicelease.v1"
    return [
        f"{call} -d '{publish}' {address} {service}.WorkService/PublishWork",
        f'{call} -d \'{{"name":"tenants/acme/queues/default"}}\' {address} {service}.AdminService/GetQueue',
        f'{call} -d \'{{"parent":"tenants/-/queues/-"}}\' {address} {service}.AdminService/ListLeases',
    ]


def greeting(address: str, ledger: str, broker: str, metrics: str) -> str:
    """Where everything is."""
    lines = [
        f"gRPC     {address}",
        f"ledger   {ledger}",
        f"broker   {broker}",
        f"metrics  {metrics}",
        "",
        f"Try, from another terminal{_where_grpcurl_is()}:",
        *(f"  {line}" for line in grpcurl_lines(address)),
        "",
        "Ctrl-C ends it.",
        "",
    ]
    return "\n".join(lines)


def _where_grpcurl_is() -> str:
    """The line that makes grpcurl known to a shell which does not have it, when it is installed beside this Python."""
    tools = Path(sys.executable).parent
    if shutil.which("grpcurl") is not None:
        return ""
    return f", after PATH={tools}:$PATH" if (tools / "grpcurl").exists() else ", with grpcurl installed"


def summary(report: Mapping[str, Any]) -> str:
    """The report for people: a line a key."""
    return "\n".join(f"{key:<14} {_plain(value)}" for key, value in report.items())


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_plain(inner)}" for key, inner in value.items()) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)
