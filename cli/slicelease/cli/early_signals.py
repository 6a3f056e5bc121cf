"""SIGTERM and Ctrl-C while a service is still being imported, when it ends at once with exit code 0, and when it has ended.

May live here: what holds before and after a part takes the signals itself. May not import anything that takes time: it comes
first.
Python's own answers would be an exit by signal, which a supervisor counts as a crash, or a KeyboardInterrupt out of the middle
of an import, which now and then is swallowed there, and then the process stays.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

SERVICES = ("control-plane", "worker", "dev")
"""The commands that run until they are told to end."""


def install() -> None:
    """When this process is to be a service: takes both signals until the service does."""
    if _is_service():
        for number in (signal.SIGTERM, signal.SIGINT):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _end)


def leave(code: int) -> NoReturn:
    """Exits with the code of a service that has ended; a signal that is late makes no crash of it."""
    if _is_service():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
    sys.exit(code)


def _is_service() -> bool:
    """Whether this process is one, and not one that only calls its command, as tests do."""
    return sys.argv[1:2] != [] and sys.argv[1] in SERVICES


def _end(_number: int, _frame: FrameType | None) -> None:
    """Nothing was opened yet, so there is nothing to clean up."""
    os._exit(0)
