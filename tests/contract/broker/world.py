"""What the contract needs of a broker beyond the port: what publishers, workers and operators do to it from outside.

An adapter joins the suite with a World and one line in conftest.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from slicelease.control_plane.ports import Broker


@dataclass(frozen=True)
class Seen:
    """A message as a consumer sees it."""

    body: bytes
    message_id: str = ""
    correlation_id: str = ""
    content_type: str = ""
    type: str = ""
    headers: Mapping[str, object] = field(default_factory=dict)


class World(Protocol):
    """A broker under test and its surroundings."""

    broker: Broker

    async def raise_attention(self, body: bytes, headers: Mapping[str, object] | None = None) -> bool:
        """Publishes to the attention exchange as any publisher does; whether it was routed."""
        ...

    async def drain(self, queue: str) -> list[Seen]:
        """Takes all ready messages of a queue, from the head on, for good."""
        ...

    async def declare_queue(self, name: str, arguments: Mapping[str, str | int]) -> None:
        """Declares a durable queue as somebody else would."""
        ...

    async def delete_queue(self, name: str) -> None:
        """Deletes a queue behind the adapter's back, whatever it holds."""
        ...
