"""`slicelease dev` at a terminal: a live table on it, and the result below."""

import os
import pty
import re
import subprocess
import threading

from tests.tools import slicelease_path


def at_a_terminal(*args: str) -> tuple[int, str]:
    """Exit code and all that the terminal got."""
    ours, theirs = pty.openpty()
    got: list[bytes] = []

    def read() -> None:
        while True:
            try:
                got.append(os.read(ours, 65_536))
            except OSError:  # the other side is closed
                return

    reader = threading.Thread(target=read)
    reader.start()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    command = [slicelease_path(), "dev", "--listen", "127.0.0.1:0", "--metrics-listen", "", *args]
    code = subprocess.run(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env, check=False, timeout=60).returncode
    os.close(theirs)
    reader.join(10)
    os.close(ours)
    return code, b"".join(got).decode()


def test_a_table_is_drawn_anew_and_the_summary_stays() -> None:
    options = "--tenants 10 --messages 300 --work-ms 50 --slots 1 --log-level debug"
    code, text = at_a_terminal(*options.split())
    assert code == 0
    # Erase-line and cursor-up sequences between two drawings of the table.
    assert re.search(r"queues with work.*\x1b\[2K\x1b\[1A.*queues with work", text, re.DOTALL)
    assert "wait interactive p50/p99" in text
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    assert re.search(r"^processed +300\r?$", plain, re.MULTILINE)
    assert "ledger_library_loaded" in plain, "the log is seen, too"
