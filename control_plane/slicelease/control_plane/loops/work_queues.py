"""Work queues that may exist at the broker otherwise than we would have made them."""

from __future__ import annotations

import structlog

from slicelease.control_plane.domain.names import QueueKey
from slicelease.control_plane.domain.policy import QueueType
from slicelease.control_plane.ports import Broker, QueueArgumentsDifferError

_log = structlog.get_logger(__name__)


async def declare_or_adopt(broker: Broker, key: QueueKey, queue_type: QueueType) -> bool:
    """Declares the queue; whether it has our arguments. One with others serves as well: slices need only its name.

    Raises BrokerUnavailableError.
    """
    try:
        await broker.declare_work_queue(key, queue_type)
    except QueueArgumentsDifferError as error:
        _log.warning("a work queue exists with other arguments; used as it is", queue=error.queue, argument=error.argument)
        return False
    return True
