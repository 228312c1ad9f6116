"""A proxy between clients and a broker that can stop one kind of request, or its response, while the test acts."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import Literal

Stopped = Literal["request", "answer"]
_BACKLOG = 64


class Gate:
    """Passes Kafka's frames to a broker on the loopback interface.

    Clients use it if the broker advertises `port`. It never passes on a request or response that it has stopped: the
    client sees a network that has become silent.
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
        """`host:port` for clients."""
        return f"127.0.0.1:{self.port}"

    def stop(self, api_key: int, what: Stopped) -> None:
        """Stop requests of this API key (`request`), or their responses after the broker has sent them (`answer`). The
        event `reached` is set when one was stopped."""
        self.reached.clear()
        self._stopped = (api_key, what)

    def pass_on(self) -> None:
        """End `stop`: close the connections with a stopped request; other and new connections work again."""
        self._stopped = None
        self._close()

    def close(self) -> None:
        """Close the proxy."""
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
                return  # The proxy is closed.
            try:
                broker = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()  # The broker is down: close the connection as the broker would.
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
    """Return the next frame with its length; None at the end of the connection."""
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
    with contextlib.suppress(OSError):  # The socket was never connected, or is already closed.
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
