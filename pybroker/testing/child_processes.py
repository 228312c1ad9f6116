"""Child processes that run foreign programs (a JVM): they end together with this process, however it ends; pausing
them; free ports for them.

A small helper process beside each child waits for the end of a pipe that this process holds open, and also for a new
parent process id, because a forked process may hold the pipe too. A pdeathsig does not work: it kills the JVM when the
*thread* that started it ends.
"""

from __future__ import annotations

import os
import signal
import socket
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


def pause(pid: int) -> None:
    """Stop a child of this process (SIGSTOP) and return when all its threads have stopped, which takes time on a loaded
    machine. SIGCONT resumes it.
    """
    os.kill(pid, signal.SIGSTOP)
    if hasattr(os, "waitid"):  # macOS has it since Python 3.13
        # WNOWAIT leaves the exit status for the caller that waits for the process.
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


_taken: list[socket.socket] = []


def free_port() -> int:
    """Return a TCP port of the loopback interface without a listener.

    On Linux it stays reserved until this process ends: a bound socket that does not listen keeps the kernel from giving
    the port to another test run or a client's connection, but lets a server with SO_REUSEADDR listen on it, again after
    each restart.
    """
    taken = socket.socket()
    if sys.platform == "linux":
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _taken.append(taken)
    taken.bind(("127.0.0.1", 0))
    port = int(taken.getsockname()[1])
    if sys.platform != "linux":
        taken.close()
    return port
