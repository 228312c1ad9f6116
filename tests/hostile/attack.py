"""Sends hostile frames over a few connections at once and replaces each connection that the broker closes."""

from __future__ import annotations

import random
import selectors
import socket
import time
from collections.abc import Iterator

from tests.hostile.corpus import framed, requests, spoiled

CONNECTIONS = 16
PENDING_MAX = 1 << 16
FRAMES_PER_CONNECTION_MAX = 200
STALLED_S = 120.0


class _Attacker:
    """One connection: bytes still to send, and the number of bytes sent."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=120)
        self.socket.setblocking(False)
        self.pending = bytearray()
        self.frames = 0


def frames(seed: int) -> Iterator[bytes]:
    """Yield frames without end: nine corrupted requests for each correct one, and sometimes random bytes."""
    chance = random.Random(seed)
    source = requests(chance)
    while True:
        request = next(source)
        if chance.random() < 0.05:
            yield chance.randbytes(chance.randrange(1, 200))
        for _ in range(9):
            yield framed(spoiled(request, chance), chance)
        yield framed(request, chance)


def attack(port: int, count: int, seed: int) -> int:
    """Send `count` frames; return the number of connections that the broker closed.

    Fail if the broker refuses connections, or accepts no bytes for a minute.
    """
    source = frames(seed)
    selector = selectors.DefaultSelector()

    def open_one() -> None:
        attacker = _Attacker(port)
        selector.register(attacker.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, attacker)

    def close_one(attacker: _Attacker) -> None:
        selector.unregister(attacker.socket)
        attacker.socket.close()
        open_one()

    for _ in range(CONNECTIONS):
        open_one()
    sent = closed = 0
    progress = time.monotonic()
    try:
        while sent < count:
            for key, events in selector.select(1.0):
                attacker: _Attacker = key.data
                try:
                    if events & selectors.EVENT_READ and not attacker.socket.recv(1 << 16):
                        raise ConnectionResetError
                    if events & selectors.EVENT_WRITE:
                        while len(attacker.pending) < PENDING_MAX // 8 and sent < count:
                            attacker.pending += next(source)
                            attacker.frames += 1
                            sent += 1
                            if attacker.frames >= FRAMES_PER_CONNECTION_MAX:
                                break
                        taken = attacker.socket.send(attacker.pending)
                        del attacker.pending[:taken]
                        progress = time.monotonic()
                        if attacker.frames >= FRAMES_PER_CONNECTION_MAX:
                            raise ConnectionResetError
                except BlockingIOError:
                    continue
                except OSError:
                    closed += 1
                    close_one(attacker)
            assert time.monotonic() - progress < STALLED_S, f"the broker takes nothing; {sent} frames sent, seed {seed}"
    finally:
        for key in list(selector.get_map().values()):
            key.data.socket.close()
        selector.close()
    return closed
