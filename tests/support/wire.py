"""A minimal client, written by hand: checks whether a broker at an address responds to Metadata."""

from __future__ import annotations

import socket
import struct

from pybroker.testing.child_processes import free_port

__all__ = ["answers_metadata", "free_port"]

_CLIENT_ID = b"probe"
_METADATA, _VERSION = 3, 4


def answers_metadata(port: int, timeout_s: float = 2.0, brokers_min: int = 1) -> bool:
    """Return whether the broker at `port` lists this many brokers; False also for a refused connection or a truncated
    response."""
    shown = _metadata(port, timeout_s)
    return shown is not None and shown[0] >= brokers_min


def controller_at(port: int, timeout_s: float = 2.0) -> int:
    """Return the controller that the broker at `port` shows; -1 if it shows none or does not answer."""
    shown = _metadata(port, timeout_s)
    return -1 if shown is None else shown[1]


def _metadata(port: int, timeout_s: float) -> tuple[int, int] | None:
    """Return the number of brokers and the controller; None after a refused connection or a truncated response."""
    body = struct.pack(">hhih", _METADATA, _VERSION, 1, len(_CLIENT_ID)) + _CLIENT_ID + struct.pack(">ib", 0, 0)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as connection:
            connection.sendall(struct.pack(">i", len(body)) + body)
            stream = connection.makefile("rb")
            (size,) = struct.unpack(">i", stream.read(4))
            reply = stream.read(size)
            _correlation, _throttle, brokers = struct.unpack_from(">iii", reply)
            at = 12
            for _ in range(brokers):
                at = _after_text(reply, at + 4) + 4
                at = _after_text(reply, at)
            (controller,) = struct.unpack_from(">i", reply, _after_text(reply, at))
    except (OSError, struct.error):
        return None
    return brokers, controller


def _after_text(reply: bytes, at: int) -> int:
    (length,) = struct.unpack_from(">h", reply, at)
    return at + 2 + max(0, int(length))
