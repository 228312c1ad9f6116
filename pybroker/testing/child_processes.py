"""Child processes that run foreign programs (a JVM): starting them so that they end with this process, pausing them,
and finding free ports for them.

A small helper process waits beside each child until this process ends. The helper notices the end in two ways: a pipe
that this process holds open is closed, or the helper gets a new parent process id. The second way is needed because a
forked process may also hold the pipe open. Linux's pdeathsig cannot be used: it kills the JVM when the *thread* that
started the JVM ends.
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
    """Kills `pid`, a child of this process, when this process ends. Call `end` before you wait for `pid`: after the
    wait, another process may get the same id."""

    def __init__(self, pid: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _GUARD, str(os.getpid()), str(pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None, "a pipe was asked for"
        self._process.stdin.close()


def pause(pid: int) -> None:
    """Stop a child of this process (SIGSTOP). Return when all its threads have stopped, which takes time on a loaded
    machine. SIGCONT resumes the child.
    """
    os.kill(pid, signal.SIGSTOP)
    if hasattr(os, "waitid"):  # macOS has waitid since Python 3.13
        # WNOWAIT leaves the exit status for the caller that later waits for the process.
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


_taken: list[socket.socket] = []


def free_port() -> int:
    """Return a TCP port of the loopback interface on which no socket listens.

    On Linux the port stays reserved until this process ends. A bound socket that does not listen keeps the kernel from
    giving the port to another test run or to a client's connection. A server with SO_REUSEADDR can still listen on the
    port, even after a restart.
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
