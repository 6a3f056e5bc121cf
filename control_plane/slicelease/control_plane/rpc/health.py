"""The health service: overall and by component.

May live here: Check, List and Watch over one table of states. May not know: what makes a component ready.

The servicer of grpcio-health-checking is not used: its watchers of one name share a condition that the first of them to leave
takes away from the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

OVERALL = ""
COMPONENTS = ("slicelease.redis", "slicelease.rabbitmq", "slicelease.ledger")
_State = health_pb2.HealthCheckResponse


class HealthService(health_pb2_grpc.HealthServicer):  # type: ignore[misc]  # the package ships no types
    """Implements grpc.health.v1.Health."""

    def __init__(self) -> None:
        self._serving: dict[str, bool] = dict.fromkeys((OVERALL, *COMPONENTS), False)
        self._changed = asyncio.Event()
        self._ended = False

    def set(self, serving: Mapping[str, bool]) -> None:
        """The states from now on; every watcher hears of a change."""
        if serving != self._serving:
            self._serving = dict(serving)
            self._wake()

    def end(self) -> None:
        """Nothing serves any more, and watchers are let go after they heard so."""
        self._ended = True
        self._serving = dict.fromkeys(self._serving, False)
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def Check(self, request: Any, context: Any) -> Any:
        """The state of one name; NOT_FOUND for an unknown one."""
        if request.service not in self._serving:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such service")
        return self._response(request.service)

    async def Watch(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """The state of one name, and each change of it."""
        last = None
        while True:
            changed = self._changed
            response = self._response(request.service)
            if response.status != last:
                last = response.status
                yield response
            if self._ended:
                return
            await changed.wait()

    def _response(self, name: str) -> Any:
        serving = self._serving.get(name)
        if serving is None:
            return _State(status=_State.SERVICE_UNKNOWN)
        return _State(status=_State.SERVING if serving else _State.NOT_SERVING)
