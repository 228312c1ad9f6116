"""Processes that are not ours (a JVM) end with this one, however it ends.

A small process beside each waits for the end of this one: for the end of a pipe that only this process holds open, or,
because a forked process holds it too, for another parent. A pdeathsig would end the JVM with the *thread* that
started it.
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


class Guard:
    """Kills `pid`, a child of this process, when this process is gone. `end` comes before anybody waits for `pid`:
    the number is the child's own until then."""

    def __init__(self, pid: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _GUARD, str(os.getpid()), str(pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def end(self) -> None:
        """It guards no more."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None, "a pipe was asked for"
        self._process.stdin.close()
