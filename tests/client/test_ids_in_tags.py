"""AdminClient's calls by topic id for requests of Kafka that have only names, and Consumer's requests of offsets by the
known id. Clients send no ids to brokers that ignore them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pybroker.client import (
    AdminClient,
    AlterConfigOp,
    ConfigResource,
    Consumer,
    ElectionType,
    KafkaError,
    NewTopic,
    OffsetAndMetadata,
    OffsetSpec,
    Producer,
    TopicIdPartition,
    TopicPartition,
    UnsupportedVersionError,
    Uuid,
)
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.client.fake_broker import FakeBroker
from tests.support.brokers import BrokerProcess, PybrokerProcess

REFUSED = {int(ErrorCode.INCONSISTENT_TOPIC_ID), int(ErrorCode.UNKNOWN_TOPIC_ID)}
NAME = "re-created"


async def recreated(admin: AdminClient, name: str) -> tuple[Uuid, Uuid]:
    """Create a topic, delete it and create it again; return both ids, the dead one first."""
    first = await admin.create_topics([NewTopic(name)]).topic_id(name)
    await admin.delete_topics([name])
    second = await admin.create_topics([NewTopic(name)]).topic_id(name)
    return first, second


Call = Callable[[AdminClient, str, Uuid], Awaitable[Any]]


def where(name: str, topic_id: Uuid) -> TopicIdPartition:
    return TopicIdPartition(topic_id, TopicPartition(name, 0))


async def _elect(admin: AdminClient, name: str, topic_id: Uuid) -> None:
    ((asked, error),) = (await admin.elect_leaders(ElectionType.PREFERRED, [where(name, topic_id)])).items()
    assert asked == where(name, topic_id)
    assert error is not None
    if error.code != ErrorCode.ELECTION_NOT_NEEDED:
        raise error


async def _reassign(admin: AdminClient, name: str, topic_id: Uuid) -> None:
    try:
        await admin.alter_partition_reassignments({where(name, topic_id): None})
    except KafkaError as error:
        if error.code != ErrorCode.NO_REASSIGNMENT_IN_PROGRESS:
            raise


CALLS: Mapping[str, Call] = {
    "create_partitions": lambda admin, _, topic_id: admin.create_partitions({topic_id: 3}),
    "delete_records": lambda admin, name, topic_id: admin.delete_records({where(name, topic_id): 1}),
    "list_offsets": lambda admin, name, topic_id: admin.list_offsets({where(name, topic_id): OffsetSpec.latest()}),
    "elect_leaders": _elect,
    "alter_partition_reassignments": _reassign,
    "describe_configs": lambda admin, _, topic_id: admin.describe_configs([ConfigResource.topic(topic_id)]),
    "incremental_alter_configs": lambda admin, _, topic_id: admin.incremental_alter_configs(
        {ConfigResource.topic(topic_id): [AlterConfigOp("retention.ms", "77777")]}
    ),
    "delete_consumer_group_offsets": lambda admin, name, topic_id: admin.delete_consumer_group_offsets(
        f"group-of-{name}", [where(name, topic_id)]
    ),
}


@pytest.mark.checklist(233, 234, 236, 237, 239, 243, 245, "U11")
@pytest.mark.parametrize("what", CALLS)
async def test_calls_by_id(broker: BrokerProcess, what: str) -> None:
    config = {"bootstrap.servers": broker.bootstrap}
    name, call = f"{NAME}-{what}", CALLS[what]
    async with AdminClient(config) as admin:
        old, new = await recreated(admin, name)
        async with Producer(config) as producer:
            for value in ("a", "b"):
                await producer.send(name, value)
        group = f"group-of-{name}"
        await admin.alter_consumer_group_offsets(group, {TopicPartition(name, 0): OffsetAndMetadata(1)})
        with pytest.raises(KafkaError) as refused:
            await call(admin, name, old)
        assert refused.value.code in REFUSED
        first = await admin.list_offsets({TopicPartition(name, 0): OffsetSpec.earliest()})
        assert [one.offset for one in first.values()] == [0]
        assert len((await admin.describe_topics([name]))[name].partitions) == 1
        assert await admin.list_consumer_group_offsets(group)
        await call(admin, name, new)
        if what == "create_partitions":
            assert len((await admin.describe_topics([name]))[name].partitions) == 3
        if what == "delete_consumer_group_offsets":
            assert not await admin.list_consumer_group_offsets(group)
        if what == "incremental_alter_configs":
            resource = ConfigResource.topic(name)
            assert (await admin.describe_configs([resource]))[resource]["retention.ms"].value == "77777"


@pytest.fixture
def two_dirs(tmp_path: Path) -> Iterator[tuple[PybrokerProcess, list[str]]]:
    dirs = [str(tmp_path / "one"), str(tmp_path / "two")]
    broker = PybrokerProcess(tmp_path / "data", {"log.dirs": ",".join(dirs)})
    broker.start()
    yield broker, dirs
    broker.kill()


@pytest.mark.checklist(235, 238, 245, 329, "U11")
async def test_replicas_by_id(two_dirs: tuple[PybrokerProcess, list[str]]) -> None:
    broker, dirs = two_dirs
    async with AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        old, new = await recreated(admin, NAME)
        (node,) = (await admin.describe_cluster()).nodes

        async def places(topic_id: Uuid) -> list[str]:
            found = await admin.describe_log_dirs(partitions=[where(NAME, topic_id)])
            return [path for path, one in found[node.id].items() if one.replicas]

        assert await places(old) == []
        (first,) = await places(new)
        (second,) = set(dirs) - {first}
        with pytest.raises(KafkaError) as refused:
            await admin.alter_replica_log_dirs({(where(NAME, old), node.id): second})
        assert refused.value.code == ErrorCode.INCONSISTENT_TOPIC_ID
        assert await admin.alter_replica_log_dirs({(where(NAME, new), node.id): second})


class Names:
    """A broker with one topic, which reads topic ids or ignores them. It records the requests."""

    def __init__(self, *, heeds: bool) -> None:
        self.topic_id = Uuid.random()
        served = {2: (1, 7), 3: (0, 12), 18: (0, 4), 21: (0, 2), 23: (0, 4), 37: (0, 3)}
        if heeds:
            served[32148] = (0, 0)
        self.fake = FakeBroker({"MetadataRequest": self.metadata, "ListOffsetsRequest": self.list_offsets}, served)

    def metadata(self, _request: Any, _version: int) -> Any:
        partition = m.MetadataResponse_MetadataResponsePartition(
            partition_index=0, leader_id=1, leader_epoch=3, replica_nodes=[1], isr_nodes=[1]
        )
        topic = m.MetadataResponse_MetadataResponseTopic(name=NAME, topic_id=self.topic_id, partitions=[partition])
        return self.fake.metadata(topics=(topic,))

    def list_offsets(self, request: m.ListOffsetsRequest, _version: int) -> Any:
        (asked,) = request.topics
        row = m.ListOffsetsResponse_ListOffsetsPartitionResponse(partition_index=0, offset=7)
        topic = m.ListOffsetsResponse_ListOffsetsTopicResponse(
            name=asked.name, topic_id=asked.topic_id, partitions=[row]
        )
        return m.ListOffsetsResponse(topics=[topic])

    def asked(self) -> list[tuple[str, Uuid]]:
        return [
            (topic.name, topic.topic_id)
            for request, _ in self.fake.requests
            if isinstance(request, m.ListOffsetsRequest)
            for topic in request.topics
        ]


@pytest.mark.checklist("U11")
@pytest.mark.parametrize("heeds", [True, False])
async def test_a_consumer_asks_by_the_id_that_it_knows(heeds: bool) -> None:
    names = Names(heeds=heeds)
    async with names.fake as fake, Consumer({"bootstrap.servers": fake.bootstrap}) as consumer:
        assert await consumer.end_offsets([TopicPartition(NAME, 0)]) == {TopicPartition(NAME, 0): 7}
    assert set(names.asked()) == {(NAME, names.topic_id if heeds else Uuid.ZERO)}


@pytest.mark.checklist("U11")
async def test_a_broker_that_skips_the_tag_is_not_asked_by_id() -> None:
    names = Names(heeds=False)
    async with names.fake as fake, AdminClient({"bootstrap.servers": fake.bootstrap}) as admin:
        for call in ("create_partitions", "delete_records", "list_offsets"):
            with pytest.raises(UnsupportedVersionError, match="only by name"):
                await CALLS[call](admin, NAME, names.topic_id)
    assert {type(request).__name__ for request, _ in names.fake.requests} <= {"MetadataRequest", "ApiVersionsRequest"}
