"""confluent-kafka: librdkafka under Python."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.clients.api import (
    ALL_ACKS,
    UNKNOWN_TOPIC_MS,
    Acks,
    BrokerError,
    Client,
    Member,
    Producer,
    Received,
    Record,
)

TIMEOUT_S = 60.0
# Interval at which a consumer looks again for unknown topics.
METADATA_MS = 1000
FETCH_BACKOFF_SINCE = 0x02020000
# librdkafka has its own names for a few codes.
_KAFKA_NAMES = {"TOPIC_EXCEPTION": "INVALID_TOPIC_EXCEPTION", "UNKNOWN_TOPIC_OR_PART": "UNKNOWN_TOPIC_OR_PARTITION"}


def _error(error: ck.KafkaError) -> BrokerError:
    name = error.name().lstrip("_")
    return BrokerError(_KAFKA_NAMES.get(name, name), error.str())


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except ck.KafkaException as problem:
        raise _error(problem.args[0]) from problem


def _text(raw: str | bytes | None) -> str | None:
    return raw.decode() if isinstance(raw, bytes) else raw


def _received(message: ck.Message) -> Received:
    problem = message.error()
    if problem is not None:
        raise _error(problem)
    partition, offset = message.partition(), message.offset()
    assert partition is not None, "only error events have no partition"
    assert offset is not None, "only error events have no offset"
    pairs = cast("list[tuple[str, bytes]]", message.headers() or [])
    headers = tuple((name, value.decode()) for name, value in pairs)
    return Received(partition, offset, _text(message.key()), _text(message.value()), headers)


class ConfluentMember(Member):
    """A subscribed `Consumer`."""

    def __init__(self, settings: dict[str, Any], topic: str) -> None:
        self._topic = topic
        self._consumer = ck.Consumer(settings)
        self._consumer.subscribe([topic])
        self._problems: list[BrokerError] = []

    def poll(self, timeout_s: float) -> list[Received]:
        if self._problems:
            raise self._problems.pop(0)
        found = []
        for message in self._consumer.consume(500, timeout_s):
            try:
                found.append(_received(message))
            except BrokerError as problem:
                self._problems.append(problem)  # for the next poll: records that came with it are not lost
        return found

    def assignment(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def commit(self, offsets: dict[int, int]) -> None:
        wanted = [ck.TopicPartition(self._topic, partition, offset) for partition, offset in offsets.items()]
        with _translated():
            self._consumer.commit(offsets=wanted, asynchronous=False)

    def close(self) -> None:
        # Unassign everything first: otherwise a close that reports revoked partitions sometimes asks librdkafka's main
        # thread for the group's protocol after that thread has stopped responding, and waits forever.
        self._consumer.unsubscribe()
        give_up = time.monotonic() + TIMEOUT_S
        while self._consumer.assignment() and time.monotonic() < give_up:
            self._consumer.poll(0.02)
        self._consumer.close()


class ConfluentProducer(Producer):
    """A `Producer`."""

    def __init__(self, settings: dict[str, Any], acknowledged: bool) -> None:
        self._producer = ck.Producer(settings)
        self._acknowledged = acknowledged

    def send(self, topic: str, records: Sequence[Record]) -> list[int]:
        offsets = [-1] * len(records)
        problems: list[ck.KafkaError] = []

        def delivered(index: int) -> Any:
            def report(problem: ck.KafkaError | None, message: ck.Message) -> None:
                if problem is not None:
                    problems.append(problem)
                else:
                    offset = message.offset()
                    offsets[index] = -1 if offset is None or not self._acknowledged else offset

            return report

        for index, record in enumerate(records):
            self._producer.produce(
                topic,
                partition=record.partition,
                key=record.key,
                value=record.value,
                headers=[(name, value.encode()) for name, value in record.headers],
                on_delivery=delivered(index),
            )
            self._producer.poll(0)
        left = self._producer.flush(TIMEOUT_S)
        if problems:
            raise _error(problems[0])
        assert left == 0, f"{left} records were not delivered in time"
        return offsets

    def close(self) -> None:
        self._producer.flush(TIMEOUT_S)


class Confluent(Client):
    """librdkafka's producer, consumer and admin client."""

    name = "confluent-kafka"

    def __init__(self, bootstrap: str) -> None:
        self._common: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 2}
        self._admin = AdminClient(self._common)

    def create_topic(self, topic: str, partitions: int) -> None:
        wanted = NewTopic(topic, num_partitions=partitions, replication_factor=-1)
        with _translated():
            self._admin.create_topics([wanted], operation_timeout=TIMEOUT_S)[topic].result(TIMEOUT_S)

    def delete_topic(self, topic: str) -> None:
        with _translated():
            self._admin.delete_topics([topic], operation_timeout=TIMEOUT_S)[topic].result(TIMEOUT_S)

    def producer(
        self, acks: Acks = ALL_ACKS[2], compression: str = "none", unknown_topic_ms: int = UNKNOWN_TOPIC_MS
    ) -> Producer:
        return ConfluentProducer(
            {
                **self._common,
                "acks": acks.acks,
                "enable.idempotence": acks.idempotent,
                "compression.type": compression,
                "linger.ms": 5,
                "message.timeout.ms": int(TIMEOUT_S * 1000),
                # Without idempotence a retry of one of several requests in flight would reorder records.
                "max.in.flight.requests.per.connection": 5 if acks.idempotent else 1,
                # Time for which a new topic may be unknown before producing to it is an error.
                "topic.metadata.propagation.max.ms": min(unknown_topic_ms, 3000),
            },
            acks.acks != "0",
        )

    def read(self, topic: str, partitions: int, count: int) -> list[Received]:
        consumer = ck.Consumer(
            {
                **self._common,
                "group.id": "not-used",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                **({"fetch.queue.backoff.ms": 5} if ck.libversion()[1] >= FETCH_BACKOFF_SINCE else {}),
            }
        )
        try:
            consumer.assign([ck.TopicPartition(topic, partition, 0) for partition in range(partitions)])
            found: list[Received] = []
            give_up = time.monotonic() + TIMEOUT_S
            while len(found) < count and time.monotonic() < give_up:
                found.extend(_received(message) for message in consumer.consume(1000, 0.5))
            return found
        finally:
            consumer.close()

    def end_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        """Return the offset that the next record of each partition will get."""
        consumer = ck.Consumer({**self._common, "group.id": "not-used"})
        try:
            with _translated():
                return {
                    partition: consumer.get_watermark_offsets(ck.TopicPartition(topic, partition), TIMEOUT_S)[1]
                    for partition in range(partitions)
                }
        finally:
            consumer.close()

    def join(self, group: str, topic: str) -> Member:
        return ConfluentMember(
            {
                **self._common,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 30_000,
                "heartbeat.interval.ms": 300,
                "allow.auto.create.topics": False,
                "topic.metadata.refresh.interval.ms": METADATA_MS,
            },
            topic,
        )

    def close(self) -> None:
        pass
