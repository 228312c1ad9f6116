"""A NativeBroker without a control plane: a few lines replace it, with a raw client."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pybroker.native import (
    BrokerMetadata,
    Completion,
    Endpoint,
    ListenerConfig,
    MetadataDelta,
    NativeBroker,
    PartitionMetadata,
    PartitionOrder,
    Request,
    TopicMetadata,
    Uuid,
    decode_response,
    encode_request,
)

BROKER_ID = 1
CLUSTER_ID = "replica-tests-cluster"
Setting = int | float | str | bool | None
"""A value of a broker setting."""

WAIT_S = 120.0
"""A generous time limit: a condition that does not hold by then never will."""


def order(
    topic_id: Uuid,
    *,
    topic: str = "t",
    partition: int = 0,
    epoch: int = 0,
    leader: int = BROKER_ID,
    is_new: bool = True,
    config: dict[str, str] | None = None,
) -> PartitionOrder:
    return PartitionOrder(
        topic_id=topic_id,
        topic=topic,
        partition=partition,
        leader=leader,
        leader_epoch=epoch,
        isr=[BROKER_ID],
        version=0,
        replicas=[BROKER_ID],
        is_new=is_new,
        config=config or {},
    )


@contextmanager
def native(log_dirs: list[Path], settings: dict[str, Any] | None = None, listen: bool = True) -> Iterator[NativeBroker]:
    """A started NativeBroker that is shut down cleanly at the end."""
    broker = NativeBroker(
        broker_id=BROKER_ID,
        cluster_id=CLUSTER_ID,
        log_dirs=[str(path) for path in log_dirs],
        settings=settings or {},
    )
    broker.log_dirs.start()
    try:
        if listen:
            listening(broker)
        yield broker
    finally:
        broker.shutdown(20_000)


def listening(broker: NativeBroker) -> int:
    """Open a listener and accept connections; return its port."""
    bound = broker.listeners.open([ListenerConfig("PLAINTEXT", "127.0.0.1", 0, "PLAINTEXT", False)])
    broker.listeners.start_accepting()
    return bound[0].port


def publish(broker: NativeBroker, port: int, topic_id: Uuid, topic: str, partitions: int, *, epoch: int = 0) -> int:
    """Make a topic visible to clients, led by this broker."""
    none: list[int] = []
    states = [PartitionMetadata(index, BROKER_ID, epoch, [BROKER_ID], [BROKER_ID], none) for index in range(partitions)]
    return broker.metadata.publish(
        MetadataDelta(
            brokers=[BrokerMetadata(BROKER_ID, None, [Endpoint("PLAINTEXT", "127.0.0.1", port)])],
            controller_id=BROKER_ID,
            topics_changed=[TopicMetadata(topic_id, topic, False, states)],
        )
    )


def drain_until(broker: NativeBroker, enough: Callable[[list[Any]], bool]) -> list[Any]:
    """Drain the queue until `enough` is true for all items so far."""
    items: list[Any] = []
    deadline = time.monotonic() + WAIT_S
    while not enough(items):
        assert time.monotonic() < deadline, f"still waiting after {len(items)} items"
        items += broker.control_queue.drain()
        time.sleep(0.001)
    return items


def completion_of(broker: NativeBroker, token: int) -> Completion:
    """Return the completion with that token."""
    items = drain_until(broker, lambda items: any(getattr(item, "token", None) == token for item in items))
    return next(item for item in items if isinstance(item, Completion) and item.token == token)


class Client:
    """One connection for messages of `pybroker.protocol.messages`."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)
        self._stream = self._socket.makefile("rb")
        self._correlation = 0

    def send(self, message: object, version: int) -> None:
        self._correlation += 1
        frame = encode_request(message, version, self._correlation, "test")
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self, api_key: int, version: int) -> Any:
        head = self._stream.read(4)
        assert len(head) == 4, "the connection was closed"
        (size,) = struct.unpack(">i", head)
        return decode_response(api_key, version, self._stream.read(size))[1]

    def call(self, message: object, api_key: int, version: int) -> Any:
        self.send(message, version)
        return self.receive(api_key, version)

    def is_closed(self) -> bool:
        """Wait for the end of the stream."""
        return self._stream.read(1) == b""

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


class ControlThread:
    """Answers requests on a separate thread, as the event loop would."""

    def __init__(self, broker: NativeBroker, answer: Callable[[Request], None]) -> None:
        self._broker = broker
        self._answer = answer
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stop.is_set():
            for item in self._broker.control_queue.drain():
                if isinstance(item, Request):
                    self._answer(item)
            self._stop.wait(0.001)

    def __enter__(self) -> ControlThread:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
