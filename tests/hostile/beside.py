"""Working clients beside bad input: a producer and a group's consumer that must not be affected."""

from __future__ import annotations

import threading
import time
import uuid
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.support.brokers import BrokerProcess

PATIENCE_S = 120.0
"""A generous time limit for conditions that must come true."""

PAUSE_S = 0.002
"""Pause between two records: short enough that a record is in flight at any moment, long enough not to use a whole
core."""

STEP = 20
"""Records that pass before and after the bad input, so that the clients are working when it arrives."""


class WorkingClients:
    """Produce numbered records (acks=all), and read them in a group until the block ends.

    The end of the block fails if a record was refused, lost, duplicated or out of order, or if the clients stopped
    working.
    """

    def __init__(self, broker: BrokerProcess) -> None:
        self._settings: dict[str, str | int | float | bool] = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
        self.topic = f"beside-{uuid.uuid4().hex[:8]}"
        self.sent = 0
        self.acknowledged: dict[int, bytes] = {}
        self.received: list[tuple[int, bytes]] = []
        self.problems: list[str] = []
        self._over = threading.Event()
        self._complete = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._produce, self._consume)]

    def __enter__(self) -> Self:
        admin = AdminClient(self._settings)
        admin.create_topics([NewTopic(self.topic, 1, 1)])[self.topic].result(PATIENCE_S)
        for thread in self._threads:
            thread.start()
        self.go_on()
        return self

    def go_on(self) -> None:
        """Wait until some more records have been sent, acknowledged and read."""
        acknowledged, received = len(self.acknowledged) + STEP, len(self.received) + STEP
        end = time.monotonic() + PATIENCE_S
        while len(self.acknowledged) < acknowledged or len(self.received) < received:
            assert not self.problems, self.problems
            assert time.monotonic() < end, (
                f"work stopped: {self.sent} sent, {len(self.acknowledged)} acknowledged, {len(self.received)} read"
            )
            time.sleep(PAUSE_S)

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.go_on()
        finally:
            self._over.set()
            self._threads[0].join(PATIENCE_S)
            self._complete.set()
            self._threads[1].join(PATIENCE_S)
        if kind is None:
            assert not self.problems, self.problems
            assert len(self.acknowledged) == self.sent
            assert self.received == sorted(self.acknowledged.items())
            assert [value for _, value in self.received] == [b"%d" % number for number in range(self.sent)]

    def _produce(self) -> None:
        # Without retries, every refusal and every lost connection is an error.
        producer = Producer({**self._settings, "acks": "all", "retries": 0, "linger.ms": 0, "error_cb": self._trouble})
        while not self._over.wait(PAUSE_S):
            producer.produce(self.topic, b"%d" % self.sent, on_delivery=self._delivered)
            self.sent += 1
            producer.poll(0)
        if producer.flush(PATIENCE_S):
            self.problems.append("records were neither acknowledged nor refused")

    def _delivered(self, problem: KafkaError | None, message: Message) -> None:
        if problem is not None:
            self.problems.append(f"refused: {problem}")
            return
        offset, value = message.offset(), message.value()
        assert offset is not None
        assert value is not None
        self.acknowledged[offset] = value

    def _consume(self) -> None:
        consumer = Consumer(
            {
                **self._settings,
                "group.id": self.topic,
                "auto.offset.reset": "earliest",
                "heartbeat.interval.ms": 200,
                "error_cb": self._trouble,
            }
        )
        consumer.subscribe([self.topic])
        end = None
        try:
            while not (self._complete.is_set() and len(self.received) >= len(self.acknowledged)):
                if self._complete.is_set():
                    end = end or time.monotonic() + PATIENCE_S
                    if time.monotonic() > end:
                        self.problems.append("not all records came back")
                        return
                message = consumer.poll(0.05)
                if message is None:
                    continue
                error = message.error()
                if error is not None:
                    self.problems.append(f"read: {error}")
                    return
                offset, value = message.offset(), message.value()
                assert offset is not None
                assert value is not None
                self.received.append((offset, value))
        finally:
            consumer.close()

    def _trouble(self, problem: KafkaError) -> None:
        self.problems.append(f"connection: {problem}")
