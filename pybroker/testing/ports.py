"""Ports of this machine, for servers that cannot say which one they took."""

from __future__ import annotations

import socket
import sys

_taken: list[socket.socket] = []


def free_port() -> int:
    """A TCP port of the loopback interface on which nobody listens.

    On Linux it is this process's until it ends: a socket that is bound and does not listen keeps the kernel from
    giving the port to anybody who leaves the choice to it, another test run or a client's connection, and lets a
    server (SO_REUSEADDR) listen, as often as it is restarted.
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
