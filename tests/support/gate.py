"""A gate between clients and a broker: it stops one kind of request, or its answer, so that a test can act there."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import Literal

Stopped = Literal["request", "answer"]
_BACKLOG = 64


class Gate:
    """Passes Kafka's frames on to a broker on the loopback interface.

    Clients reach it if the broker advertises `port`. What it stops it holds for ever: to whoever sent the request, the
    network has gone silent at that moment.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
        self.port: int = self._listener.getsockname()[1]
        self.target = 0
        self.reached = threading.Event()
        self._stopped: tuple[int, Stopped] | None = None
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        """What clients are told."""
        return f"127.0.0.1:{self.port}"

    def stop(self, api_key: int, what: Stopped) -> None:
        """From now on requests of this API key go no further (`request`), or are answered to nobody (`answer`);
        `reached` tells that one was stopped. An answer is stopped when the broker has sent it."""
        self.reached.clear()
        self._stopped = (api_key, what)

    def pass_on(self) -> None:
        """Ends `stop`: connections that it silenced are closed, others and new ones work again."""
        self._stopped = None
        self._close()

    def close(self) -> None:
        """No more connections."""
        self._listener.close()
        self._close()

    def _close(self) -> None:
        with self._lock:
            sockets, self._open = self._open, []
        for each in sockets:
            _shut(each)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            try:
                broker = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()  # the broker is away: so is the gate
                continue
            with self._lock:
                self._open += [client, broker]
            silenced: set[int] = set()
            threading.Thread(target=self._requests, args=(client, broker, silenced), daemon=True).start()
            threading.Thread(target=self._answers, args=(broker, client, silenced), daemon=True).start()

    def _requests(self, client: socket.socket, broker: socket.socket, silenced: set[int]) -> None:
        while (frame := _frame(client)) is not None:
            api_key, _version, correlation_id = struct.unpack_from(">hhi", frame, 4)
            stopped = self._stopped
            if stopped is not None and stopped[0] == api_key:
                if stopped[1] == "request":
                    self.reached.set()
                    continue
                silenced.add(correlation_id)
            if not _sent(broker, frame):
                break
        _shut(broker)
        _shut(client)

    def _answers(self, broker: socket.socket, client: socket.socket, silenced: set[int]) -> None:
        while (frame := _frame(broker)) is not None:
            (correlation_id,) = struct.unpack_from(">i", frame, 4)
            if correlation_id in silenced:
                self.reached.set()
            elif not _sent(client, frame):
                break
        _shut(client)
        _shut(broker)


def _frame(connection: socket.socket) -> bytes | None:
    """The next frame with its length; None at the end of the connection."""
    try:
        head = _exactly(connection, 4)
        if head is None:
            return None
        body = _exactly(connection, struct.unpack(">i", head)[0])
    except OSError:
        return None
    return None if body is None else head + body


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        piece = connection.recv(min(size - len(parts), 1 << 20))
        if not piece:
            return None
        parts += piece
    return bytes(parts)


def _sent(connection: socket.socket, frame: bytes) -> bool:
    try:
        connection.sendall(frame)
    except OSError:
        return False
    return True


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it was never connected, or has gone
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
