"""What becomes of the properties of a raised attention that is moved to the dead letters. Pure, over the codec's values."""

from __future__ import annotations

import struct

from aiormq import spec
from pamqp.common import FieldTable

from .confirms import PERSISTENT, check_headers

REASON_HEADER = "x-slicelease-reason"


def refused_properties(original: spec.Basic.Properties, reason: str) -> spec.Basic.Properties:
    """The publisher's description of the message, with the reason added.

    Left out: what would route copies elsewhere (CC, BCC), end the letter (expiration), or make the broker refuse it
    because it came through our user (user_id). Headers that cannot be carried on are dropped as a whole.
    """
    return spec.Basic.Properties(
        content_type=original.content_type,
        content_encoding=original.content_encoding,
        headers=_carried(dict(original.headers or {})) | {REASON_HEADER: reason},
        delivery_mode=PERSISTENT,
        correlation_id=original.correlation_id,
        message_id=original.message_id,
        timestamp=original.timestamp,
        message_type=original.message_type,
        app_id=original.app_id,
    )


def _carried(headers: FieldTable) -> FieldTable:
    kept = {name: value for name, value in headers.items() if name not in ("CC", "BCC")}
    try:
        check_headers(kept)
    except (ValueError, TypeError, OverflowError, struct.error):
        return {}
    return kept
