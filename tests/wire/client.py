"""A raw client for tests: it sends any request of any version over one connection, without retries, and hides
nothing."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from pybroker import native

ANSWER_S = 120.0
"""Time limit for a response: longer than the timeouts in requests, on a machine that pauses for a while."""


class WireClient:
    """One connection. `call` sends a message object and returns the response; `send` and `receive` overlap requests.

    Messages of `pybroker.protocol.messages`, or of `.interbroker` with `interbroker=True`.
    """

    def __init__(
        self,
        port: int,
        *,
        host: str = "127.0.0.1",
        client_id: str | None = "wire-test",
        timeout_s: float = ANSWER_S,
        interbroker: bool = False,
        wrap: Callable[[socket.socket], socket.socket] = lambda plain: plain,
    ) -> None:
        """`wrap`: a layer around the socket, such as TLS."""
        self.client_id = client_id
        self._interbroker = interbroker
        self._socket = wrap(socket.create_connection((host, port), timeout=timeout_s))
        self._stream = self._socket.makefile("rb")
        self._correlation_id = 0
        # The pending responses, in order: Kafka responds in the order of the requests.
        self._expected: list[tuple[int, int, int]] = []

    @property
    def plain(self) -> socket.socket:
        """The layer below, for requests and responses as bytes."""
        return self._socket

    def send(self, request: Any, version: int, *, answered: bool = True) -> int:
        """Send a request and return its correlation id. `answered=False`: the request has no response (Produce with
        acks 0)."""
        self._correlation_id += 1
        frame = native.encode_request(request, version, self._correlation_id, self.client_id)
        self.send_frame(frame)
        if answered:
            key, _ = struct.unpack_from(">hh", frame)
            self._expected.append((key, version, self._correlation_id))
        return self._correlation_id

    def send_frame(self, frame: bytes) -> None:
        """Send bytes, preceded by their length."""
        self.send_bytes(struct.pack(">i", len(frame)) + frame)

    def send_bytes(self, data: bytes) -> None:
        """Send bytes unchanged."""
        self._socket.sendall(data)

    def receive(self) -> Any:
        """Return the response to the oldest request without one. Raises ConnectionError if the broker closes
        instead."""
        key, version, sent_id = self._expected.pop(0)
        correlation_id, response = native.decode_response(
            key, version, self.receive_frame(), interbroker=self._interbroker
        )
        if correlation_id != sent_id:
            raise AssertionError(f"answer to request {correlation_id}, expected that to {sent_id}")
        return response

    def receive_frame(self) -> bytes:
        """Return the next response, undecoded and without its length."""
        (length,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(length)

    def call(self, request: Any, version: int) -> Any:
        """Send a request and return its response."""
        self.send(request, version)
        return self.receive()

    def call_each(self, make: Callable[[int], Any], versions: range) -> dict[int, Any]:
        """Return the responses to `make(version)` in every version."""
        return {version: self.call(make(version), version) for version in versions}

    def is_closed_by_peer(self) -> bool:
        """Wait for bytes or the end of the connection. Return True if the broker closes it."""
        try:
            return self._stream.read(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def _exactly(self, length: int) -> bytes:
        data = self._stream.read(length)
        if len(data) != length:
            raise ConnectionError(f"the broker closed the connection after {len(data)} of {length} bytes")
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
