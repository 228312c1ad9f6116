"""ShareConsumer, against pybroker and Apache Kafka."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pybroker.client import (
    AcknowledgeType,
    AdminClient,
    AlterConfigOp,
    ClientConfigError,
    ConfigResource,
    ConfigResourceType,
    ConsumerRecord,
    ErrorCode,
    KafkaError,
    NewTopic,
    ShareConsumer,
    TopicPartition,
    Uuid,
    blocking,
)
from pybroker.client.share.acknowledgements import batches
from pybroker.client.share.acquired_records import decode_acquired
from pybroker.native import NativeError

from .test_consumer import LIMIT_S, write

ACCEPT, RELEASE, REJECT = AcknowledgeType
EXPLICIT = {"share.acknowledgement.mode": "explicit"}


@pytest.fixture
async def jobs(admin: AdminClient, bootstrap: str, name: str) -> Callable[..., ShareConsumer]:
    """Create a topic of two partitions with `name`. Yield a function that starts members of the group of the same name,
    which begins at the topic's start."""
    await admin.create_topics([NewTopic(name, 2, 1)])
    await admin.incremental_alter_configs(
        {ConfigResource(ConfigResourceType.GROUP, name): [AlterConfigOp("share.auto.offset.reset", "earliest")]}
    )

    def member(**settings: Any) -> ShareConsumer:
        consumer = ShareConsumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": name,
                "fetch.max.wait.ms": 100,
                "value.deserializer": bytes.decode,
                **{key.replace("_", "."): value for key, value in settings.items()},
            }
        )
        consumer.subscribe(name)
        return consumer

    return member


async def take(consumer: ShareConsumer, count: int) -> list[ConsumerRecord]:
    """Return the records of several polls."""
    found: list[ConsumerRecord] = []
    async with asyncio.timeout(LIMIT_S):
        while len(found) < count:
            found += await consumer.poll(1.0)
    return found


async def test_members_share_what_there_is(jobs: Any, bootstrap: str, name: str) -> None:
    sent = [f"{partition}:{index}" for partition in range(2) for index in range(50)]
    for partition in range(2):
        await write(bootstrap, name, *sent[partition * 50 : partition * 50 + 50], partition=partition)
    seen: Counter[str] = Counter()
    async with jobs(max_poll_records=10, share_acquire_mode="record_limit") as one, jobs(max_poll_records=10) as other:
        async with asyncio.timeout(LIMIT_S):
            while len(seen) < 100:
                for records in await asyncio.gather(one.poll(0.2), other.poll(0.2)):
                    seen.update(record.value for record in records)
        assert one.metrics()["rebalance-total"] >= 1
    assert seen == Counter(sent)
    await write(bootstrap, name, "last")
    async with jobs() as again:
        async for record in again:
            assert (record.value, again.delivery_count(record)) == ("last", 1)
            break
        results = await again.commit()
        assert results == {TopicPartition(name, 0): None}


async def test_released_records_come_again_and_rejected_ones_do_not(jobs: Any, bootstrap: str, name: str) -> None:
    await write(bootstrap, name, *map(str, range(10)))
    async with jobs(**EXPLICIT) as consumer:
        first: list[ConsumerRecord] = []
        async with asyncio.timeout(LIMIT_S):
            while not first:
                first = await consumer.poll(1.0)
        assert [record.value for record in first] == [str(index) for index in range(10)]
        with pytest.raises(RuntimeError, match="offset 0, must be acknowledged first"):
            await consumer.poll(0.1)
        for record in first:
            consumer.acknowledge(record, (ACCEPT, RELEASE, REJECT)[record.offset % 3])
        with pytest.raises(ValueError, match="offset 3, is not acquired by this consumer"):
            consumer.acknowledge(first[3])
        assert await consumer.commit() == {TopicPartition(name, 0): None}
        second: list[ConsumerRecord] = []
        async with asyncio.timeout(LIMIT_S):
            while len(second) < 3:
                for record in await consumer.poll(1.0):
                    assert consumer.delivery_count(record) == 2
                    consumer.acknowledge(record)
                    second.append(record)
        assert [record.offset for record in second] == [1, 4, 7]


async def test_what_was_not_acknowledged_is_given_back_at_the_end(jobs: Any, bootstrap: str, name: str) -> None:
    await write(bootstrap, name, "one", "two")

    async def fails_at_the_second() -> None:
        async with jobs() as consumer:
            async for record in consumer:
                assert record.value == "one"

    with pytest.raises(AssertionError, match="two"):
        await fails_at_the_second()
    async with jobs() as consumer:
        async for record in consumer:
            assert (record.value, consumer.delivery_count(record)) == ("two", 2)
            break


async def test_locks_are_renewed(jobs: Any, bootstrap: str, name: str) -> None:
    await write(bootstrap, name, "slow")
    async with jobs(**EXPLICIT) as consumer:
        async for record in consumer:
            await consumer.renew(record)
            consumer.acknowledge(record)
            break
        assert await consumer.commit() == {TopicPartition(name, 0): None}
        with pytest.raises(ValueError, match="is not acquired by this consumer"):
            await consumer.renew(record)


async def test_a_record_that_cannot_be_read_is_released_and_said(jobs: Any, bootstrap: str, name: str) -> None:
    await write(bootstrap, name, "1", "two", "3")
    async with jobs(value_deserializer=int, max_poll_records=10) as consumer:
        assert [record.value for record in await take(consumer, 2)] == [1, 3]
        with pytest.raises(KafkaError, match="offset 1, which was released"):
            await consumer.poll(LIMIT_S)


async def test_without_asyncio(jobs: Any, bootstrap: str, name: str) -> None:
    await write(bootstrap, name, "one", "two")

    def read() -> list[bytes]:
        with blocking.ShareConsumer({"bootstrap.servers": bootstrap, "group.id": name, **EXPLICIT}) as consumer:
            consumer.subscribe([name])
            found = []
            for record in consumer:
                assert consumer.delivery_count(record) == 1
                consumer.acknowledge(record)
                found.append(record.value)
                if len(found) == 2:
                    break
            assert consumer.commit() == {TopicPartition(name, 0): None}
            assert consumer.metrics()["acknowledgements-send-total"] == 2
            return found

    assert await asyncio.to_thread(read) == [b"one", b"two"]


async def test_what_cannot_be(bootstrap: str, name: str) -> None:
    with pytest.raises(ClientConfigError, match=r"group\.id is not set"):
        ShareConsumer({"bootstrap.servers": bootstrap})
    with pytest.raises(ClientConfigError, match=r"unknown setting auto\.offset\.reset"):
        ShareConsumer({"bootstrap.servers": bootstrap, "group.id": name, "auto.offset.reset": "earliest"})
    async with ShareConsumer({"bootstrap.servers": bootstrap, "group.id": name}) as consumer:
        with pytest.raises(RuntimeError, match="acknowledges records automatically"):
            consumer.acknowledge(ConsumerRecord("t", 0, 0))


def test_offsets_in_a_row_are_said_as_one() -> None:
    make = lambda **row: tuple(row.values())  # noqa: E731
    assert batches({3: 1, 1: 1, 2: 1, 7: 1, 8: 2}, make) == [(1, 3, [1]), (7, 8, [1, 2])]


def test_compacted_and_damaged_records_are_answered_at_once() -> None:
    class Decoder:
        def decode(self, records: Any, at: int, **_: Any) -> Any:
            error = NativeError(ErrorCode.CORRUPT_MESSAGE, "damaged") if at <= 2 else None
            offsets = [offset for offset in (0, 1) if offset >= at] if error else [4, 9]
            return SimpleNamespace(
                records=[ConsumerRecord("t", 0, offset) for offset in offsets], next_offset=2, error=error
            )

    row = SimpleNamespace(
        records=b"",
        partition_index=0,
        acquired_records=[SimpleNamespace(first_offset=0, last_offset=5, delivery_count=3)],
    )
    found = decode_acquired(Decoder(), row, topic="t", topic_id=Uuid.ZERO)  # type: ignore[arg-type]
    assert [(record.offset, count) for record, count in found.records] == [(0, 3), (1, 3), (4, 3)]
    assert found.answered == {2: REJECT, 3: 0, 5: 0}
    assert found.problem is not None
    assert found.problem.code == ErrorCode.CORRUPT_MESSAGE
