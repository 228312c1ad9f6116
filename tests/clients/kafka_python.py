"""kafka-python."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import kafka
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import KafkaError

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
from tests.clients.python_records import name_of, raw, received

TIMEOUT_S = 60.0
TIMEOUT_MS = int(TIMEOUT_S * 1000)
# How soon a consumer looks again for topics it does not know yet.
METADATA_MS = 1000


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except KafkaError as problem:
        raise BrokerError(name_of(type(problem)), str(problem)) from problem


class KafkaPythonMember(Member):
    """A subscribed `KafkaConsumer`."""

    def __init__(self, settings: dict[str, Any], topic: str) -> None:
        self._topic = topic
        self._consumer = kafka.KafkaConsumer(**settings)
        self._consumer.subscribe([topic])

    def poll(self, timeout_s: float) -> list[Received]:
        with _translated():
            batches = self._consumer.poll(timeout_ms=int(timeout_s * 1000))
        self._join_again_if_lost()
        return [received(record) for batch in batches.values() for record in batch]

    def _join_again_if_lost(self) -> None:
        """kafka-python 3.0.12 forgets what it was assigned, and stops, when a join that new metadata had caused ends
        between two polls: it asks whether it must join before it looks at the join that is done. A busy machine is
        enough. Nothing public heals it."""
        coordinator = self._consumer._coordinator
        join = coordinator._join_task
        if coordinator.rejoining and join is not None and join.is_done and not coordinator.need_rejoin():
            coordinator.request_rejoin()

    def assignment(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def commit(self, offsets: dict[int, int]) -> None:
        with _translated():
            self._consumer.commit(
                {
                    kafka.TopicPartition(self._topic, partition): kafka.OffsetAndMetadata(offset, "", -1)
                    for partition, offset in offsets.items()
                }
            )

    def close(self) -> None:
        self._consumer.close(autocommit=False)


class KafkaPythonProducer(Producer):
    """A `KafkaProducer`."""

    def __init__(self, settings: dict[str, Any], acknowledged: bool) -> None:
        with _translated():
            self._producer = kafka.KafkaProducer(**settings)
        self._acknowledged = acknowledged

    def send(self, topic: str, records: Sequence[Record]) -> list[int]:
        with _translated():
            sends = [
                self._producer.send(
                    topic,
                    value=raw(record.value),
                    key=raw(record.key),
                    partition=record.partition,
                    headers=[(name, value.encode()) for name, value in record.headers],
                )
                for record in records
            ]
            self._producer.flush(TIMEOUT_S)
            done = [send.get(TIMEOUT_S) for send in sends]
        return [each.offset if self._acknowledged else -1 for each in done]

    def close(self) -> None:
        self._producer.close(timeout=TIMEOUT_S)


class KafkaPython(Client):
    """kafka-python's producer, consumer and admin client."""

    name = "kafka-python"

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def create_topic(self, topic: str, partitions: int) -> None:
        with _translated():
            self._admin.create_topics([NewTopic(topic, partitions, -1)], timeout_ms=TIMEOUT_MS)

    def delete_topic(self, topic: str) -> None:
        with _translated():
            self._admin.delete_topics([topic], timeout_ms=TIMEOUT_MS)

    def producer(
        self, acks: Acks = ALL_ACKS[2], compression: str = "none", unknown_topic_ms: int = UNKNOWN_TOPIC_MS
    ) -> Producer:
        return KafkaPythonProducer(
            {
                "bootstrap_servers": self._bootstrap,
                "acks": acks.acks if acks.acks == "all" else int(acks.acks),
                "enable_idempotence": acks.idempotent,
                "compression_type": None if compression == "none" else compression,
                "linger_ms": 5,
                "max_block_ms": unknown_topic_ms,
                "max_in_flight_requests_per_connection": 5 if acks.idempotent else 1,
                "allow_auto_create_topics": False,
                "delivery_timeout_ms": TIMEOUT_MS,
                "request_timeout_ms": TIMEOUT_MS // 2,
            },
            acks.acks != "0",
        )

    def read(self, topic: str, partitions: int, count: int) -> list[Received]:
        consumer = kafka.KafkaConsumer(bootstrap_servers=self._bootstrap, enable_auto_commit=False)
        try:
            with _translated():
                everything = [kafka.TopicPartition(topic, partition) for partition in range(partitions)]
                consumer.assign(everything)
                for each in everything:
                    consumer.seek(each, 0)
                found: list[Received] = []
                give_up = time.monotonic() + TIMEOUT_S
                while len(found) < count and time.monotonic() < give_up:
                    for batch in consumer.poll(timeout_ms=500).values():
                        found.extend(received(record) for record in batch)
            return found
        finally:
            consumer.close(autocommit=False)

    def join(self, group: str, topic: str) -> Member:
        return KafkaPythonMember(
            {
                "bootstrap_servers": self._bootstrap,
                "group_id": group,
                "enable_auto_commit": False,
                "auto_offset_reset": "earliest",
                "session_timeout_ms": 30_000,
                "heartbeat_interval_ms": 300,
                "allow_auto_create_topics": False,
                "metadata_max_age_ms": METADATA_MS,
            },
            topic,
        )

    def close(self) -> None:
        self._admin.close()
