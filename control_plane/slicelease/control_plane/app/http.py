"""/metrics, /ready and /live over HTTP, for scrapers and orchestrators.

May live here: these three answers. May not know: where they come from. The server runs in threads of its own, so that it answers
while the event loop is busy, and says so when that is stuck.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from types import TracebackType
from typing import Any, Self
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

from .readiness import Readiness

_TEXT, _JSON = "text/plain; charset=utf-8", "application/json"
_StartResponse = Callable[[str, list[tuple[str, str]]], object]


def make_app(registry: CollectorRegistry, readiness: Readiness) -> Any:
    """The WSGI application."""
    metrics = make_wsgi_app(registry)

    def answer(start_response: _StartResponse, ok: bool, kind: str, body: str) -> Iterable[bytes]:
        # A list of its own each time: wsgiref writes the length of the body into it.
        start_response("200 OK" if ok else "503 Service Unavailable", [("Content-Type", kind)])
        return [body.encode()]

    def app(environ: dict[str, Any], start_response: _StartResponse) -> Iterable[bytes]:
        match environ["PATH_INFO"]:
            case "/metrics":
                shown: Iterable[bytes] = metrics(environ, start_response)
                return shown
            case "/ready":
                report = readiness.report
                return answer(start_response, report.ready, _JSON, json.dumps(report.shown()))
            case "/live":
                live = readiness.live
                return answer(start_response, live, _TEXT, "live\n" if live else "the event loop is stuck\n")
            case _:
                start_response("404 Not Found", [("Content-Type", _TEXT)])
                return [b"/metrics, /ready, /live\n"]

    return app


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    allow_reuse_address = True


class _Handler(WSGIRequestHandler):
    timeout = 5.0

    def log_message(self, *_: object) -> None:  # requests are no news
        pass


class HttpServer:
    """The server, as a context manager; raises OSError when the address cannot be used."""

    def __init__(self, address: str, app: Any) -> None:
        host, _, port = address.rpartition(":")
        self._server = make_server(host.strip("[]"), int(port), app, _Server, _Handler)
        self.address = f"{host}:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=1.0)
