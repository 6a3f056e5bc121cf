"""One question to a gRPC health service. May not know: settings, exit codes."""

from __future__ import annotations

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc


def ask(address: str, service: str, tls_ca: bytes | None, timeout_s: float) -> str:
    """The status of a service ("" for the whole server) in words: `SERVING`, or why not."""
    with _channel(address, tls_ca) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        try:
            answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=timeout_s, wait_for_ready=True)
        except grpc.RpcError as error:
            return _reason(error)
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))


def _channel(address: str, tls_ca: bytes | None) -> grpc.Channel:
    # Never through a proxy: a health check asks this very address.
    options = [("grpc.enable_http_proxy", 0)]
    if tls_ca is None:
        return grpc.insecure_channel(address, options=options)
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(tls_ca), options=options)


def _reason(error: grpc.RpcError) -> str:
    code = error.code()
    if code is grpc.StatusCode.NOT_FOUND:
        return "UNKNOWN_SERVICE"
    return "NO_ANSWER" if code is grpc.StatusCode.DEADLINE_EXCEEDED else f"{code.name} {error.details() or ''}".strip()
