"""Hints for workers' streams, between replicas, over Redis pub/sub.

May live here: the channel and the form of a hint. May not know: streams, leases. The ledger holds what was decided, so a hint
that is lost costs latency only: nothing here retries a publish.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from typing import Any

import structlog
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from slicelease.control_plane.domain.commands import EndReason
from slicelease.control_plane.domain.names import LeaseKey
from slicelease.control_plane.ports import StopHint

from .keys import prefix

TIMEOUT_S = 2.0
LONGEST_BACKOFF_S = 5.0
_log = structlog.get_logger(__name__)


class RedisDirectiveBus:
    """Implements ports.DirectiveBus. It connects when it is used; nothing waits for Redis to be there."""

    def __init__(self, url: str, cell: str) -> None:
        self._channel = f"{prefix(cell)}directives"
        self._redis: Any = Redis.from_url(
            url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, retry=Retry(NoBackoff(), 0), health_check_interval=10
        )

    async def publish(self, hint: StopHint) -> None:
        """See the port."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await self._redis.publish(self._channel, _encoded(hint))
        except (RedisError, OSError, TimeoutError) as error:
            _log.info("a directive could not be sent ahead; the next progress report carries it", error=type(error).__name__)

    async def run(self, deliver: Callable[[StopHint], None]) -> None:
        """See the port."""
        failures = 0
        try:
            while True:
                try:
                    async with self._redis.pubsub(ignore_subscribe_messages=True) as pubsub:
                        await pubsub.subscribe(self._channel)
                        failures = 0
                        await self._listen(pubsub, deliver)
                except (RedisError, OSError):
                    failures += 1
                    await asyncio.sleep(_backoff_s(failures))
        finally:
            await self._redis.aclose()

    async def _listen(self, pubsub: Any, deliver: Callable[[StopHint], None]) -> None:
        while True:
            message = await pubsub.get_message(timeout=TIMEOUT_S)
            hint = _decoded(message["data"]) if message is not None else None
            if hint is not None:
                deliver(hint)


def _backoff_s(failures: int) -> float:
    return min(LONGEST_BACKOFF_S, 0.1 * 2.0 ** min(failures, 10)) * random.SystemRandom().uniform(0.5, 1.0)


def _encoded(hint: StopHint) -> bytes:
    return json.dumps([hint.session, *hint.lease, int(hint.reason)]).encode()


def _decoded(data: bytes) -> StopHint | None:
    """The hint, or None for what is none: a newer version may send more than this one knows."""
    try:
        session, tenant, queue, token, reason = json.loads(data)
        return StopHint(str(session), LeaseKey(str(tenant), str(queue), int(token)), EndReason(reason))
    except (ValueError, TypeError):
        return None
