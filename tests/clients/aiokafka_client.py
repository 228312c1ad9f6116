"""aiokafka, on its own event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import aiokafka
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, for_code

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
# Interval at which a consumer looks again for unknown topics.
METADATA_MS = 1000
T = TypeVar("T")


def _refuse_errors(response: Any, field: str) -> None:
    """Raise errors of single topics: aiokafka returns them instead of raising."""
    for row in getattr(response, field):
        if row[1] != 0:
            raise BrokerError(name_of(for_code(row[1])), str(row))


class _Loop:
    """An event loop in a thread: aiokafka sends heartbeats and fetches there while the test does other work."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="aiokafka", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT_S * 2)
        except KafkaError as problem:
            raise BrokerError(name_of(type(problem)), str(problem)) from problem

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT_S)
        self._loop.close()


class AiokafkaMember(Member):
    """A subscribed `AIOKafkaConsumer`."""

    def __init__(self, loop: _Loop, settings: dict[str, Any], topic: str) -> None:
        self._loop, self._topic = loop, topic

        async def start() -> aiokafka.AIOKafkaConsumer:
            consumer = aiokafka.AIOKafkaConsumer(**settings)
            # subscribe() before start() would wait for the first assignment, which needs the other members' polls.
            await consumer.start()
            consumer.subscribe([topic])
            return consumer

        self._consumer = loop.run(start())

    def poll(self, timeout_s: float) -> list[Received]:
        batches = self._loop.run(self._consumer.getmany(timeout_ms=int(timeout_s * 1000)))
        return [received(record) for batch in batches.values() for record in batch]

    def assignment(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def commit(self, offsets: dict[int, int]) -> None:
        self._loop.run(
            self._consumer.commit(
                {aiokafka.TopicPartition(self._topic, partition): offset for partition, offset in offsets.items()}
            )
        )

    def close(self) -> None:
        self._loop.run(self._consumer.stop())


class AiokafkaProducer(Producer):
    """An `AIOKafkaProducer`."""

    def __init__(self, loop: _Loop, settings: dict[str, Any], acknowledged: bool) -> None:
        self._loop, self._acknowledged = loop, acknowledged

        async def start() -> aiokafka.AIOKafkaProducer:
            producer = aiokafka.AIOKafkaProducer(**settings)
            await producer.start()
            return producer

        self._producer = loop.run(start())

    def send(self, topic: str, records: Sequence[Record]) -> list[int]:
        async def work() -> list[Any]:
            sends = [
                await self._producer.send(
                    topic,
                    value=raw(record.value),
                    key=raw(record.key),
                    partition=record.partition,
                    headers=[(name, value.encode()) for name, value in record.headers],
                )
                for record in records
            ]
            return await asyncio.gather(*sends)

        return [each.offset if self._acknowledged else -1 for each in self._loop.run(work())]

    def close(self) -> None:
        self._loop.run(self._producer.stop())


class Aiokafka(Client):
    """aiokafka's producer, consumer and admin client."""

    name = "aiokafka"

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._loop = _Loop()

    def _admin(self, work: Any) -> Any:
        async def call() -> Any:
            admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
            await admin.start()
            try:
                return await work(admin)
            finally:
                await admin.close()

        return self._loop.run(call())

    def create_topic(self, topic: str, partitions: int) -> None:
        # This client cannot leave the number of replicas to the broker.
        new = NewTopic(topic, partitions, min(3, len(self._bootstrap.split(","))))
        _refuse_errors(self._admin(lambda admin: admin.create_topics([new], timeout_ms=60_000)), "topic_errors")

    def delete_topic(self, topic: str) -> None:
        _refuse_errors(self._admin(lambda admin: admin.delete_topics([topic], timeout_ms=60_000)), "topic_error_codes")

    def producer(
        self, acks: Acks = ALL_ACKS[2], compression: str = "none", unknown_topic_ms: int = UNKNOWN_TOPIC_MS
    ) -> Producer:
        return AiokafkaProducer(
            self._loop,
            {
                "bootstrap_servers": self._bootstrap,
                "acks": acks.acks if acks.acks == "all" else int(acks.acks),
                "enable_idempotence": acks.idempotent,
                "compression_type": None if compression == "none" else compression,
                "linger_ms": 5,
                "request_timeout_ms": unknown_topic_ms,
            },
            acks.acks != "0",
        )

    def read(self, topic: str, partitions: int, count: int) -> list[Received]:
        async def work() -> list[Received]:
            consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=self._bootstrap, enable_auto_commit=False)
            await consumer.start()
            try:
                everything = [aiokafka.TopicPartition(topic, partition) for partition in range(partitions)]
                consumer.assign(everything)
                for each in everything:
                    consumer.seek(each, 0)
                found: list[Received] = []
                give_up = asyncio.get_running_loop().time() + TIMEOUT_S
                while len(found) < count and asyncio.get_running_loop().time() < give_up:
                    for batch in (await consumer.getmany(timeout_ms=500)).values():
                        found.extend(received(record) for record in batch)
                return found
            finally:
                await consumer.stop()

        return self._loop.run(work())

    def join(self, group: str, topic: str) -> Member:
        return AiokafkaMember(
            self._loop,
            {
                "bootstrap_servers": self._bootstrap,
                "group_id": group,
                "enable_auto_commit": False,
                "auto_offset_reset": "earliest",
                "session_timeout_ms": 30_000,
                "heartbeat_interval_ms": 300,
                "metadata_max_age_ms": METADATA_MS,
            },
            topic,
        )

    def close(self) -> None:
        self._loop.close()
