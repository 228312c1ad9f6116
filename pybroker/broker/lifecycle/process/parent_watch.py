"""A broker started by a test ends when its parent does, however that ends.

The parent keeps the writing end of a pipe and never writes. When it is gone, the kernel ends this process: the pipe is
set to send SIGKILL on hang-up, which needs no thread and no GIL of ours. PR_SET_PDEATHSIG would do the same for one
*thread* of the parent, and kills the broker of a test that started it from a worker thread. A process forked from the
parent shares the pipe, so on Linux the parent itself is watched too.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import select
import signal
import sys


def die_with_parent(parent_fd: int) -> None:
    """To be called first thing. `parent_fd` is the reading end of a pipe of which the parent holds the only other end.
    """
    if sys.platform == "linux":
        fcntl.fcntl(parent_fd, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(parent_fd, 10, signal.SIGKILL)  # F_SETSIG
        fcntl.fcntl(parent_fd, fcntl.F_SETFL, fcntl.fcntl(parent_fd, fcntl.F_GETFL) | os.O_ASYNC)
    # The parent may have ended before the lines above ran.
    if select.select([parent_fd], [], [], 0)[0]:
        os._exit(1)


def watch_parent(loop: asyncio.AbstractEventLoop, parent_fd: int) -> None:
    """The same by way of the loop: for systems without the above, and for parents that forked."""

    def end() -> None:
        os._exit(1)

    loop.add_reader(parent_fd, end)
    if sys.platform == "linux":
        try:
            loop.add_reader(os.pidfd_open(os.getppid()), end)
        except OSError:
            return  # a kernel before 5.3, or a sandbox without pidfd: the pipe remains
