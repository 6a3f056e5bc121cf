"""The content that is just arriving on one channel: method, header, body frames, in this order and nothing between.

No I/O. Body frames of other channels may come in between: each channel has an assembler of its own.
"""

from __future__ import annotations

import struct

from slicelease.worker.amqp.errors import FRAME_ERROR, SYNTAX_ERROR, UNEXPECTED_FRAME, ProtocolViolation, Unroutable
from slicelease.worker.amqp.message import Message

_HEADER = struct.Struct(">HHQ")  # class, weight, body size
_BASIC_CLASS = 60
_HEADER_MIN = 14  # the above and the property flags
_AWAITS_HEADER = -1


class ContentAssembler:
    """Puts a message (or a returned one) together. `awaited` is what the frames now arriving belong to."""

    __slots__ = ("_body_left", "_pieces", "awaited", "properties")

    def __init__(self) -> None:
        self.awaited: Message | Unroutable | None = None
        self.properties = b""
        self._body_left = _AWAITS_HEADER
        self._pieces: list[bytes] = []

    def header(self, buffer: bytes, start: int, stop: int) -> bytes | None:
        """A content header, payload buffer[start:stop]. The body, when it is an empty one."""
        if self.awaited is None or self._body_left != _AWAITS_HEADER:
            raise ProtocolViolation(UNEXPECTED_FRAME, "a content header came without a method that carries content")
        class_id, weight, size = _HEADER.unpack_from(buffer, start)
        if class_id != _BASIC_CLASS or weight or stop - start < _HEADER_MIN:
            raise ProtocolViolation(SYNTAX_ERROR, "a content header of another class, weight or size than basic's")
        self.properties = buffer[start + 12 : stop]
        if size == 0:
            return b""
        self._body_left = size
        return None

    def body(self, piece: bytes) -> bytes | None:
        """A body frame's payload. The body, when this makes it whole."""
        left = self._body_left - len(piece)
        if self._body_left == _AWAITS_HEADER:
            raise ProtocolViolation(UNEXPECTED_FRAME, "a body frame came without its header")
        if left < 0:
            raise ProtocolViolation(FRAME_ERROR, "a body is longer than its header says")
        if left:
            self._body_left = left
            self._pieces.append(piece)
            return None
        self._body_left = _AWAITS_HEADER
        if not self._pieces:
            return piece
        self._pieces.append(piece)
        body, self._pieces = b"".join(self._pieces), []
        return body

    def clear(self) -> None:
        """Forget what is half there."""
        self.awaited, self._body_left = None, _AWAITS_HEADER
        self._pieces.clear()
