"""The least of the wire protocol, written by hand: is there a broker at this address that answers Metadata?"""

from __future__ import annotations

import socket
import struct
import sys

_CLIENT_ID = b"probe"
_METADATA, _VERSION = 3, 4


_taken: list[socket.socket] = []


def free_port() -> int:
    """A TCP port of the loopback interface on which nobody listens.

    On Linux it is this process's until it ends: a socket that is bound and does not listen keeps the kernel from
    giving the port to anybody who leaves the choice to it, another test run or a client's connection, and lets a
    broker (SO_REUSEADDR) listen, as often as it is restarted.
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


def answers_metadata(port: int, timeout_s: float = 2.0) -> bool:
    """True once the broker at `port` lists at least one broker; any refusal or cut-off reply is False."""
    body = struct.pack(">hhih", _METADATA, _VERSION, 1, len(_CLIENT_ID)) + _CLIENT_ID + struct.pack(">ib", 0, 0)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as connection:
            connection.sendall(struct.pack(">i", len(body)) + body)
            stream = connection.makefile("rb")
            (size,) = struct.unpack(">i", stream.read(4))
            _correlation, _throttle, brokers = struct.unpack_from(">iii", stream.read(size))
            return bool(brokers >= 1)
    except (OSError, struct.error):
        return False
