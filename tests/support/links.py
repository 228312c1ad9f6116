"""The network between the processes of a cluster: proxies on 127.0.0.1, whose links can be cut in one or both
directions."""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import threading

from tests.support.wire import free_port

End = int | str
"""A broker's id, or one of the names below."""
CLIENTS = "clients"
ZOOKEEPER = "zookeeper"

_CLIENT_ID_AT = 12
"""Offset of the client id in a request's frame: after length, key, version and correlation id."""


class Links:
    """Passes bytes on. Bytes sent over a cut link wait until it is healed, as under TCP: they arrive late, or when the
    receiver has timed out."""

    def __init__(self, *, listens: bool = False) -> None:
        """listens: record the requests between brokers in `asked`."""
        self._listens = listens
        self.asked: dict[tuple[End, End], set[tuple[int, int]]] = {}
        """(source, target) → (API key, version) of the requests."""
        self._cut: set[tuple[End, End]] = set()
        self._changed = threading.Condition()
        self._closed = False
        self._doors: list[tuple[End, int, int, End | None]] = []
        self._listeners: dict[int, socket.socket] = {}
        self._open: list[socket.socket] = []
        self._carried: list[tuple[set[End], socket.socket, socket.socket]] = []

    def to(self, target: End, port: int, source: End | None = None) -> int:
        """Return the port at which others reach the target. source: who connects to that port; None: brokers, which are
        recognized by their client id."""
        door = free_port()
        self._doors.append((target, door, port, source))
        self._listen(door, target, port, source)
        return door

    def refuse(self, target: End) -> None:
        """Refuse connections to the target, as a machine does for a process that has ended."""
        for to, door, _, _ in self._doors:
            listener = self._listeners.pop(door, None) if to == target else None
            if listener is not None:
                _shut(listener)

    def accept(self, target: End) -> None:
        """End `refuse`."""
        for to, door, port, source in self._doors:
            if to == target and door not in self._listeners:
                self._listen(door, to, port, source)

    def cut(self, source: End, target: End) -> None:
        """Stop passing bytes from `source` to `target`, without an error on either side."""
        with self._changed:
            self._cut.add((source, target))

    def cut_off(self, one: End, *others: End) -> None:
        """Cut the links in both directions."""
        for other in others:
            self.cut(one, other)
            self.cut(other, one)

    def hang_up(self, one: End, other: End) -> None:
        """Close the connections between two ends; new connections work."""
        for ends, near, far in list(self._carried):
            if ends == {one, other}:
                _shut(near)
                _shut(far)

    def heal(self) -> None:
        """Pass on everything again, including the bytes that have waited."""
        with self._changed:
            self._cut.clear()
            self._changed.notify_all()

    def close(self) -> None:
        """Close all connections."""
        self._closed = True
        self.heal()
        for each in [*self._listeners.values(), *self._open]:
            _shut(each)

    def _listen(self, door: int, target: End, port: int, source: End | None) -> None:
        listener = self._listeners[door] = socket.create_server(("127.0.0.1", door), backlog=64)
        threading.Thread(target=self._accept, args=(listener, target, port, source), daemon=True).start()

    def _accept(self, listener: socket.socket, target: End, port: int, source: End | None) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return  # The proxy is closed.
            threading.Thread(target=self._connect, args=(connection, target, port, source), daemon=True).start()

    def _connect(self, near: socket.socket, target: End, port: int, source: End | None) -> None:
        self._open.append(near)
        first = b""
        try:
            if source is None:
                first, source = _first_of_a_broker(near)
            # A handshake needs both directions.
            self._wait(source, target)
            self._wait(target, source)
            far = socket.create_connection(("127.0.0.1", port))
        except OSError:
            return _shut(near)
        self._open.append(far)
        self._carried.append(({source, target}, near, far))
        threading.Thread(target=self._pump, args=(far, near, target, source, b""), daemon=True).start()
        return self._pump(near, far, source, target, first)

    def _pump(self, near: socket.socket, far: socket.socket, source: End, target: End, first: bytes) -> None:
        requests = _Requests() if first and self._listens else None
        try:
            data = first or near.recv(1 << 16)
            while data:
                self._wait(source, target)
                if requests is not None:
                    self.asked.setdefault((source, target), set()).update(requests.found(data))
                far.sendall(data)
                data = near.recv(1 << 16)
        except OSError:
            pass
        self._wait(source, target)
        _shut(far)
        _shut(near)

    def _wait(self, source: End, target: End) -> None:
        if (source, target) in self._cut:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or (source, target) not in self._cut)


class _Requests:
    """Splits the bytes of one connection into frames."""

    def __init__(self) -> None:
        self._data = b""
        self._skip = 0

    def found(self, data: bytes) -> list[tuple[int, int]]:
        """Return (API key, version) of each request that begins in the data."""
        found = []
        self._data += data[self._skip :]
        self._skip = max(0, self._skip - len(data))
        while len(self._data) >= 8:
            size, key, version = struct.unpack_from(">ihh", self._data)
            found.append((key, version))
            self._skip = max(0, size + 4 - len(self._data))
            self._data = self._data[size + 4 :]
        return found


def _first_of_a_broker(connection: socket.socket) -> tuple[bytes, int]:
    """Return the first bytes that a broker has sent, and the broker's id."""
    data = b""
    while len(data) < _CLIENT_ID_AT + 2 or len(data) < _CLIENT_ID_AT + 2 + _length(data):
        piece = connection.recv(1 << 16)
        if not piece:
            raise ConnectionResetError
        data += piece
    name = data[_CLIENT_ID_AT + 2 :][: _length(data)].decode()
    found = re.match(r"broker-(\d+)", name)
    assert found, f"a stranger on the listener for brokers: {name}"
    return data, int(found[1])


def _length(data: bytes) -> int:
    found: int = struct.unpack_from(">h", data, _CLIENT_ID_AT)[0]
    return found


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # The socket was never connected, or is already closed.
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
