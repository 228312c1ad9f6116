"""Share groups of topics that are deleted and undeleted, or truncated: they continue at their positions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest

from pybroker.client import (
    AdminClient,
    NewTopic,
    Producer,
    ShareConsumer,
    TopicCollection,
    TopicPartition,
    Uuid,
    deletion_impact,
)
from tests.conftest import StartBroker
from tests.groups.kit import WAIT_S, unique
from tests.support.brokers import BrokerProcess


class World(NamedTuple):
    broker: BrokerProcess
    admin: AdminClient
    topic: str
    group: str

    async def write(self, *values: str) -> None:
        async with Producer({"bootstrap.servers": self.broker.bootstrap}) as producer:
            await producer.send_many(self.topic, [value.encode() for value in values], partition=0)

    async def read(self, count: int, topic: str = "") -> list[str]:
        """Return the records that a member receives. It accepts each of them, and leaves after `count`."""
        settings = {
            "bootstrap.servers": self.broker.bootstrap,
            "group.id": self.group,
            "max.poll.records": 1,
            "share.acknowledgement.mode": "explicit",
            "value.deserializer": bytes.decode,
        }
        values: list[str] = []
        async with ShareConsumer(settings) as consumer, asyncio.timeout(WAIT_S):
            consumer.subscribe(topic or self.topic)
            async for record in consumer:
                values.append(record.value)
                consumer.acknowledge(record)
                if len(values) == count:
                    break
            await consumer.commit()
        return values

    async def topic_id(self) -> Uuid:
        described = await self.admin.describe_topics(TopicCollection.of_topic_names([self.topic]))
        return described[self.topic].topic_id

    async def positions(self) -> dict[TopicPartition, int]:
        return {at: one.start_offset for at, one in (await self.admin.list_share_group_offsets(self.group)).items()}


@pytest.fixture
async def world(start_broker: StartBroker) -> AsyncIterator[World]:
    """A group that has accepted the first four of eight records. Without stored state it would start at the end
    (`share.auto.offset.reset`)."""
    broker = start_broker()
    async with AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        made = World(broker, admin, unique("topic"), unique("group"))
        await admin.create_topics([NewTopic(made.topic, 1, 1)])
        await made.write(*map(str, range(8)))
        await admin.alter_share_group_offsets(made.group, {TopicPartition(made.topic, 0): 0})
        assert await made.read(4) == ["0", "1", "2", "3"]
        yield made


@pytest.mark.checklist("U7")
async def test_an_undeleted_topic_has_its_share_groups_again(world: World) -> None:
    topic_id = await world.topic_id()
    await world.admin.delete_topics([world.topic])
    assert await world.positions() == {}
    await world.admin.undelete_topics([topic_id])
    assert await world.positions() == {TopicPartition(world.topic, 0): 4}
    await world.write("8")
    assert await world.read(5) == ["4", "5", "6", "7", "8"]


@pytest.mark.checklist("U7")
async def test_it_has_them_under_another_name_and_after_a_restart(world: World) -> None:
    topic_id = await world.topic_id()
    await world.admin.delete_topics([world.topic])
    await world.admin.create_topics([NewTopic(world.topic, 1, 1)])
    world.broker.restart(crash=True)
    other = unique("other")
    await world.admin.undelete_topics({topic_id: other})
    assert await world.read(4, other) == ["4", "5", "6", "7"]
    assert await world.positions() == {TopicPartition(other, 0): 8}


async def test_a_topic_that_is_truncated_with_its_offsets_has_them_from_its_first_record_on(world: World) -> None:
    await world.admin.truncate_topics([world.topic], keep_offsets=True)
    await world.write("new 1", "new 2")
    assert await world.read(2) == ["new 1", "new 2"]
    assert await world.positions() == {TopicPartition(world.topic, 0): 10}


async def test_a_dry_run_counts_share_groups(world: World) -> None:
    impact = await deletion_impact(world.admin, world.topic)
    assert impact.groups is not None
    assert [(one.group, one.partitions, one.lag) for one in impact.groups] == [(world.group, 1, 4)]
