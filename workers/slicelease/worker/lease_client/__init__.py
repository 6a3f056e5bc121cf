"""The lease service over gRPC, for Trio: `GrpcLeaseClient` implements `ports.LeaseClient`.

grpcio has no Trio support, and a thread for each call leaks busy threads. So calls are futures of its synchronous API whose
end is brought into the Trio loop, one exchange carries what many slots ask, and one daemon thread reads the one stream.
"""

from .channel import AddressError, open_channel
from .client import PROTOCOL_VERSION, GrpcLeaseClient

__all__ = ["PROTOCOL_VERSION", "AddressError", "GrpcLeaseClient", "open_channel"]
