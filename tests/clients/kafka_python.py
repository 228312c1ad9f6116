"""kafka-python."""

from __future__ import annotations

import queue
import threading
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
# Interval at which a consumer looks again for unknown topics.
METADATA_MS = 1000
POLL_S = 0.1


VERSION = tuple(int(number) for number in kafka.__version__.split(".")[:2])
# `poll` waits for the group, whatever its timeout; commits have no leader epoch.
OLD = VERSION < (2, 1)
# The number of replicas cannot be left to the broker, and an idempotent producer has one request in flight.
BEFORE_3 = VERSION < (3, 0)


def _known(kind: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that this release knows."""
    return {name: value for name, value in settings.items() if name in kind.DEFAULT_CONFIG}


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
        self._consumer = kafka.KafkaConsumer(**_known(kafka.KafkaConsumer, settings))
        self._consumer.subscribe([topic])

    def poll(self, timeout_s: float) -> list[Received]:
        with _translated():
            batches = self._consumer.poll(timeout_ms=int(timeout_s * 1000))
        self._join_again_if_lost()
        return [received(record) for batch in batches.values() for record in batch]

    def _join_again_if_lost(self) -> None:
        """kafka-python 3.0.12 loses its assignment, and stops, when a join that new metadata had caused ends between
        two polls: it checks whether it must join before it checks the finished join. A busy machine is enough. No
        public call repairs it."""
        coordinator = self._consumer._coordinator
        join = getattr(coordinator, "_join_task", None)
        if join is not None and coordinator.rejoining and join.is_done and not coordinator.need_rejoin():
            coordinator.request_rejoin()

    def assignment(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def commit(self, offsets: dict[int, int]) -> None:
        no_epoch = () if OLD else (-1,)
        with _translated():
            self._consumer.commit(
                {
                    kafka.TopicPartition(self._topic, partition): kafka.OffsetAndMetadata(offset, "", *no_epoch)
                    for partition, offset in offsets.items()
                }
            )

    def close(self) -> None:
        self._consumer.close(autocommit=False)


class BlockingMember(KafkaPythonMember):
    """A member of an old release, whose `poll` ends only when the group has formed. Its own thread polls it, because
    the group forms only while the other members poll, too."""

    def __init__(self, settings: dict[str, Any], topic: str) -> None:
        super().__init__(settings, topic)
        self._consumer_lock = threading.Lock()
        self._results: queue.Queue[list[Received] | BrokerError] = queue.Queue()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._poll_on, name="kafka-python", daemon=True)
        self._thread.start()

    def _poll_on(self) -> None:
        while not self._closing.is_set():
            try:
                with self._consumer_lock:
                    found = super().poll(POLL_S)
            except BrokerError as problem:
                self._results.put(problem)
            else:
                if found:
                    self._results.put(found)
            time.sleep(0.001)  # locks are unfair: a commit must get the lock

    def poll(self, timeout_s: float) -> list[Received]:
        try:
            result = self._results.get(timeout=timeout_s)
        except queue.Empty:
            return []
        if isinstance(result, BrokerError):
            raise result
        return result

    def commit(self, offsets: dict[int, int]) -> None:
        with self._consumer_lock:
            super().commit(offsets)

    def close(self) -> None:
        self._closing.set()
        self._thread.join(TIMEOUT_S)
        super().close()


class KafkaPythonProducer(Producer):
    """A `KafkaProducer`."""

    def __init__(self, settings: dict[str, Any], acknowledged: bool) -> None:
        with _translated():
            self._producer = kafka.KafkaProducer(**_known(kafka.KafkaProducer, settings))
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
            replicas = min(3, len(self._bootstrap.split(","))) if BEFORE_3 else -1
            self._admin.create_topics([NewTopic(topic, partitions, replicas)], timeout_ms=TIMEOUT_MS)

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
                "max_in_flight_requests_per_connection": 5 if acks.idempotent and not BEFORE_3 else 1,
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
        return (BlockingMember if OLD else KafkaPythonMember)(
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
