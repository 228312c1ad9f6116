"""Producer and Consumer name topics by id if the broker reads ids: the requests, as a fake broker records them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from pybroker.client import AdminClient, Consumer, NewTopic, Producer, TopicPartition, Uuid
from pybroker.client.connection.broker_connection import BrokerConnection
from pybroker.native import build_batch
from pybroker.protocol import messages as m
from tests.client.fake_broker import FakeBroker
from tests.support.brokers import BrokerProcess

NAME = "a-name-that-is-told-by-metadata-only"
BY_ID, BY_NAME = 13, 12
RECORDS = build_batch([(None, b"v")], 1)


class Broker:
    """A broker that leads the topic's only partition and has one record."""

    def __init__(self, highest: int) -> None:
        self.topic_id = Uuid.random()
        self.fake = FakeBroker(
            {"MetadataRequest": self.metadata, "FetchRequest": self.fetch, "ProduceRequest": self.produce},
            {0: (3, highest), 1: (4, highest), 3: (0, 12), 18: (0, 4)},
        )

    def metadata(self, request: Any, version: int) -> Any:
        partition = m.MetadataResponse_MetadataResponsePartition(
            partition_index=0, leader_id=1, leader_epoch=3, replica_nodes=[1], isr_nodes=[1]
        )
        topic = m.MetadataResponse_MetadataResponseTopic(name=NAME, topic_id=self.topic_id, partitions=[partition])
        return self.fake.metadata(topics=(topic,))

    def fetch(self, request: m.FetchRequest, version: int) -> Any:
        topics = [
            m.FetchResponse_FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    m.FetchResponse_PartitionData(
                        partition_index=0, high_watermark=1, last_stable_offset=1, records=RECORDS
                    )
                ],
            )
            for topic in request.topics
        ]
        return m.FetchResponse(session_id=0, responses=topics)

    def produce(self, request: m.ProduceRequest, version: int) -> Any:
        row = m.ProduceResponse_PartitionProduceResponse(index=0, base_offset=7)
        topics = [
            m.ProduceResponse_TopicProduceResponse(name=one.name, topic_id=one.topic_id, partition_responses=[row])
            for one in request.topic_data
        ]
        return m.ProduceResponse(responses=topics)

    def sent(self, kind: str) -> set[tuple[int, str, Uuid]]:
        """Return version, name and id of all topics in requests of a kind."""
        found = set()
        for request, version in self.fake.requests:
            if type(request).__name__ == kind:
                for topic in request.topics if kind == "FetchRequest" else request.topic_data:
                    found.add((version, topic.topic if kind == "FetchRequest" else topic.name, topic.topic_id))
        return found


@pytest.mark.parametrize("highest", [BY_ID, BY_NAME])
async def test_a_producer(highest: int) -> None:
    broker = Broker(highest)
    async with (
        broker.fake as fake,
        Producer({"bootstrap.servers": fake.bootstrap, "enable.idempotence": False}) as producer,
        asyncio.timeout(60),
    ):
        assert (await producer.send(NAME, "v")).offset == 7
    expected = ("", broker.topic_id) if highest == BY_ID else (NAME, Uuid.ZERO)
    assert broker.sent("ProduceRequest") == {(highest, *expected)}


@pytest.mark.parametrize("highest", [BY_ID, BY_NAME])
async def test_a_consumer(highest: int) -> None:
    """The broker keeps no fetch session, like a broker whose cache is full: the consumer still reads every response."""
    broker = Broker(highest)
    async with (
        broker.fake as fake,
        Consumer({"bootstrap.servers": fake.bootstrap, "enable.auto.commit": False}) as consumer,
        asyncio.timeout(60),
    ):
        where = TopicPartition(NAME, 0)
        consumer.assign([where])
        consumer.seek(where, 0)
        record = await consumer.getone()
        assert (record.topic, record.topic_id, record.offset) == (NAME, broker.topic_id, 0)
    expected = ("", broker.topic_id) if highest == BY_ID else (NAME, Uuid.ZERO)
    assert broker.sent("FetchRequest") == {(highest, *expected)}


TOPICS_OF: Mapping[type, Callable[[Any], Iterable[Any]]] = {
    m.ProduceRequest: lambda request: request.topic_data,
    m.FetchRequest: lambda request: request.topics,
    m.ListOffsetsRequest: lambda request: request.topics,
    m.OffsetForLeaderEpochRequest: lambda request: request.topics,
    m.OffsetCommitRequest: lambda request: request.topics,
    m.OffsetFetchRequest: lambda request: request.groups[0].topics,
}


@pytest.mark.checklist(28, 246, "U11")
async def test_all_requests_about_records_and_positions_carry_the_id(
    product: BrokerProcess, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests of a producer, and of a group member before and after a restart. In Kafka's protocol the responses to
    Produce, Fetch, OffsetCommit and OffsetFetch name topics by id only; the other requests carry it in pybroker's tag.
    """
    asked: dict[type, set[tuple[Uuid, int]]] = {}
    start = BrokerConnection.start

    def listening(connection: BrokerConnection, message: Any, version: int | None = None) -> Any:
        if type(message) in TOPICS_OF:
            chosen = connection.highest(type(message)) if version is None else version
            found = {(topic.topic_id, chosen) for topic in TOPICS_OF[type(message)](message)}
            asked.setdefault(type(message), set()).update(found)
        return start(connection, message, version)

    monkeypatch.setattr(BrokerConnection, "start", listening)
    config = {"bootstrap.servers": product.bootstrap}
    async with AdminClient(config) as admin:
        created = admin.create_topics([NewTopic(name), NewTopic(f"{name}-2")])
        ids = [await created.topic_id(each) for each in (name, f"{name}-2")]
    async with Producer(config) as producer:
        for each in (name, f"{name}-2"):
            await producer.send(each, "v")
        assert sorted(producer.cluster.topic_ids()) == sorted(ids)
    group = {**config, "group.id": name, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    where = TopicPartition(name, 0)
    for expected in ([b"v"], []):
        async with Consumer(group) as consumer, asyncio.timeout(60):
            consumer.subscribe([name])
            assert [(await consumer.getone()).value for _ in expected] == expected
            while where not in consumer.assignment():
                assert await consumer.poll(0.1) == []
            assert await consumer.position(where) == (await consumer.end_offsets([where]))[where] == 1
            await consumer.commit()
    # From these versions on, Kafka's protocol names topics by id alone.
    by_id: dict[type, int] = {m.ProduceRequest: 13, m.FetchRequest: 13}
    by_id |= {m.OffsetCommitRequest: 10, m.OffsetFetchRequest: 10}
    assert asked.keys() >= {*by_id, m.ListOffsetsRequest}
    for kind, found in asked.items():
        assert {topic_id for topic_id, _ in found} <= set(ids), kind
        assert min(version for _, version in found) >= by_id.get(kind, 0), kind
