"""WorkService: publishing work and waking queues.

May live here: the service. May not know: AMQP, Redis; the way of a message is publisher.py's.
"""

from __future__ import annotations

from typing import Any

from slicelease.control_plane.domain.commands import Touch
from slicelease.control_plane.domain.names import InvalidNameError, parse_queue, queue_name
from slicelease.control_plane.domain.outcomes import Touched
from slicelease.control_plane.ports import Ledger
from slicelease.v1 import work_service_pb2 as pb
from slicelease.v1 import work_service_pb2_grpc

from .flights import Answer
from .known_queues import KnownQueues
from .publisher import Publisher
from .refusals import expect, from_exception
from .status import CallError, invalid_field
from .work_convert import Wanted, read_publish

MAX_BATCH = 1_000
PATIENCE_S = 10.0
"""How long a caller without a deadline waits for another replica that works on the same request."""
_MARGIN_S = 0.25
"""Left of a caller's deadline for the answer."""


class WorkService(work_service_pb2_grpc.WorkServiceServicer):
    """Implements WorkService."""

    def __init__(self, ledger: Ledger, publisher: Publisher, queues: KnownQueues) -> None:
        self._ledger = ledger
        self._publisher = publisher
        self._queues = queues

    async def PublishWork(self, request: pb.PublishWorkRequest, context: Any) -> pb.PublishWorkResponse:
        """Publishes one message."""
        wanted = read_publish(request)
        (answer,) = await self._publisher.publish([wanted], _patience_s(context))
        if isinstance(answer, CallError):
            raise answer
        return _published(wanted, answer)

    async def PublishWorkBatch(self, request: pb.PublishWorkBatchRequest, context: Any) -> pb.PublishWorkBatchResponse:
        """Publishes many; each is answered alone."""
        if not 1 <= len(request.requests) <= MAX_BATCH:
            raise invalid_field("requests", f"1 to {MAX_BATCH} requests")
        read = [_read(each) for each in request.requests]
        wanted = [each for each in read if isinstance(each, Wanted)]
        answers = iter(await self._publisher.publish(wanted, _patience_s(context)))
        response = pb.PublishWorkBatchResponse()
        for each in read:
            _fill(response.results.add(), each, each if isinstance(each, CallError) else next(answers))
        return response

    async def TouchQueue(self, request: pb.TouchQueueRequest, context: Any) -> pb.TouchQueueResponse:
        """Records that a queue may have work."""
        key = parse_queue("queue", request.queue, default_allowed=True)
        command = Touch(key, create=self._queues.newcomers)
        (outcome,) = await self._ledger.execute([command])
        touched = expect(outcome, Touched, command)
        return pb.TouchQueueResponse(queue=queue_name(key), coalesced=touched.coalesced)


def _patience_s(context: Any) -> float:
    remaining: float | None = context.time_remaining()
    return PATIENCE_S if remaining is None else min(PATIENCE_S, remaining - _MARGIN_S)


def _read(request: pb.PublishWorkRequest) -> Wanted | CallError:
    try:
        return read_publish(request)
    except (CallError, InvalidNameError) as error:
        known = from_exception(error)
        assert known is not None, "both are in the table"  # noqa: S101  # narrows for mypy
        return known


def _published(wanted: Wanted, message: Any) -> pb.PublishWorkResponse:
    return pb.PublishWorkResponse(
        message_id=message.message_id, correlation_id=message.correlation_id, queue=queue_name(wanted.key)
    )


def _fill(result: pb.PublishWorkResult, read: Wanted | CallError, answer: Answer) -> None:
    if isinstance(answer, CallError):
        result.error.CopyFrom(answer.status())
    elif isinstance(read, Wanted):
        result.published.CopyFrom(_published(read, answer))
