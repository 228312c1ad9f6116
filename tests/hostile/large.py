"""Requests with as many elements as a frame or a limit allows, and clients that send them continuously."""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from pybroker import Broker, native
from pybroker.protocol import messages as m
from tests.security.kit import call, login

NAME = "stranger-%06d"
NUMBERS = ("bool", "int8", "int16", "uint16", "uint32", "int32", "int64", "float64")


def large(name: str, elements: int) -> Any:
    """Return a request of a class whose outer arrays have that many elements together, each with one element in its own
    arrays."""
    schema = native.message_schema(name)
    assert schema is not None
    classes = {one.name: one.fields for one in schema.structs}
    arrays = [field for field in classes[name] if field.type_name.startswith("[]")]
    numbers = itertools.count()

    def value(kind: str, count: int) -> Any:
        if kind.startswith("[]"):
            return [value(kind[2:], 1) for _ in range(count)]
        if kind in classes:
            return made(kind, 1)
        number = next(numbers)
        match kind:
            case "string":
                return NAME % number
            case "uuid":
                return native.Uuid.from_bytes(struct.pack(">qq", 1, number))
            case "bytes" | "records":
                return b""
            case "bool":
                return False
            case _:
                return number % 100

    def made(cls: str, count: int) -> Any:
        found = native.message_class(cls)
        assert found is not None
        values = {field.name: value(field.type_name, count) for field in classes[cls]}
        return found(**values)

    return made(name, max(1, elements // max(1, len(arrays))))


def encoded(request: Any, version: int) -> bytes:
    """Return the request with its length."""
    frame = native.encode_request(request, version, 1, "stranger")
    return struct.pack(">i", len(frame)) + frame


def has_arrays(name: str) -> bool:
    """Return whether a request has elements of its own."""
    schema = native.message_schema(name)
    assert schema is not None
    fields = next(one.fields for one in schema.structs if one.name == name)
    return any(field.type_name.startswith("[]") for field in fields)


def exchange(connection: socket.socket, sent: bytes) -> int:
    """Send a request, and read the whole response; return its length. Raises OSError if the broker closes the
    connection instead."""
    connection.sendall(sent)
    left = 4
    head = b""
    while len(head) < 4:
        if not (piece := connection.recv(4 - len(head))):
            raise ConnectionResetError
        head += piece
    left = length = struct.unpack(">i", head)[0]
    buffer = bytearray(1 << 20)
    while left:
        if not (read := connection.recv_into(buffer, min(left, len(buffer)))):
            raise ConnectionResetError
        left -= read
    return int(length)


@contextlib.contextmanager
def strangers(broker: Broker, user: str, frames: Sequence[bytes], clients: int) -> Iterator[list[int]]:
    """Run clients of a user that send these requests one after the other until the block ends. They reconnect when the
    broker closes the connection, which it does if a message has too many elements. Yield the number of answered
    requests for each of them."""
    over = threading.Event()
    answered = [0] * clients
    problems: list[BaseException] = []

    def send(place: int) -> None:
        sent = itertools.cycle(frames[place % len(frames) :] + frames[: place % len(frames)])
        try:
            while not over.is_set():
                with contextlib.suppress(ConnectionError), login(broker, user) as client:
                    while not over.is_set():
                        exchange(client.plain, next(sent))
                        answered[place] += 1
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=send, args=(place,), daemon=True) for place in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield answered
    finally:
        over.set()
        for thread in threads:
            thread.join(120)
    assert not problems, problems


def waits(broker: Broker, user: str, seconds: float) -> list[float]:
    """Return the durations of repeated DescribeGroups of one group in seconds, the longest last."""
    measured = []
    with login(broker, user) as client:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            began = time.monotonic()
            answer = call(client, m.DescribeGroupsRequest(groups=["honest"]))
            measured.append(time.monotonic() - began)
            assert len(answer.groups) == 1
            time.sleep(0.01)
    return sorted(measured)
