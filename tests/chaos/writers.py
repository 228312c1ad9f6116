"""Idempotent producers that write ascending numbers, in order, and record the acknowledgements."""

from __future__ import annotations

import threading
import time

from confluent_kafka import KafkaError, Message, Producer

from pybroker.client import blocking
from tests.chaos.history import History, Place

PATIENCE_MS = 600_000
"""Delivery timeout. No run lasts this long with a partition that accepts no records: a record that fails is a fault."""
UNDER_WAY_MAX = 24
PAUSE_S = 0.004
KEYS = 12


class Writer(threading.Thread):
    """Write until `enough` is set, then wait until all records are acknowledged. `where` returns each record's
    partition."""

    def __init__(self, name: str, servers: str, topic: str, partitions: int, history: History) -> None:
        super().__init__(daemon=True, name=name)
        self._servers = servers
        self._topic = topic
        self._partitions = partitions
        self._history = history
        self.enough = threading.Event()
        self.begun = threading.Event()
        """Set when a record was acknowledged."""

    def run(self) -> None:
        try:
            self.write()
        except Exception as problem:
            self.complain(f"ended: {problem!r}")

    def write(self) -> None:
        """Write until the run has enough."""
        raise NotImplementedError

    def complain(self, what: str) -> None:
        """Report a failed write as a fault: a writer must never give up."""
        self._history.problems.append(f"writer {self.name}: {what}")

    def place(self, partition: int) -> Place:
        """A partition of its topic."""
        return Place(self._history.topics[self._topic], partition)


class LibrdkafkaWriter(Writer):
    """Writes with confluent-kafka and several requests in flight. `keyed`: for a compacted topic, with repeated
    keys."""

    def __init__(
        self, name: str, servers: str, topic: str, partitions: int, history: History, *, keyed: bool = False
    ) -> None:
        super().__init__(name, servers, topic, partitions, history)
        self._keyed = keyed
        self._under_way = 0

    def write(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._servers,
                "acks": "all",
                "enable.idempotence": True,
                "message.timeout.ms": PATIENCE_MS,
                "socket.timeout.ms": 8_000,
                "socket.connection.setup.timeout.ms": 2_000,
                "reconnect.backoff.max.ms": 500,
                "retry.backoff.max.ms": 200,
                "linger.ms": 2,
                "log_level": 0,
                "error_cb": self._failed,
            }
        )
        number = 0
        while not self.enough.is_set():
            if self._under_way < UNDER_WAY_MAX:
                self._send(producer, number)
                number += 1
            producer.poll(PAUSE_S)
        left = producer.flush(PATIENCE_MS / 1000)
        if left:
            self.complain(f"{left} records are neither acknowledged nor refused")

    def _send(self, producer: Producer, number: int) -> None:
        partition = number % self._partitions
        key = f"k{number // self._partitions % KEYS}" if self._keyed else None
        self._under_way += 1
        sent_at = time.monotonic()

        def told(problem: KafkaError | None, message: Message) -> None:
            self._under_way -= 1
            if problem is not None:
                self.complain(f"record {number} of partition {partition}: {problem}")
                return
            self.begun.set()
            if key is None:
                # The acknowledgement has no offset: the broker already had the record, and no longer knows its offset.
                offset = message.offset()
                self._history.acknowledge(
                    self.place(partition), -1 if offset is None else offset, f"{self.name}/{number}", sent_at
                )
            else:
                self._history.keys[self.place(partition), key] = number
                self._history.counts["acknowledged"] += 1

        producer.produce(self._topic, f"{self.name}/{number}", key, partition, on_delivery=told)

    def _failed(self, problem: KafkaError) -> None:
        if problem.fatal():
            self.complain(f"the producer cannot go on: {problem}")


class OwnWriter(Writer):
    """Writes with pybroker's own client. A record is sent when the previous one is acknowledged."""

    def write(self) -> None:
        settings = {"bootstrap.servers": self._servers, "acks": "all", "delivery.timeout.ms": PATIENCE_MS}
        number = 0
        with blocking.Producer(settings) as producer:
            while not self.enough.is_set():
                partition = number % self._partitions
                value = f"{self.name}/{number}"
                sent_at = time.monotonic()
                found = producer.send(self._topic, value.encode(), partition=partition)
                self._history.acknowledge(self.place(partition), found.offset, value, sent_at)
                self.begun.set()
                number += 1
                time.sleep(PAUSE_S)
