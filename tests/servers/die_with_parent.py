"""The launcher of every child process: ``python -I -S die_with_parent.py <parent pid> <program> <arguments ...>``.

It asks the kernel to kill it when its parent dies, then becomes the program. Standard library only, and no import from
this package: it runs as a script of its own. A launcher instead of ``preexec_fn``, because code between fork and exec
is unsafe (and warned of) in a parent that has threads, as every parent with gRPC in it has.
"""

import ctypes
import os
import signal
import sys
import threading

_PR_SET_PDEATHSIG = 1
_PARENT_GONE = 125


def owner_of_children() -> int:
    """Return the pid to which a child binds its life; raise RuntimeError outside the main thread.

    The kernel sends the signal when the *thread* that forked ends, so only the main thread may fork.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("start servers from the main thread: a child dies with the thread that forked it")
    return os.getpid()


def become(parent_pid: int, argv: list[str]) -> None:
    """Replace this process by ``argv``, bound to the life of ``parent_pid``."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent_pid:  # it died before the kernel knew of our wish
        sys.exit(_PARENT_GONE)
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    become(int(sys.argv[1]), sys.argv[2:])
