"""Consumer in groups of KIP-848 (`group.protocol=consumer`), against pybroker and Apache Kafka."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.client import (
    AdminClient,
    ClientConfigError,
    CommitFailedError,
    Consumer,
    KafkaError,
    NewTopic,
    RebalanceListener,
    TopicPartition,
    Uuid,
)
from pybroker.client.blocking import Consumer as BlockingConsumer
from pybroker.client.consumer.group.consumer_protocol_member import ConsumerProtocolMember
from tests.client.conftest import known, recreate
from tests.support.brokers import PybrokerProcess

from .test_consumer import LIMIT_S, until, values, write
from .test_consumer import reader as any_reader

SOON = {"group.consumer.heartbeat.interval.ms": "200", "group.consumer.min.heartbeat.interval.ms": "100"}
OUT_SOON = {"group.consumer.session.timeout.ms": "1500", "group.consumer.min.session.timeout.ms": "1000"}

DIES = """
import os, sys
from pybroker.client.blocking import Consumer
with Consumer({"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2], "group.protocol": "consumer"}) as consumer:
    consumer.subscribe([sys.argv[3]])
    while True:
        consumer.poll(0.1)
        if consumer.assignment():
            print(len(consumer.assignment()), flush=True)
"""


def reader(bootstrap: str, group: str, **settings: object) -> Consumer:
    return any_reader(bootstrap, group_id=group, group_protocol="consumer", **settings)


class ListenerCalls(RebalanceListener):
    """The calls of a listener, in order."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, frozenset[TopicPartition]]] = []
        self.ids: list[Uuid] = []

    def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self.heard.append(("assigned", partitions))

    async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        self.heard.append(("revoked", partitions))

    def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        self.heard.append(("lost", partitions))

    def on_topic_recreated(self, topic: str, old: Uuid, new: Uuid) -> None:
        self.ids.append(new)


def member_of(consumer: Consumer) -> ConsumerProtocolMember:
    member = consumer._member
    assert isinstance(member, ConsumerProtocolMember)
    return member


async def made(admin: AdminClient, name: str, partitions: int) -> frozenset[TopicPartition]:
    await admin.create_topics([NewTopic(name, partitions, 1)])
    await known(admin, name)
    return frozenset(TopicPartition(name, index) for index in range(partitions))


async def test_members_share_and_take_over(admin: AdminClient, bootstrap: str, name: str) -> None:
    every = await made(admin, name, 4)
    told = ListenerCalls()
    async with reader(bootstrap, name) as first:
        first.subscribe([name], listener=told)
        await until(lambda: first.assignment() == every, first)
        await write(bootstrap, name, "a", "b")
        assert await values(first, 2) == ["a", "b"]
        async with reader(bootstrap, name, group_remote_assignor="range") as second:
            second.subscribe([name])
            await until(lambda: len(first.assignment()) == 2 and len(second.assignment()) == 2, first, second)
            assert first.assignment() | second.assignment() == every
            described = (await admin.describe_groups([name]))[name]
            assert len(described.members) == 2
        await until(lambda: first.assignment() == every, first)
        await first.commit()
        offset = (await first.committed(every))[TopicPartition(name, 0)].offset
        assert offset == 2 or TopicPartition(name, 0) not in told.heard[1][1]
    assert told.heard[0] == ("assigned", every)
    assert [what for what, _ in told.heard] == ["assigned", "revoked", "assigned", "revoked"]
    assert len(told.heard[1][1]) == 2
    assert told.heard[2][1] == told.heard[1][1]


@pytest.mark.usefixtures("patient_ends")
async def test_committed_offsets_are_where_the_next_member_starts(
    admin: AdminClient, bootstrap: str, name: str
) -> None:
    await made(admin, name, 1)
    await write(bootstrap, name, "a", "b", "c", "d")
    where = TopicPartition(name, 0)
    async with reader(bootstrap, name, enable_auto_commit=False) as consumer:
        consumer.subscribe([name])
        assert len(await consumer.poll(60.0, max_records=2)) == 2
        await consumer.commit()
        assert (await consumer.committed([where]))[where].offset == 2
    async with reader(bootstrap, name) as consumer:
        consumer.subscribe(name)
        assert await values(consumer, 2) == ["c", "d"]
    assert (await admin.list_consumer_group_offsets(name))[where].offset == 4


async def test_a_pattern_is_matched_by_the_coordinator_and_an_instance_is_one_member(
    admin: AdminClient, bootstrap: str, name: str
) -> None:
    await made(admin, f"{name}-a", 1)
    await made(admin, f"{name}-b", 1)
    settings = {"group_instance_id": "me"}
    async with reader(bootstrap, name, **settings) as consumer:
        consumer.subscribe(re.compile(f"{name}-.*"))
        await until(lambda: len(consumer.assignment()) == 2, consumer)
        await made(admin, f"{name}-c", 1)
        # No client requests metadata: the coordinator detects the topic.
        await until(lambda: len(consumer.assignment()) == 3, consumer)
        async with reader(bootstrap, name, **settings) as twin:
            twin.subscribe(re.compile(f"{name}-.*"))
            with pytest.raises(KafkaError, match=r"UNRELEASED_INSTANCE_ID.*group\.instance\.id=me"):
                await values(twin, 1)
    # The static member keeps its partitions while it is away.
    async with reader(bootstrap, name, **settings) as consumer:
        consumer.subscribe(re.compile(f"{name}-.*"))
        await until(lambda: len(consumer.assignment()) == 3, consumer)


async def test_a_member_that_is_out_loses_its_partitions_and_joins_anew(
    admin: AdminClient, bootstrap: str, name: str
) -> None:
    every = await made(admin, name, 2)
    await write(bootstrap, name, "a")
    told = ListenerCalls()
    async with reader(bootstrap, name, enable_auto_commit=False) as consumer:
        consumer.subscribe([name], listener=told)
        assert await values(consumer, 1) == ["a"]
        await until(lambda: consumer.assignment() == every, consumer)
        await member_of(consumer).leave()
        with pytest.raises(CommitFailedError):
            await consumer.commit()
        assert await values(consumer, 1) == ["a"]  # nothing was committed
        assert told.heard[-2:] == [("lost", every), ("assigned", every)]
        await consumer.commit()


async def test_a_commit_with_an_epoch_of_before_is_repeated_with_that_of_now(
    admin: AdminClient, bootstrap: str, name: str
) -> None:
    every = await made(admin, name, 2)
    await write(bootstrap, name, "a")
    async with reader(bootstrap, name, enable_auto_commit=False) as first:
        first.subscribe([name])
        assert await values(first, 1) == ["a"]
        await until(lambda: first.assignment() == every, first)
        before = first.group_metadata()
        assert before is not None
        async with reader(bootstrap, name, enable_auto_commit=False) as second:
            second.subscribe([name])
            await until(lambda: len(second.assignment()) == 1 and len(first.assignment()) == 1, first, second)
            now = first.group_metadata()
            assert now is not None
            assert now.generation > before.generation
            mine = next(iter(first.assignment()))
            member_of(first)._epoch = before.generation
            await first.commit({mine: 0})
            assert (await first.committed([mine]))[mine].offset == 0


@pytest.mark.parametrize("reset", ["earliest", "latest"])
async def test_a_running_member_reads_every_incarnation_from_its_start(
    admin: AdminClient, bootstrap: str, name: str, reset: str
) -> None:
    every = await made(admin, name, 1)
    told = ListenerCalls()
    async with reader(bootstrap, name, auto_offset_reset=reset) as consumer:
        consumer.subscribe([name], listener=told)
        await until(lambda: consumer.assignment() == every, consumer)
        where = TopicPartition(name, 0)
        await consumer.position(where)
        await write(bootstrap, name, "first", "second")
        assert await values(consumer, 2) == ["first", "second"]
        await consumer.commit()
        ids = []
        for number in range(2):
            ids.append(await recreate(admin, name))
            await write(bootstrap, name, f"new-{number}")
            async with asyncio.timeout(LIMIT_S):
                record = await consumer.getone()
            assert (record.value, record.offset, record.topic_id) == (f"new-{number}".encode(), 0, ids[-1])
        await until(lambda: told.ids == ids, consumer)


async def test_what_the_group_refuses_names_the_setting(bootstrap: str, name: str) -> None:
    for settings, topics, said in (
        ({"group_remote_assignor": "best"}, [name], r"UNSUPPORTED_ASSIGNOR.*group\.remote\.assignor=best"),
        ({}, re.compile("(?=a)b"), r"INVALID_REGULAR_EXPRESSION.*subscribe\('\(\?=a\)b'\)"),
    ):
        async with reader(bootstrap, name, **settings) as consumer:
            consumer.subscribe(topics)
            with pytest.raises(KafkaError, match=said) as refused:
                await values(consumer, 1)
            assert "\n" not in str(refused.value)
    for setting in ("session_timeout_ms", "heartbeat_interval_ms", "partition_assignment_strategy"):
        with pytest.raises(ClientConfigError, match=r"cannot be set with group\.protocol=consumer"):
            reader(bootstrap, name, **{setting: "range" if "strategy" in setting else 1000})
    with pytest.raises(ClientConfigError, match=r"group\.remote\.assignor cannot be set with group\.protocol=classic"):
        any_reader(bootstrap, group_id=name, group_remote_assignor="range")


async def test_a_running_classic_group_is_upgraded(admin: AdminClient, bootstrap: str, name: str) -> None:
    every = await made(admin, name, 4)
    async with any_reader(bootstrap, group_id=name, heartbeat_interval_ms=100) as old:
        old.subscribe([name])
        await until(lambda: old.assignment() == every, old)
        async with reader(bootstrap, name) as new:
            new.subscribe([name])
            await until(lambda: len(old.assignment()) == 2 and len(new.assignment()) == 2, old, new)
            assert old.assignment() | new.assignment() == every
            await write(bootstrap, name, "a")
            found: set[bytes] = set()
            async with asyncio.timeout(LIMIT_S):
                while not found:
                    for consumer in (old, new):
                        found |= {record.value for record in await consumer.poll(0.1)}
            assert found == {b"a"}
        await until(lambda: old.assignment() == every, old)


def test_the_waiting_face(bootstrap: str, name: str) -> None:
    settings = {"bootstrap.servers": bootstrap, "group.id": name, "group.protocol": "consumer"}

    async def fill() -> None:
        async with AdminClient({"bootstrap.servers": bootstrap}) as admin:
            await made(admin, name, 1)
        await write(bootstrap, name, "a", "b")

    asyncio.run(fill())
    with BlockingConsumer({**settings, "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe([name])
        found = []
        for record in consumer:
            found.append(record.value)
            if len(found) == 2:
                break
        assert found == [b"a", b"b"]
        who = consumer.group_metadata()
        assert who is not None
        assert who.generation > 0


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[PybrokerProcess]:
    """A broker for one test, with short group timeouts."""
    broker = PybrokerProcess(tmp_path / "quick", {**SOON, **OUT_SOON})
    broker.start()
    yield broker
    broker.kill()


async def test_the_partitions_of_a_killed_member_are_taken_over(quick: PybrokerProcess, name: str) -> None:
    async with AdminClient({"bootstrap.servers": quick.bootstrap}) as admin:
        every = await made(admin, name, 4)
    command = [sys.executable, "-c", DIES, quick.bootstrap, name, name]
    child = await asyncio.to_thread(subprocess.Popen, command, stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        assert await asyncio.to_thread(child.stdout.readline) == b"4\n"
        async with reader(quick.bootstrap, name) as consumer:
            consumer.subscribe([name])
            await until(lambda: len(consumer.assignment()) == 2, consumer)
            os.kill(child.pid, signal.SIGKILL)
            await until(lambda: consumer.assignment() == every, consumer)
    finally:
        child.kill()
        child.wait()


async def test_a_coordinator_that_is_killed_finds_the_same_members(quick: PybrokerProcess, name: str) -> None:
    async with AdminClient({"bootstrap.servers": quick.bootstrap}) as admin:
        every = await made(admin, name, 2)
    told = ListenerCalls()
    async with reader(quick.bootstrap, name) as consumer:
        consumer.subscribe([name], listener=told)
        await until(lambda: consumer.assignment() == every, consumer)
        before = consumer.group_metadata()
        await asyncio.to_thread(quick.restart, crash=True)
        await write(quick.bootstrap, name, "a")
        assert await values(consumer, 1) == ["a"]
        await consumer.commit()
        assert consumer.group_metadata() == before
    assert told.heard == [("assigned", every), ("revoked", every)]


async def test_a_member_that_does_not_poll_leaves(quick: PybrokerProcess, name: str) -> None:
    async with AdminClient({"bootstrap.servers": quick.bootstrap}) as admin:
        every = await made(admin, name, 1)
        told = ListenerCalls()
        async with reader(quick.bootstrap, name, max_poll_interval_ms=1000) as consumer:
            consumer.subscribe([name], listener=told)
            await until(lambda: consumer.assignment() == every, consumer)
            async with asyncio.timeout(LIMIT_S):
                while (await admin.describe_groups([name]))[name].members:  # noqa: ASYNC110  # no event tells
                    await asyncio.sleep(0.05)
            await until(lambda: len(told.heard) == 3, consumer)
        assert [what for what, _ in told.heard] == ["assigned", "lost", "assigned", "revoked"]


async def test_a_group_that_is_full_is_told(tmp_path: Path, name: str) -> None:
    broker = PybrokerProcess(tmp_path / "full", {"group.consumer.max.size": "1"})
    broker.start()
    try:
        async with AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
            every = await made(admin, name, 1)
        async with reader(broker.bootstrap, name) as first, reader(broker.bootstrap, name) as second:
            first.subscribe([name])
            await until(lambda: first.assignment() == every, first)
            second.subscribe([name])
            with pytest.raises(KafkaError, match=r"GROUP_MAX_SIZE_REACHED.*group\.id="):
                await values(second, 1)
    finally:
        broker.kill()


async def test_fenced_by_epoch_is_joined_anew(bootstrap: str, admin: AdminClient, name: str) -> None:
    every = await made(admin, name, 1)
    told = ListenerCalls()
    async with reader(bootstrap, name) as consumer:
        consumer.subscribe([name], listener=told)
        await until(lambda: consumer.assignment() == every, consumer)
        member_of(consumer)._epoch += 7
        member_of(consumer)._heartbeat_now()
        await until(lambda: [what for what, _ in told.heard] == ["assigned", "lost", "assigned"], consumer)



