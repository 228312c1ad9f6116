"""Supervision of this process. It notifies systemd. A broker that a test has started ends with its parent process, even
if the parent is killed.

The parent holds the writing end of a pipe and never writes. When the parent ends, the pipe hangs up, and the kernel
sends SIGKILL to this process. This needs neither a thread nor the GIL. PR_SET_PDEATHSIG is unsuitable: it watches one
*thread* of the parent, and would kill a broker when the worker thread that started it ends. If the parent forks, its
other child inherits the pipe and keeps it open. Therefore on Linux this process also watches the parent itself.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import select
import signal
import socket
import sys


def die_with_parent(parent_fd: int) -> None:
    """Kill this process when its parent ends; call it first. `parent_fd` is the reading end of a pipe whose writing end
    only the parent holds."""
    if sys.platform == "linux":
        fcntl.fcntl(parent_fd, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(parent_fd, 10, signal.SIGKILL)  # F_SETSIG
        fcntl.fcntl(parent_fd, fcntl.F_SETFL, fcntl.fcntl(parent_fd, fcntl.F_GETFL) | os.O_ASYNC)
    # The parent may have ended before the lines above ran.
    if select.select([parent_fd], [], [], 0)[0]:
        os._exit(1)


def watch_parent(loop: asyncio.AbstractEventLoop, parent_fd: int) -> None:
    """Watch the parent from the loop. This covers systems without a signal on the pipe's hang-up, and parents that have
    forked.
    """

    def end() -> None:
        os._exit(1)

    loop.add_reader(parent_fd, end)
    if sys.platform == "linux":
        try:
            loop.add_reader(os.pidfd_open(os.getppid()), end)
        except OSError:
            return  # The kernel is older than 5.3, or a sandbox forbids pidfd: only the pipe remains.


log = logging.getLogger(__name__)


def notify(state: str) -> None:
    """Send one state, such as `READY=1`, as sd_notify(3) does. Do nothing if no service manager listens."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as connection:
            # An at sign marks a name in the abstract namespace.
            connection.connect(address if address[0] == "/" else f"\0{address[1:]}")
            connection.send(state.encode())
    except OSError as problem:
        log.warning("cannot notify systemd state=%s NOTIFY_SOCKET=%s: %s", state, address, problem.strerror or problem)
