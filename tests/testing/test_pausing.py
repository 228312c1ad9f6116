"""A paused child process has stopped when the call returns."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from pybroker.testing.child_processes import pause

THREADS = 16
BUSY = f"""
import hashlib, sys, threading
def work():
    data = bytes(1 << 22)
    while True:
        hashlib.sha256(data).digest()  # without the interpreter's lock
threads = [threading.Thread(target=work, daemon=True) for _ in range({THREADS})]
for one in threads:
    one.start()
print("busy", flush=True)
threads[0].join()
"""


def states(pid: int) -> set[str]:
    """Return the states of all threads (Linux): "T" for stopped ones."""
    lines = (path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat"))
    return {line.rpartition(")")[2].split()[0] for line in lines}


def test_all_threads_stand_still() -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"busy\n"
            for _ in range(20):
                pause(child.pid)
                if Path("/proc/self/task").is_dir():
                    assert states(child.pid) == {"T"}
                os.kill(child.pid, signal.SIGCONT)
            assert child.poll() is None
        finally:
            child.kill()
    assert child.returncode == -signal.SIGKILL
