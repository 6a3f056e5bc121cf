"""The process around `serve`: event loop, signals, logs, exit code.

May live here: what belongs to the process. May not know: services.
"""

from __future__ import annotations

import asyncio
import signal
from types import FrameType

import structlog
import uvloop

from slicelease.control_plane.config import ControlPlaneSettings
from slicelease.control_plane.logs import configure_logs
from slicelease.control_plane.ports import LedgerUnavailableError, LedgerVersionError

from .serving import AddressInUseError, serve

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_log = structlog.get_logger("slicelease.app")


class _Stopper:
    """The first signal asks for a drain, the second for an end at once. Signals may come before there is a loop."""

    def __init__(self) -> None:
        self._signals = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._task: asyncio.Task[int] | None = None
        for each in _SIGNALS:
            signal.signal(each, self._early)

    def _early(self, _signal: int, _frame: FrameType | None) -> None:
        self._signals += 1

    def _late(self) -> None:
        self._signals += 1
        if self._signals > 1 and self._task is not None:
            self._task.cancel()
        self._stop.set()

    async def run(self, settings: ControlPlaneSettings) -> int:
        """Serves until a signal comes."""
        loop = asyncio.get_running_loop()
        for each in _SIGNALS:
            loop.add_signal_handler(each, self._late)
        if self._signals:
            self._stop.set()
        self._task = asyncio.create_task(serve(settings, on_ready=_say_ready, stop=self._stop))
        try:
            return await self._task
        except asyncio.CancelledError:
            _log.warning("ended at once by a second signal")
            return 0


def _say_ready(address: str) -> None:
    _log.info("taking calls", address=address)


def run(settings: ControlPlaneSettings) -> int:
    """Runs the control plane until SIGTERM or SIGINT; the exit code: 0 after a shutdown, 1 when it could not start."""
    urls = (settings.amqp_url.get_secret_value(), settings.redis_url.get_secret_value())
    configure_logs(settings.log_format, settings.log_level, urls)
    stopper = _Stopper()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(stopper.run(settings))
    except (AddressInUseError, LedgerUnavailableError, LedgerVersionError) as error:  # of the ledger: waiting will not help
        _log.error("cannot start", reason=str(error))
    except OSError as error:
        _log.error("cannot start", reason=error.strerror, file=error.filename)
    return 1
