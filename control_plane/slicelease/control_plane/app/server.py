"""The gRPC server: options, credentials, services, address.

May live here: how the server is built. May not know: what the services do, when it stops.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
from grpc_channelz.v1 import channelz
from grpc_health.v1 import health_pb2, health_pb2_grpc

from slicelease.control_plane.config import ControlPlaneSettings, milliseconds
from slicelease.control_plane.rpc.admin_service import AdminService
from slicelease.control_plane.rpc.health import HealthService
from slicelease.control_plane.rpc.interceptors import CallInterceptor
from slicelease.control_plane.rpc.lease_service import LeaseService
from slicelease.control_plane.rpc.reflection import add_reflection
from slicelease.control_plane.rpc.work_service import WorkService
from slicelease.v1 import (
    admin_service_pb2,
    admin_service_pb2_grpc,
    lease_service_pb2,
    lease_service_pb2_grpc,
    work_service_pb2,
    work_service_pb2_grpc,
)

MAX_REQUEST_BYTES = 64 * 1024 * 1024
"""A batch of 1,000 messages of 64 KiB, or 60 of the largest; a batch that is larger has to be split."""
_AGE_GRACE = timedelta(minutes=1)

SERVICES = tuple(
    service.full_name
    for file in (lease_service_pb2, work_service_pb2, admin_service_pb2, health_pb2)
    for service in file.DESCRIPTOR.services_by_name.values()
)
"""Full names of the services that reflection lists, besides itself and channelz."""


class AddressInUseError(Exception):
    """The address to listen on cannot be used; the text says which."""


def _options(settings: ControlPlaneSettings) -> list[tuple[str, int]]:
    return [
        ("grpc.so_reuseport", 0),  # on by default: a second server would share the port silently
        ("grpc.max_receive_message_length", MAX_REQUEST_BYTES),
        # Workers ping every few seconds over streams that are silent for hours.
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.keepalive_time_ms", 20_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.max_connection_age_ms", milliseconds(settings.max_connection_age)),
        ("grpc.max_connection_age_grace_ms", milliseconds(_AGE_GRACE)),
        ("grpc.enable_channelz", 1),
    ]


def build_server(
    settings: ControlPlaneSettings,
    interceptor: CallInterceptor,
    health: HealthService,
    services: tuple[LeaseService, WorkService, AdminService],
) -> Any:
    """The server with all its services, not yet bound."""
    server: Any = grpc.aio.server(interceptors=(interceptor,), options=_options(settings))
    lease, work, admin = services
    lease_service_pb2_grpc.add_LeaseServiceServicer_to_server(lease, server)
    work_service_pb2_grpc.add_WorkServiceServicer_to_server(work, server)
    admin_service_pb2_grpc.add_AdminServiceServicer_to_server(admin, server)
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    channelz.add_channelz_servicer(server)
    add_reflection(server, (*SERVICES, "grpc.channelz.v1.Channelz"))
    return server


def bind(server: Any, settings: ControlPlaneSettings) -> str:
    """Binds the address of the settings; the bound one, with its port. Raises AddressInUseError, OSError for TLS files."""
    credentials = _credentials(settings.tls_cert, settings.tls_key)
    try:
        if credentials is None:
            port = server.add_insecure_port(settings.listen)
        else:
            port = server.add_secure_port(settings.listen, credentials)
    except RuntimeError:
        raise AddressInUseError(f"cannot listen on {settings.listen}: the address is in use or not of this machine") from None
    return f"{settings.listen.rpartition(':')[0]}:{port}"


def _credentials(cert: Path | None, key: Path | None) -> grpc.ServerCredentials | None:
    if cert is None or key is None:
        return None
    return grpc.ssl_server_credentials([(key.read_bytes(), cert.read_bytes())])
