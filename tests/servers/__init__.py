"""Private server processes for tests: RabbitMQ, Redis and Valkey on loopback, and waiting for conditions.

Every server is a context manager with a folder and ports of its own, so that any number can run side by side. It dies
with the process that started it, also when that is killed with -9. Nothing here knows Slicelease itself.
"""

from tests.servers.die_with_parent import owner_of_children
from tests.servers.folders import private_folder
from tests.servers.ports import Port, free_port
from tests.servers.process import MissingServerError, ServerError, ServerProcess, spawn
from tests.servers.rabbitmq import RabbitMQ, TlsFiles
from tests.servers.redis import Redis, Valkey
from tests.servers.waiting import WaitTimeoutError, wait_for, wait_for_asyncio, wait_for_trio

__all__ = [
    "MissingServerError",
    "Port",
    "RabbitMQ",
    "Redis",
    "ServerError",
    "ServerProcess",
    "TlsFiles",
    "Valkey",
    "WaitTimeoutError",
    "free_port",
    "owner_of_children",
    "private_folder",
    "spawn",
    "wait_for",
    "wait_for_asyncio",
    "wait_for_trio",
]
