"""Where the broker is: an AMQP URL, read into parameters.

Pure. No error here quotes the URL or a piece of it: an unescaped `/`, `?`, `#` or `@` moves parts of a password into
what looks like a port, a path or a host.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from slicelease.worker.amqp.errors import UrlError

MAX_VHOST_LENGTH = 127
_PORTS = {"amqp": 5672, "amqps": 5671}


@dataclass(frozen=True, slots=True)
class ConnectionParameters:
    """Host, port, credentials, virtual host, and whether to speak TLS."""

    host: str = "localhost"
    port: int = 5672
    user: str = "guest"
    password: str = field(default="guest", repr=False)
    vhost: str = "/"
    tls: bool = False

    @classmethod
    def from_url(cls, url: str) -> ConnectionParameters:
        """Read `amqp://user:password@host:port/vhost` (amqps for TLS); all but the scheme may be left out.

        User, password and vhost are percent-decoded. No vhost, or an empty one, is `/`. Raises UrlError.
        """
        if any(character.isspace() or not character.isprintable() for character in url):
            raise UrlError("the AMQP URL holds blanks or control characters: percent-encode them")
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
            user, password = _text(parts.username, "guest"), _text(parts.password, "guest")
            vhost = _text(parts.path[1:], "/")
        except ValueError:
            raise UrlError(_ADVICE) from None
        if parts.scheme not in _PORTS:
            raise UrlError("the AMQP URL must begin with amqp:// or amqps://")
        if parts.query or parts.fragment or "/" in parts.path[2:] or "@" in parts.path:
            raise UrlError(f"the AMQP URL has more than a virtual host behind the host. {_ADVICE}")
        if "\0" in user + password + vhost or len(vhost) > MAX_VHOST_LENGTH:
            raise UrlError(f"no %00 in the AMQP URL, and at most {MAX_VHOST_LENGTH} characters of virtual host")
        if port == 0:
            raise UrlError("the port of the AMQP URL must be 1 to 65535")
        return cls(
            host=host or "localhost",
            port=port or _PORTS[parts.scheme],
            user=user,
            password=password,
            vhost=vhost,
            tls=parts.scheme == "amqps",
        )

    @property
    def address(self) -> str:
        """Host and port, for texts that people read."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


_ADVICE = "expected amqp://user:password@host:port/vhost; percent-encode / ? # @ : in user, password and vhost"


def _text(part: str | None, default: str) -> str:
    return default if not part else unquote(part, errors="strict")
