"""How a worker's dead letters are put away: copies, and sure to be in a queue."""

from __future__ import annotations

from collections.abc import Mapping

from slicelease.worker.ports import DeadLetterError

from .core import Fate, MemoryBroker
from .queue import Message
from .routing import UnknownExchangeError


def dead_copy(original: Message, message_id: str, headers: Mapping[str, str]) -> Message:
    """The same message under this id, with headers added."""
    return Message(
        original.body,
        message_id,
        original.correlation_id,
        original.content_type,
        original.type,
        {**original.headers, **headers},
    )


def publish_dead(core: MemoryBroker, exchange: str, key: str, message: Message) -> None:
    """Publishes a dead letter. Raises DeadLetterError unless it is in a queue."""
    try:
        fate = core.publish(exchange, key, message)
    except UnknownExchangeError as missing:
        raise DeadLetterError(str(missing)) from missing
    if fate is not Fate.ROUTED:
        raise DeadLetterError(f"exchange {exchange}: {fate.value}")
