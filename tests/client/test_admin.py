"""AdminClient against pybroker and Apache Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from pybroker.client import (
    AclOperation,
    AdminClient,
    AlterConfigOp,
    ConfigResource,
    KafkaError,
    NewTopic,
    OffsetAndMetadata,
    OffsetSpec,
    Producer,
    TopicCollection,
    TopicPartition,
    UnknownTopicError,
    UnsupportedVersionError,
    Uuid,
)
from pybroker.protocol.error_codes import ErrorCode
from tests.client.conftest import forgotten, known, recreate
from tests.client.fake_broker import FakeBroker


@pytest.mark.checklist(151, 152, 154, 155, 156)
async def test_create_topics(admin: AdminClient, name: str) -> None:
    result = admin.create_topics([NewTopic(name, 3, config={"retention.ms": "1000"}), NewTopic("no/slash", 1)])
    topic_id = await result.topic_id(name)
    assert topic_id
    assert (await result.num_partitions(name), await result.replication_factor(name)) == (3, 1)
    entry = (await result.config(name))["retention.ms"]
    assert (entry.value, entry.read_only, entry.sensitive, entry.is_default) == ("1000", False, False, False)
    with pytest.raises(KafkaError) as invalid:
        await result.topic_id("no/slash")
    assert invalid.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION
    with pytest.raises(KafkaError) as exists:
        await admin.create_topics([NewTopic(name)])
    assert exists.value.code == ErrorCode.TOPIC_ALREADY_EXISTS


async def test_a_failure_names_its_item(admin: AdminClient, name: str) -> None:
    created = admin.create_topics([NewTopic(f"{name}-a", 1, 1), NewTopic(f"{name}-b", 1, 99)])
    with pytest.raises(KafkaError, match=rf"INVALID_REPLICATION_FACTOR.*topic {name}-b"):
        await created
    with pytest.raises(KafkaError) as refused:
        await admin.describe_configs([ConfigResource.topic(f"{name}-never")])
    assert "ConfigResource" not in str(refused.value)
    assert str(refused.value).count(f"{name}-never") == 1
    asked: list[Awaitable[object]] = [
        admin.delete_topics([f"{name}-never"]),
        admin.describe_topics([f"{name}-never"]).all_topic_names(),
        admin.create_partitions({f"{name}-never": 3}),
    ]
    for ask in asked:
        with pytest.raises(UnknownTopicError, match=f"{name}-never"):
            await ask


# KIP-516, TopicDescription: "partitions: a list of partitions where the index represents the partition id";
# "authorizedOperations: authorized operations for this topic, or null if this is not known".
@pytest.mark.checklist(324)
async def test_a_description_lists_partitions_by_their_index(admin: AdminClient, name: str) -> None:
    await admin.create_topics([NewTopic(name, 12, 1)])
    await known(admin, name)
    described = (await admin.describe_topics([name]))[name]
    assert [each.partition for each in described.partitions] == list(range(12))
    assert described.authorized_operations is None
    told = (await admin.describe_topics([name], include_authorized_operations=True))[name].authorized_operations
    assert told is not None
    assert AclOperation.READ in told


@pytest.mark.checklist(12, 158, 159, 161, 162, 163, 165, 166, 169, 170, 171, 173, 174)
async def test_describe_topics_by_id_and_by_name(admin: AdminClient, name: str) -> None:
    topic_id = await admin.create_topics([NewTopic(name, 2, 1)]).topic_id(name)
    await known(admin, name)
    by_id = await admin.describe_topics(TopicCollection.of_topic_ids([topic_id])).all_topic_ids()
    by_name = await admin.describe_topics(TopicCollection.of_topic_names([name])).all_topic_names()
    assert by_id[topic_id] == by_name[name]
    description = by_id[topic_id]
    assert (description.name, description.topic_id, len(description.partitions)) == (name, topic_id, 2)
    assert description.partitions[1].leader in admin.cluster.nodes or description.partitions[1].leader is not None
    unknown = Uuid.random()
    result = admin.describe_topics(TopicCollection.of_topic_ids([topic_id, unknown]))
    values = result.topic_id_values()
    assert values is not None
    assert (await values[topic_id]).name == name
    with pytest.raises(KafkaError) as refused:
        await values[unknown]
    assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_ID
    # On the wire, the zero id means that there is no id: no topic has it, and it does not affect other items.
    both = admin.describe_topics(TopicCollection.of_topic_ids([topic_id, Uuid.ZERO])).topic_id_values()
    assert both is not None
    assert (await both[topic_id]).name == name
    deletion = admin.delete_topics(TopicCollection.of_topic_ids([Uuid.ZERO])).topic_id_values()
    assert deletion is not None
    for future in (both[Uuid.ZERO], deletion[Uuid.ZERO]):
        with pytest.raises(KafkaError, match=str(Uuid.ZERO)) as nobody:
            await future
        assert nobody.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION
    with pytest.raises(KafkaError) as missing:
        await admin.describe_topics([f"{name}-never"])
    assert missing.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.checklist(177, 178, 182, 183, 185, 186, 187, 189, 190)
async def test_delete_by_id_never_touches_the_next_topic_of_the_name(admin: AdminClient, name: str) -> None:
    old = await admin.create_topics([NewTopic(name, 1, 1)]).topic_id(name)
    new = await recreate(admin, name)
    await known(admin, name)
    assert new != old
    with pytest.raises(KafkaError) as refused:
        await admin.delete_topics(TopicCollection.of_topic_ids([old]))
    assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_ID
    with pytest.raises(TypeError, match="of_topic_ids"):
        admin.delete_topics([new])  # type: ignore[list-item]  # the wrong type: must raise
    assert (await admin.describe_topics([name]))[name].topic_id == new
    deleting = admin.delete_topics(TopicCollection.of_topic_ids([new]))
    values = deleting.topic_id_values()
    assert values is not None
    assert (list(values), deleting.topic_name_values()) == ([new], None)
    await deleting.all()
    await forgotten(admin, name)
    assert admin.delete_topics([name]).topic_id_values() is None


@pytest.mark.checklist(244, 314, 317, 318, "X34")
async def test_list_topics_with_ids(admin: AdminClient, bootstrap: str, name: str) -> None:
    topic_id = await admin.create_topics([NewTopic(name, 1, 1)]).topic_id(name)
    await known(admin, name)
    await admin.alter_consumer_group_offsets(name, {TopicPartition(name, 0): 0})  # this creates __consumer_offsets
    listed = await admin.list_topics()
    assert listed[name].topic_id == topic_id
    assert not listed[name].internal
    assert "__consumer_offsets" not in listed.names()
    everything = await admin.list_topics(list_internal=True)
    assert everything["__consumer_offsets"].internal
    assert everything.names_to_listings()[name] in everything.listings()


@pytest.mark.checklist(317, 318)
async def test_list_topics_asks_by_metadata_only_where_it_must() -> None:
    from pybroker.protocol import messages as m

    listing = m.ListTopicsResponse(topic_listing=[m.ListTopicsResponse_TopicListing(name="a", internal=False)])
    async with (
        FakeBroker({"ListTopicsRequest": lambda *_: listing}, {3: (0, 12), 18: (0, 4), 32142: (0, 0)}) as new,
        AdminClient({"bootstrap.servers": new.bootstrap}) as admin,
    ):
        assert list(await admin.list_topics()) == ["a"]
        assert not new.asked("MetadataRequest")
    topics = (m.MetadataResponse_MetadataResponseTopic(name="b"), m.MetadataResponse_MetadataResponseTopic(name="c"))
    topics[1].is_internal = True
    async with (
        FakeBroker({"MetadataRequest": lambda *_: old.metadata(topics=topics)}) as old,
        AdminClient({"bootstrap.servers": old.bootstrap}) as admin,
    ):
        assert list(await admin.list_topics()) == ["b"]
        assert list(await admin.list_topics(list_internal=True)) == ["b", "c"]


@pytest.mark.checklist(305)
async def test_describe_cluster(admin: AdminClient) -> None:
    described = await admin.describe_cluster()
    assert described.cluster_id
    assert described.controller in described.nodes


async def test_settings(admin: AdminClient, name: str) -> None:
    await admin.create_topics([NewTopic(name, 1, 1)])
    await known(admin, name)
    resource = ConfigResource.topic(name)
    await admin.incremental_alter_configs({resource: [AlterConfigOp("retention.ms", "77")]})
    async with asyncio.timeout(60):  # Apache Kafka responds before its brokers know it
        while True:
            described = await admin.describe_configs([resource], include_synonyms=True, include_documentation=True)
            entry = described[resource]["retention.ms"]
            if not entry.is_default:
                break
    assert entry.value == "77"
    assert entry.synonyms[0].value == "77"
    with pytest.raises(KafkaError) as refused:
        await admin.incremental_alter_configs({resource: [AlterConfigOp("retention.ms", "x")]})
    assert refused.value.code == ErrorCode.INVALID_CONFIG
    node = (await admin.describe_cluster()).nodes[0].id
    broker = ConfigResource.broker(node)
    assert (await admin.describe_configs([broker]))[broker]["log.dirs"].value


async def test_partitions_records_and_directories(admin: AdminClient, bootstrap: str, name: str) -> None:
    await admin.create_topics([NewTopic(name, 1, 1)])
    await known(admin, name)
    await admin.create_partitions({name: 2})
    async with asyncio.timeout(60):
        while len((await admin.describe_topics([name]))[name].partitions) < 2:  # noqa: ASYNC110  # no event tells
            await asyncio.sleep(0.01)
    async with Producer({"bootstrap.servers": bootstrap}) as producer:
        for value in range(5):
            await producer.send(name, str(value), partition=1, timestamp_ms=1_000_000 + value)
    where = TopicPartition(name, 1)
    found = await admin.list_offsets({where: OffsetSpec.latest(), TopicPartition(name, 0): OffsetSpec.latest()})
    assert (found[where].offset, found[TopicPartition(name, 0)].offset) == (5, 0)
    assert (await admin.list_offsets({where: OffsetSpec.for_timestamp(1_000_003)}))[where].offset == 3
    assert (await admin.list_offsets({where: OffsetSpec.max_timestamp()}))[where].offset == 4
    assert await admin.delete_records({where: 2}) == {where: 2}
    assert (await admin.list_offsets({where: OffsetSpec.earliest()}))[where].offset == 2
    with pytest.raises(KafkaError):
        await admin.delete_records({where: 100})
    directories = await admin.describe_log_dirs()
    assert any(where in each.replicas for dirs in directories.values() for each in dirs.values())
    with pytest.raises(KafkaError) as missing:
        await admin.list_offsets({TopicPartition(name, 9): OffsetSpec.latest()})
    assert missing.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_groups_and_their_offsets(admin: AdminClient, name: str) -> None:
    await admin.create_topics([NewTopic(name, 2, 1)])
    await known(admin, name)
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)
    await admin.alter_consumer_group_offsets(name, {first: 0, second: OffsetAndMetadata(0, -1, "note")})
    assert (await admin.list_consumer_group_offsets(name))[second].metadata == "note"
    assert name in {each.group_id for each in await admin.list_groups()}
    assert (await admin.describe_groups([name]))[name].state == "Empty"
    await admin.delete_consumer_group_offsets(name, [first])
    assert set(await admin.list_consumer_group_offsets(name, [first, second])) == {second}
    assert await admin.delete_groups([name]) == {name: None}
    with pytest.raises(KafkaError) as gone:
        await admin.delete_groups([name])
    assert gone.value.code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_send_gives_any_answer_and_says_what_a_broker_does_not_know(admin: AdminClient) -> None:
    from pybroker.protocol import messages as m

    answer = await admin.send(m.MetadataRequest(topics=[]))
    assert answer.brokers
    assert (await admin.send(m.DescribeClusterRequest(), node=answer.brokers[0].node_id)).cluster_id
    with pytest.raises(UnsupportedVersionError, match=r"does not support UpdateMetadata \(key 6\)"):
        await admin.send(m.UpdateMetadataRequest(), node="controller")
