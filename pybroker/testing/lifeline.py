"""Ends child processes that run foreign programs (a JVM) together with this process, however it ends.

A small helper process beside each child waits for the end of a pipe that this process holds open, and also for a new
parent process id, because a forked process may hold the pipe too. A pdeathsig does not work: it kills the JVM when the
*thread* that started it ends.
"""

from __future__ import annotations

import os
import subprocess
import sys

_GUARD = """
import os, select, signal, sys
parent, guarded = map(int, sys.argv[1:])
while os.getppid() == parent and not select.select([0], [], [], 1)[0]:
    pass
os.kill(guarded, signal.SIGKILL)
"""


class ChildGuard:
    """Kills `pid`, a child of this process, when this process ends. Call `end` before anything waits for `pid`: until
    then the process id cannot be reused.
    """

    def __init__(self, pid: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _GUARD, str(os.getpid()), str(pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def end(self) -> None:
        """Stop guarding."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None, "a pipe was asked for"
        self._process.stdin.close()
