"""The gRPC channel to one or several control planes.

May know gRPC and name resolution. May not know calls.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from pathlib import Path

import grpc

_OPTIONS: tuple[tuple[str, object], ...] = (
    ("grpc.lb_policy_name", "round_robin"),
    # A control plane that comes back is found within a second (gRPC's own back-off: up to two minutes).
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # An idle stream through a dead middlebox is noticed within 15 s; the server allows pings every 5 s.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # Two workers in one process share no connection, so each spreads over the replicas by itself.
    ("grpc.use_local_subchannel_pool", 1),
)


class AddressError(ValueError):
    """The control plane's address cannot be used; the text says which and why."""


def open_channel(addresses: str, tls_ca: Path | None = None) -> grpc.Channel:
    """A channel to `host:port`, or to a comma list of them, taken in turn (round robin).

    A single name is resolved by gRPC again and again, and all its addresses are used; names in a list are resolved once, now.
    `tls_ca`: a PEM file of the authorities to trust; without it the channel is in plaintext. Raises AddressError, OSError.
    """
    parts = [part.strip() for part in addresses.split(",") if part.strip()]
    if not parts:
        raise AddressError("no control plane address")
    hosts = [_split(part) for part in parts]
    target = f"dns:///{parts[0]}" if len(parts) == 1 else _static_target(hosts)
    options = [*_OPTIONS]
    if tls_ca is None:
        return grpc.insecure_channel(target, options=options)
    if len(parts) > 1:  # a list of addresses has no name of its own to be checked in the certificate
        options.append(("grpc.default_authority", parts[0]))
    return grpc.secure_channel(target, grpc.ssl_channel_credentials(tls_ca.read_bytes()), options=options)


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise AddressError(f"control plane address {address!r}: expected host:port")
    return host.strip("[]"), int(port)


def _static_target(hosts: Sequence[tuple[str, int]]) -> str:
    """`ipv4:a:1,b:2`, or `ipv6:[a]:1,...`: one family for all, as gRPC wants it."""
    for family, scheme in ((socket.AF_INET, "ipv4"), (socket.AF_INET6, "ipv6")):
        try:
            found = [(_resolve(host, family), port) for host, port in hosts]
        except OSError:
            continue
        return f"{scheme}:" + ",".join(f"[{host}]:{port}" if scheme == "ipv6" else f"{host}:{port}" for host, port in found)
    names = ", ".join(host for host, _ in hosts)
    raise AddressError(f"control plane addresses {names}: not all of them resolve to one address family")


def _resolve(host: str, family: int) -> str:
    version = 4 if family == socket.AF_INET else 6
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return str(socket.getaddrinfo(host, None, family, socket.SOCK_STREAM)[0][4][0])
    if address.version != version:
        raise OSError(f"{host} is of the other family")
    return host
