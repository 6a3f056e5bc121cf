"""The control plane put together: settings, adapters, services, loops, server, shutdown. The only code that knows them all."""

from .running import run
from .serving import AddressInUseError, serve

__all__ = ["AddressInUseError", "run", "serve"]
