"""The launcher of child processes: `python -I -S die_with_parent.py <parent pid> <program> <arguments ...>`.

Runs as a script of its own: standard library only, no import from this package. It asks the kernel to kill it when the
thread that forked it ends, and then becomes the program. A launcher rather than code between fork and exec, which is
unsafe in a process with threads. Where the kernel has no such service (macOS), the program is started all the same.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def become(parent_pid: int, argv: list[str]) -> None:
    """Turns this process into `argv`, bound to the life of `parent_pid`."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent_pid:  # it was gone before the kernel knew of our wish
        sys.exit("the parent process is gone")
    os.execv(argv[0], argv)  # noqa: S606  the program is the point


if __name__ == "__main__":
    become(int(sys.argv[1]), sys.argv[2:])
