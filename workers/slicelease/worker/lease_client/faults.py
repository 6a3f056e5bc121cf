"""How a failed call is judged: again, never, or the lease is over.

May know gRPC's codes and google.rpc details. May not know Trio.
"""

from __future__ import annotations

from dataclasses import dataclass

import grpc
from google.rpc import code_pb2, error_details_pb2
from google.rpc.status_pb2 import Status

_DETAILS_KEY = "grpc-status-details-bin"

# Any other code speaks of the request itself: the same bytes would fail again.
_AGAIN = frozenset(
    {
        code_pb2.CANCELLED,
        code_pb2.UNKNOWN,
        code_pb2.DEADLINE_EXCEEDED,
        code_pb2.RESOURCE_EXHAUSTED,
        code_pb2.ABORTED,
        code_pb2.INTERNAL,
        code_pb2.UNAVAILABLE,
    }
)


@dataclass(frozen=True, slots=True)
class Fault:
    """A failed call: `reason` of its ErrorInfo (or "" when it has none), text, and the server's wish for the next try."""

    code: str
    reason: str
    text: str
    again: bool
    retry_after_s: float = 0.0

    def __str__(self) -> str:
        return f"{self.code} {self.reason}: {self.text}" if self.reason else f"{self.code}: {self.text}"

    @property
    def lease_over(self) -> bool:
        """The lease has ended."""
        return self.reason == "LEASE_OVER"


def fault_of_status(status: Status) -> Fault:
    """Of one call in an exchange, or of the details of a failed RPC."""
    reason, retry_after_s = "", 0.0
    for detail in status.details:
        if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            info = error_details_pb2.ErrorInfo()
            detail.Unpack(info)
            reason = info.reason
        elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
            retry = error_details_pb2.RetryInfo()
            detail.Unpack(retry)
            retry_after_s = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
    return Fault(_code_name(status.code), reason, status.message, status.code in _AGAIN, retry_after_s)


def fault_of_call(error: grpc.RpcError | grpc.FutureCancelledError) -> Fault:
    """Of a whole RPC."""
    if not isinstance(error, grpc.Call):
        return Fault("CANCELLED", "", "the call was cancelled", again=True)
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS_KEY and isinstance(value, bytes):
            status = Status()
            status.ParseFromString(value)
            return fault_of_status(status)
    code: grpc.StatusCode = error.code()
    return Fault(code.name, "", error.details() or "", code.value[0] in _AGAIN)


def _code_name(code: int) -> str:
    return code_pb2.Code.Name(code) if code in code_pb2.Code.values() else str(code)
