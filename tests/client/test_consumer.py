"""Consumer against pybroker and Apache Kafka: positions, groups, identity."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import pytest

from pybroker.client import (
    AdminClient,
    CommitFailedError,
    Consumer,
    ConsumerRecord,
    KafkaError,
    NewTopic,
    NoOffsetError,
    OffsetAndMetadata,
    Producer,
    RebalanceListener,
    TopicPartition,
    TopicRecreatedError,
    Uuid,
)
from pybroker.protocol.error_codes import ErrorCode
from tests.client.conftest import known, recreate

LIMIT_S = 120.0


async def write(bootstrap: str, topic: str, *values: str, partition: int = 0) -> None:
    async with Producer({"bootstrap.servers": bootstrap}) as producer:
        await producer.send_many(topic, [value.encode() for value in values], partition=partition)


def reader(bootstrap: str, **settings: object) -> Consumer:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return Consumer(
        {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest", "fetch.max.wait.ms": 100, **named}
    )


async def values(consumer: Consumer, count: int) -> list[str]:
    found: list[ConsumerRecord] = []
    async with asyncio.timeout(LIMIT_S):
        while len(found) < count:
            found += await consumer.poll(1.0)
    return [record.value.decode() for record in found]


async def until(condition: Callable[[], bool], *consumers: Consumer) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await asyncio.gather(*(consumer.poll(0.1) for consumer in consumers))


async def test_positions(admin: AdminClient, bootstrap: str, name: str) -> None:
    await admin.create_topics([NewTopic(name, 2, 1)])
    await write(bootstrap, name, *map(str, range(10)))
    where, other = TopicPartition(name, 0), TopicPartition(name, 1)
    async with reader(bootstrap) as consumer:
        with pytest.raises(TypeError, match=r"TopicPartition\(topic, partition\), got \('"):
            consumer.assign([(name, 0)])  # type: ignore[list-item]  # a slip that pollers would meet much later
        consumer.assign([where, other])
        assert await values(consumer, 10) == [str(each) for each in range(10)]
        assert (await consumer.position(where), await consumer.position(other)) == (10, 0)
        assert consumer.lag(where) == 0
        consumer.seek(where, 7)
        assert await consumer.position(where) == 7
        assert [record.offset for record in await consumer.poll(60.0, max_records=2)] == [7, 8]
        consumer.seek_to_beginning(where)
        assert (await consumer.getone()).offset == 0
        consumer.seek_to_end(where)
        assert await consumer.position(where) == 10
        consumer.pause(where)
        consumer.seek(where, 0)
        assert await consumer.poll(0.3) == []
        assert consumer.paused() == {where}
        consumer.resume(where)
        found = await consumer.getmany(60.0, max_records=3)
        assert {key: len(records) for key, records in found.items()} == {where: 3}
        assert await consumer.beginning_offsets([where]) == {where: 0}
        assert await consumer.end_offsets([where, other]) == {where: 10, other: 0}
        assert (await consumer.offsets_for_times({where: 0}))[where] is not None
        assert await consumer.offsets_for_times({other: 0}) == {other: None}
        with pytest.raises(ValueError, match="not assigned"):
            consumer.seek(TopicPartition("other", 0), 0)
        with pytest.raises(ValueError, match=r"group\.id"):
            await consumer.commit()


async def test_iteration_moves_the_position_record_by_record(admin: AdminClient, bootstrap: str, name: str) -> None:
    await admin.create_topics([NewTopic(name, 1, 1)])
    await write(bootstrap, name, "a", "b", "c")
    where = TopicPartition(name, 0)
    async with reader(bootstrap) as consumer:
        consumer.assign([where])
        seen = []
        async for record in consumer:
            seen.append((record.value, await consumer.position(where)))
            if len(seen) == 3:
                break
    assert seen == [(b"a", 1), (b"b", 2), (b"c", 3)]


async def test_without_a_position_the_policy_decides(admin: AdminClient, bootstrap: str, name: str) -> None:
    await admin.create_topics([NewTopic(name, 1, 1)])
    await write(bootstrap, name, "old")
    where = TopicPartition(name, 0)
    async with reader(bootstrap, auto_offset_reset="latest") as consumer:
        consumer.assign([where])
        assert await consumer.position(where) == 1
    async with reader(bootstrap, auto_offset_reset="none") as consumer:
        consumer.assign([where])
        with pytest.raises(NoOffsetError, match=r"auto\.offset\.reset=none"):
            await consumer.poll(60.0)
        consumer.seek(where, 0)
        assert await values(consumer, 1) == ["old"]
        consumer.seek(where, 100)
        with pytest.raises(NoOffsetError, match="no offset 100"):
            await consumer.poll(60.0)
    async with reader(bootstrap) as consumer:
        consumer.assign([where])
        consumer.seek(where, 100)
        assert await values(consumer, 1) == ["old"]


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
async def test_members_share_and_take_over(admin: AdminClient, bootstrap: str, name: str, strategy: str) -> None:
    await admin.create_topics([NewTopic(name, 4, 1)])
    every = {TopicPartition(name, index) for index in range(4)}
    settings = {"group_id": name, "partition_assignment_strategy": strategy, "heartbeat_interval_ms": 100}
    await known(admin, name)  # otherwise the first assignment may be of a topic that does not exist yet
    told: list[tuple[str, frozenset[TopicPartition]]] = []

    class Listener(RebalanceListener):
        def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
            told.append(("assigned", partitions))

        async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
            told.append(("revoked", partitions))

    async with reader(bootstrap, **settings) as first:
        first.subscribe([name], listener=Listener())
        await until(lambda: first.assignment() == every, first)
        async with reader(bootstrap, **settings) as second:
            second.subscribe([name])
            await until(lambda: len(first.assignment()) == 2 and len(second.assignment()) == 2, first, second)
            assert first.assignment() | second.assignment() == every
            for index in range(4):
                await write(bootstrap, name, str(index), partition=index)
            found: set[bytes] = set()
            async with asyncio.timeout(60):
                while len(found) < 4:
                    for consumer in (first, second):
                        found |= {record.value for record in await consumer.poll(0.1)}
        await until(lambda: first.assignment() == every, first)
    assert told[0] == ("assigned", frozenset(every))
    revoked = [partitions for what, partitions in told if what == "revoked"]
    assert len(revoked[0]) == (2 if strategy == "cooperative-sticky" else 4)


@pytest.mark.usefixtures("patient_ends")
@pytest.mark.checklist("D31")
async def test_committed_offsets_are_where_the_next_member_starts(
    admin: AdminClient, bootstrap: str, name: str
) -> None:
    await admin.create_topics([NewTopic(name, 1, 1)])
    await write(bootstrap, name, "a", "b", "c", "d")
    where = TopicPartition(name, 0)
    async with reader(bootstrap, group_id=name, enable_auto_commit=False) as consumer:
        consumer.subscribe([name])
        assert len(await consumer.poll(60.0, max_records=2)) == 2
        await consumer.commit()
        assert (await consumer.committed([where]))[where].offset == 2
        await consumer.commit({where: OffsetAndMetadata(1, 0, "mine")})
    async with reader(bootstrap, group_id=name) as consumer:
        consumer.subscribe(name)
        assert await values(consumer, 3) == ["b", "c", "d"]
    # Closing commits the records that were read.
    assert (await admin.list_consumer_group_offsets(name))[where].offset == 4


async def test_a_pattern_and_a_static_member(admin: AdminClient, bootstrap: str, name: str) -> None:
    await admin.create_topics([NewTopic(f"{name}-a", 1, 1), NewTopic(f"{name}-b", 1, 1)])
    settings = {"group_id": name, "group_instance_id": "me", "metadata_max_age_ms": 300}
    async with reader(bootstrap, **settings) as consumer:
        consumer.subscribe(re.compile(f"{name}-.*"))
        await until(lambda: len(consumer.assignment()) == 2, consumer)
        await admin.create_topics([NewTopic(f"{name}-c", 1, 1)])
        await until(lambda: len(consumer.assignment()) == 3, consumer)
        before = consumer.group_metadata()
    async with reader(bootstrap, **settings) as consumer:
        consumer.subscribe(re.compile(f"{name}-.*"))
        await until(lambda: len(consumer.assignment()) == 3, consumer)
        after = consumer.group_metadata()
    assert before is not None
    assert after is not None
    assert before.generation <= after.generation <= before.generation + 1


async def test_a_commit_of_a_member_that_is_out_fails(admin: AdminClient, bootstrap: str, name: str) -> None:
    await admin.create_topics([NewTopic(name, 1, 1)])
    await write(bootstrap, name, "a")
    async with reader(bootstrap, group_id=name, enable_auto_commit=False) as consumer:
        consumer.subscribe([name])
        assert await values(consumer, 1) == ["a"]
        member = consumer._member
        assert member is not None
        await member.leave()
        with pytest.raises(CommitFailedError):
            await consumer.commit()
        await until(lambda: bool(consumer.assignment()), consumer)


@pytest.mark.checklist("A1", "D21", "D31", 190)
@pytest.mark.parametrize("reset", ["earliest", "latest"])
async def test_a_running_member_reads_every_incarnation_from_its_start(
    admin: AdminClient, bootstrap: str, name: str, reset: str
) -> None:
    await admin.create_topics([NewTopic(name, 1, 1)])
    ids: list[tuple[Uuid, Uuid]] = []

    class Listener(RebalanceListener):
        def on_topic_recreated(self, topic: str, old: Uuid, new: Uuid) -> None:
            assert topic == name
            ids.append((old, new))

    async with reader(bootstrap, group_id=name, auto_offset_reset=reset, heartbeat_interval_ms=100) as consumer:
        consumer.subscribe([name], listener=Listener())
        await until(lambda: bool(consumer.assignment()), consumer)
        where = TopicPartition(name, 0)
        await consumer.position(where)
        await write(bootstrap, name, "first", "second")
        assert await values(consumer, 2) == ["first", "second"]
        await consumer.commit()
        known = []
        for round_number in range(3):
            known.append(await recreate(admin, name))
            # The record is written before the consumer can know the topic: "latest" must not skip it.
            await write(bootstrap, name, f"new-{round_number}")
            async with asyncio.timeout(60):
                record = await consumer.getone()
            assert (record.value, record.offset, record.topic_id) == (f"new-{round_number}".encode(), 0, known[-1])
            await consumer.commit()
            assert (await consumer.committed([where]))[where].offset == 1
        await consumer.poll(0.1)
    assert [new for _, new in ids] == known


@pytest.mark.checklist("D31")
async def test_the_next_topic_of_the_name_has_no_committed_offsets(
    admin: AdminClient, bootstrap: str, name: str
) -> None:
    await admin.create_topics([NewTopic(name, 1, 1)])
    await write(bootstrap, name, "a", "b")
    where = TopicPartition(name, 0)
    async with reader(bootstrap, group_id=name, auto_offset_reset="none") as consumer:
        consumer.assign([where])
        consumer.seek(where, 0)
        assert await values(consumer, 2) == ["a", "b"]
        await consumer.commit()
        await recreate(admin, name)
        with pytest.raises(TopicRecreatedError, match="deleted and created again"):
            async with asyncio.timeout(60):
                await consumer.getone()
        assert await consumer.committed([where]) == {}


async def test_a_deserializer_that_fails_is_told_and_can_be_passed(
    admin: AdminClient, bootstrap: str, name: str
) -> None:
    await admin.create_topics([NewTopic(name, 1, 1)])
    await write(bootstrap, name, "1", "2", "x", "4")
    where = TopicPartition(name, 0)
    async with reader(bootstrap, value_deserializer=int) as consumer:
        consumer.assign([where])
        assert [record.value for record in await consumer.poll(60.0)] == [1, 2]
        for _ in range(2):
            with pytest.raises(KafkaError, match=f"cannot read {name}-0, offset 2:") as refused:
                await consumer.poll(60.0)
            assert isinstance(refused.value.__cause__, ValueError)
        consumer.seek(where, 3)
        assert (await consumer.getone()).value == 4


async def test_unknown_topics_and_wrong_uses_are_told(bootstrap: str, name: str) -> None:
    async with reader(bootstrap) as consumer:
        with pytest.raises(ValueError, match=r"group\.id"):
            consumer.subscribe([name])
        consumer.assign([TopicPartition("no/slash", 0)])
        with pytest.raises(KafkaError) as refused:
            await consumer.poll(60.0)
        assert refused.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION
    async with reader(bootstrap, group_id=name) as consumer:
        consumer.assign([TopicPartition(name, 0)])
        with pytest.raises(ValueError, match="unsubscribe"):
            consumer.subscribe([name])
        await consumer.unsubscribe()
        assert consumer.assignment() == frozenset()
