"""The demo as a client of the control plane: everything it does goes over gRPC, as anybody's would.

May live here: calls and their retries. May not know: what the load is, when it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from slicelease.v1 import admin_service_pb2 as admin
from slicelease.v1 import admin_service_pb2_grpc, work_service_pb2_grpc
from slicelease.v1 import resources_pb2 as resources
from slicelease.v1 import work_service_pb2 as work

from .load import MESSAGE_TYPE, DemoMessage, DemoTenant

MAX_BATCH = 200
_CALLS_AT_ONCE = 16
_DEADLINE_S = 20.0
_RETRY_S = 0.2
_HEALTH_PERIOD_S = 0.05
_RETRIED = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.ABORTED})
_OK = 0

_A = TypeVar("_A")
_T = TypeVar("_T")


class DemoClient:
    """Calls for one run; `run_id` makes its request ids its own."""

    def __init__(self, channel: grpc.aio.Channel, run_id: str) -> None:
        self._work = work_service_pb2_grpc.WorkServiceStub(channel)
        self._admin = admin_service_pb2_grpc.AdminServiceStub(channel)
        self._health = health_pb2_grpc.HealthStub(channel)
        self._run_id = run_id

    async def wait_serving(self, timeout_s: float) -> None:
        """Returns when ledger and broker can be used. Raises TimeoutError."""
        async with asyncio.timeout(timeout_s):
            while True:
                answer = await _retried(lambda: self._health.Check(health_pb2.HealthCheckRequest(), timeout=_DEADLINE_S))
                if answer.status == health_pb2.HealthCheckResponse.SERVING:
                    return
                await asyncio.sleep(_HEALTH_PERIOD_S)

    async def create_tenants(self, tenants: Iterable[DemoTenant]) -> None:
        """Creates them, each in its class. Raises grpc.aio.AioRpcError."""
        await _at_once(self._create_tenant, tenants)

    async def publish(self, messages: Sequence[DemoMessage]) -> list[DemoMessage]:
        """Publishes up to MAX_BATCH messages in order; those that the broker has now.

        The others can be sent again with the same request ids. Raises grpc.aio.AioRpcError where trying again is no use.
        """
        batch = work.PublishWorkBatchRequest(requests=[self._request(message) for message in messages])
        try:
            answer = await self._work.PublishWorkBatch(batch, timeout=_DEADLINE_S)
        except grpc.aio.AioRpcError as error:
            if error.code() not in _RETRIED:
                raise
            await asyncio.sleep(_RETRY_S)
            return []
        return [one for one, result in zip(messages, answer.results, strict=True) if result.HasField("published")]

    async def remaining(self, tenants: Iterable[DemoTenant]) -> dict[str, int]:
        """Messages ready at the broker by tenant id. Raises grpc.aio.AioRpcError."""
        names = [one.tenant for one in tenants]
        counts = await _at_once(self._backlog, names)
        return dict(zip(names, counts, strict=True))

    async def delete_tenants(self, tenants: Iterable[DemoTenant]) -> None:
        """Deletes them with their queues and what those hold. Raises grpc.aio.AioRpcError."""
        await _at_once(self._delete_tenant, [one.tenant for one in tenants])

    def _request(self, message: DemoMessage) -> work.PublishWorkRequest:
        return work.PublishWorkRequest(
            queue=f"tenants/{message.tenant.tenant}",
            payload=message.payload,
            content_type="application/json",
            type=MESSAGE_TYPE,
            message_id=message.message_id,
            correlation_id=message.message_id,
            request_id=f"{self._run_id}-{message.message_id}",
        )

    async def _create_tenant(self, tenant: DemoTenant) -> None:
        wanted = resources.Tenant(display_name="slicelease dev demo", priority_class=f"priorityClasses/{tenant.priority_class}")
        request = admin.CreateTenantRequest(
            tenant_id=tenant.tenant, tenant=wanted, request_id=f"{self._run_id}-create-{tenant.tenant}"
        )
        await _retried(lambda: self._admin.CreateTenant(request, timeout=_DEADLINE_S))

    async def _delete_tenant(self, tenant: str) -> None:
        request = admin.DeleteTenantRequest(name=f"tenants/{tenant}", force=True, request_id=f"{self._run_id}-delete-{tenant}")
        try:
            await _retried(lambda: self._admin.DeleteTenant(request, timeout=_DEADLINE_S))
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:  # it was never created
                raise

    async def _backlog(self, tenant: str) -> int:
        request = admin.GetQueueRequest(name=f"tenants/{tenant}/queues/default")
        answer = await _retried(lambda: self._admin.GetQueue(request, timeout=_DEADLINE_S))
        return int(answer.queue.backlog_messages)


@asynccontextmanager
async def demo_client(address: str, run_id: str) -> AsyncIterator[DemoClient]:
    """A client for the time of the block."""
    options = [("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", -1)]
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        yield DemoClient(channel, run_id)


async def _retried(call: Callable[[], Awaitable[_T]], tries: int = 5) -> _T:
    for _ in range(tries - 1):
        try:
            return await call()
        except grpc.aio.AioRpcError as error:
            if error.code() not in _RETRIED:
                raise
            await asyncio.sleep(_RETRY_S)
    return await call()


async def _at_once(call: Callable[[_A], Awaitable[_T]], arguments: Iterable[_A]) -> list[_T]:
    """The results in order, a few calls at a time. The first failure ends the others."""
    results: dict[int, _T] = {}
    waiting = iter(enumerate(arguments))

    async def one_lane() -> None:
        for number, argument in waiting:
            results[number] = await call(argument)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(_CALLS_AT_ONCE):
                group.create_task(one_lane())
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [results[number] for number in sorted(results)]
