"""Arguments of work queues by broker version, and what the broker's refusals are read for."""

import pytest
from aiormq.exceptions import ChannelLockedResource, ChannelPreconditionFailed

from slicelease.control_plane.broker.errors import differing_argument
from slicelease.control_plane.broker.work_queues import work_queue_arguments
from slicelease.control_plane.domain.policy import QueueType

DEAD = {"x-dead-letter-exchange": "dead.exchange", "x-dead-letter-routing-key": "acme"}


@pytest.mark.parametrize("major", [0, 3, 4])
@pytest.mark.parametrize("queue_type", [QueueType.CLASSIC, QueueType.INHERIT])
def test_a_classic_queue_says_so_for_the_vhost_may_have_another_default(queue_type: QueueType, major: int) -> None:
    assert work_queue_arguments("acme", queue_type, major) == DEAD | {"x-queue-type": "classic"}


@pytest.mark.parametrize(("major", "limit"), [(3, {}), (4, {"x-delivery-limit": -1}), (5, {"x-delivery-limit": -1})])
def test_a_quorum_queue_has_no_delivery_limit(major: int, limit: dict[str, int]) -> None:
    assert work_queue_arguments("acme", QueueType.QUORUM, major) == DEAD | {"x-queue-type": "quorum"} | limit


@pytest.mark.parametrize(
    ("reply", "argument"),
    [
        (
            "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'work.acme' in vhost '/': received",
            "x-max-length",
        ),
        ("PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '/': received 'true'", "durable"),
        ("PRECONDITION_FAILED - something that a later version says", "arguments"),
    ],
)
def test_the_argument_is_read_from_the_reply(reply: str, argument: str) -> None:
    assert differing_argument(ChannelPreconditionFailed(reply)) == argument


def test_a_locked_queue_differs_in_being_exclusive() -> None:
    assert differing_argument(ChannelLockedResource("RESOURCE_LOCKED - cannot obtain exclusive access")) == "exclusive"
