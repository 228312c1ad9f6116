"""Free ports of this machine, for servers that cannot report the port they chose."""

from __future__ import annotations

import socket
import sys

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
