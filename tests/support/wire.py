"""A minimal client, written by hand: checks whether a broker at an address responds to Metadata."""

from __future__ import annotations

import socket
import struct

from pybroker.testing.child_processes import free_port

__all__ = ["answers_metadata", "free_port"]

_CLIENT_ID = b"probe"
_METADATA, _VERSION = 3, 4


def answers_metadata(port: int, timeout_s: float = 2.0, brokers_min: int = 1) -> bool:
    """Return whether the broker at `port` lists at least `brokers_min` brokers; False for a refusal or an incomplete
    response."""
    body = struct.pack(">hhih", _METADATA, _VERSION, 1, len(_CLIENT_ID)) + _CLIENT_ID + struct.pack(">ib", 0, 0)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as connection:
            connection.sendall(struct.pack(">i", len(body)) + body)
            stream = connection.makefile("rb")
            (size,) = struct.unpack(">i", stream.read(4))
            _correlation, _throttle, brokers = struct.unpack_from(">iii", stream.read(size))
            return bool(brokers >= brokers_min)
    except (OSError, struct.error):
        return False
