"""The errors: codes to classes, and copies for several tasks."""

import pickle

import pytest

from slicelease.worker.amqp import (
    AccessRefused,
    AmqpError,
    ChannelClosed,
    ConnectionClosed,
    ConnectionLost,
    ExchangeMissing,
    LoginRefused,
    NotFound,
    PreconditionFailed,
    ProtocolViolation,
    QueueMissing,
    ResourceLocked,
    Unroutable,
)
from slicelease.worker.amqp.errors import channel_closed, connection_closed


@pytest.mark.parametrize(
    ("code", "text", "method", "kind"),
    [
        (403, "", (50, 10), AccessRefused),
        (404, "NOT_FOUND - no queue 'q'", (60, 70), QueueMissing),
        (404, "NOT_FOUND - no queue 'q'", (50, 20), QueueMissing),
        (404, "NOT_FOUND - no exchange 'e'", (50, 20), ExchangeMissing),
        (404, "NOT_FOUND - no exchange 'e'", (60, 40), ExchangeMissing),
        (404, "NOT_FOUND - no exchange 'e'", (40, 10), ExchangeMissing),
        (405, "", (50, 10), ResourceLocked),
        (406, "", (50, 10), PreconditionFailed),
        (311, "", (60, 40), ChannelClosed),
    ],
)
def test_reply_codes(code: int, text: str, method: tuple[int, int], kind: type[AmqpError]) -> None:
    error = channel_closed(code, text, method)
    assert isinstance(error, kind)
    assert isinstance(error, ChannelClosed)
    assert isinstance(error, NotFound) is (code == 404)
    assert (error.code, error.text, error.method) == (code, text, method)


def test_a_close_while_opening_is_a_refusal_and_later_a_loss() -> None:
    for code in (403, 530):
        assert isinstance(connection_closed(code, "no", while_opening=True), LoginRefused)
        assert isinstance(connection_closed(code, "no", while_opening=False), ConnectionClosed)
    assert isinstance(connection_closed(320, "bye", while_opening=True), ConnectionLost)


@pytest.mark.parametrize(
    "error",
    [
        ConnectionLost("why"),
        ConnectionClosed(320, "bye", by_broker=True),
        ProtocolViolation(501, "bad"),
        LoginRefused(403, "no"),
        channel_closed(404, "no queue", (60, 70)),
        channel_closed(403, "no", (60, 70)),
        Unroutable("e", "k", 312, "NO_ROUTE"),
    ],
)
def test_a_fresh_error_is_equal_and_shares_no_traceback(error: AmqpError) -> None:
    for twin in (error.fresh(), pickle.loads(pickle.dumps(error))):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert twin.__dict__ == error.__dict__
        assert twin is not error
        assert twin.__traceback__ is None
