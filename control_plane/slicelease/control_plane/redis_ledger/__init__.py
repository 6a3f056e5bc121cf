"""The ledger in Redis or Valkey: one Lua function library, and the adapter that calls it."""

from .ledger import RedisLedger
from .store import UnsuitableStoreError

__all__ = ["RedisLedger", "UnsuitableStoreError"]
