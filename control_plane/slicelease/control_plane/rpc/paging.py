"""Page tokens: opaque to callers, and good only for the list that they came from.

May live here: packing and unpacking of tokens. May not know: what is listed.
"""

from __future__ import annotations

import base64
import binascii

from .status import invalid_field

_SEPARATOR = "\n"
_VERSION = "1"


def page_token(of: str, after: str) -> str:
    """The token that continues the list `of` (its method and parent) after an item; empty on the last page."""
    if not after:
        return ""
    return base64.urlsafe_b64encode(_SEPARATOR.join((_VERSION, of, after)).encode()).decode()


def after_token(of: str, token: str) -> str:
    """The item to continue after; raises CallError for a token that is not of this list."""
    if not token:
        return ""
    version, _, rest = _decoded(token).partition(_SEPARATOR)
    token_of, _, after = rest.partition(_SEPARATOR)
    if version != _VERSION or token_of != of or not after:
        raise invalid_field("page_token", "not a token of this list; begin again without one")
    return after


def _decoded(token: str) -> str:
    try:
        return base64.b64decode(token.encode(), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError):
        return ""
