"""Changes this broker's requests to other brokers on their way: a proxy in the broker's own process."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from functools import cache

Change = Callable[[bytearray], None]
"""Changes a request, without its length, in place."""

FETCH = 1
PARTITION_BYTES = 32
"""Size of a partition in Fetch 13, without its tagged fields."""
LAST_FETCHED_EPOCH_AT = 16


def tampered(change: Change) -> Callable[[int], int]:
    """Return a function from a loopback port to the port of a proxy, which passes every request on after changing
    it."""

    @cache
    def instead(port: int) -> int:
        door = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=_serve, args=(door, port, change), daemon=True).start()
        found: int = door.getsockname()[1]
        return found

    return instead


def forget_epochs(request: bytearray) -> None:
    """Overwrite the leader epoch at the end of the log in Fetch requests, so that no leader can detect that the logs
    diverge."""
    key, version = struct.unpack_from(">hh", request)
    if key != FETCH:
        return
    assert version == 13, f"Fetch {version} has another layout"
    (length,) = struct.unpack_from(">h", request, 8)
    at = _past_tags(request, 10 + max(0, length))
    at += 4 * 4 + 1 + 2 * 4
    topics, at = _array(request, at)
    for _ in range(topics):
        partitions, at = _array(request, at + 16)
        for _ in range(partitions):
            struct.pack_into(">i", request, at + LAST_FETCHED_EPOCH_AT, -1)
            at = _past_tags(request, at + PARTITION_BYTES)
        at = _past_tags(request, at)


def _serve(door: socket.socket, port: int, change: Change) -> None:
    while True:
        near, _ = door.accept()
        try:
            far = socket.create_connection(("127.0.0.1", port))
        except OSError:
            near.close()
            continue
        threading.Thread(target=_requests, args=(near, far, change), daemon=True).start()
        threading.Thread(target=_answers, args=(far, near), daemon=True).start()


def _requests(near: socket.socket, far: socket.socket, change: Change) -> None:
    with contextlib.suppress(OSError), near.makefile("rb") as said:
        while len(head := said.read(4)) == 4:
            request = bytearray(said.read(struct.unpack(">i", head)[0]))
            change(request)
            far.sendall(head + request)
    _close(near, far)


def _answers(far: socket.socket, near: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := far.recv(1 << 16):
            near.sendall(data)
    _close(near, far)


def _close(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):  # the other thread has already closed the socket
            end.shutdown(socket.SHUT_RDWR)


def _array(data: bytearray, at: int) -> tuple[int, int]:
    length, at = _varint(data, at)
    return length - 1, at


def _past_tags(data: bytearray, at: int) -> int:
    count, at = _varint(data, at)
    for _ in range(count):
        _, at = _varint(data, at)
        size, at = _varint(data, at)
        at += size
    return at


def _varint(data: bytearray, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
