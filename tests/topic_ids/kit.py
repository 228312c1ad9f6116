"""Raw requests about topics by name and by id, shared by the tests of this folder."""

from __future__ import annotations

import itertools
import random
import struct
import time
from typing import Any

from pybroker import native
from pybroker.native import Uuid
from pybroker.protocol import messages as m
from tests.wire.client import WireClient

_numbers = itertools.count()


def unique(what: str = "topic") -> str:
    """Return a unique name."""
    return f"{what}-{next(_numbers)}"


def create(client: WireClient, name: str, partitions: int = 1, version: int = 7, **configs: str) -> Any:
    """Create a topic; return its row of the response."""
    topic = m.CreateTopicsRequest_CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[m.CreateTopicsRequest_CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    (row,) = client.call(m.CreateTopicsRequest(topics=[topic], timeout_ms=60_000), version).topics
    assert row.error_code == 0, row
    return row


def delete(client: WireClient, *topics: str | Uuid, version: int = 6) -> list[Any]:
    """Delete by name or by id; return the rows of the response."""
    states = [
        m.DeleteTopicsRequest_DeleteTopicState(name=topic)
        if isinstance(topic, str)
        else m.DeleteTopicsRequest_DeleteTopicState(topic_id=topic)
        for topic in topics
    ]
    return list(client.call(m.DeleteTopicsRequest(topics=states, timeout_ms=60_000), version).responses)


def recreate(client: WireClient, name: str, partitions: int = 1) -> Uuid:
    """Delete the topic and create it again; return the new id."""
    assert [row.error_code for row in delete(client, name)] == [0]
    topic_id: Uuid = create(client, name, partitions).topic_id
    return topic_id


def metadata(client: WireClient, version: int, *topics: str | Uuid, create: bool = False) -> Any:
    """Return the whole response to Metadata."""
    asked = [
        m.MetadataRequest_MetadataRequestTopic(name=topic)
        if isinstance(topic, str)
        else m.MetadataRequest_MetadataRequestTopic(name=None if version >= 12 else "", topic_id=topic)
        for topic in topics
    ]
    return client.call(m.MetadataRequest(topics=asked, allow_auto_topic_creation=create), version)


def batch(*values: bytes) -> bytes:
    """Return one record batch with the current time: retention could remove an old one at any moment."""
    return native.build_batch([(None, value) for value in values], int(time.time() * 1000))


_TRANSACTIONAL = 0x10


def idempotent(
    producer_id: int, sequence: int, *values: bytes, epoch: int = 0, transactional: bool = False
) -> bytes:
    """Return a batch of an idempotent producer; `transactional`: in its transaction."""
    made = bytearray(batch(*values))
    if transactional:
        struct.pack_into(">h", made, 21, struct.unpack_from(">h", made, 21)[0] | _TRANSACTIONAL)
    struct.pack_into(">qhi", made, 43, producer_id, epoch, sequence)
    struct.pack_into(">I", made, 17, native.crc32c(bytes(made[21:])))
    return bytes(made)


def once(*values: bytes) -> bytes:
    """Return a batch of a new producer: it is in a log once, however often it is sent."""
    return idempotent(1 << 50 | random.getrandbits(48), 0, *values)


def produce(client: WireClient, topic: str | Uuid, records: bytes, version: int = 13, partition: int = 0) -> Any:
    """Produce with acks=all; return the partition's row of the response."""
    data = m.ProduceRequest_TopicProduceData(
        partition_data=[m.ProduceRequest_PartitionProduceData(index=partition, records=records)]
    )
    if isinstance(topic, str):
        data.name = topic
    else:
        data.topic_id = topic
    answer = client.call(m.ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[data]), version)
    ((row,),) = [topic.partition_responses for topic in answer.responses]
    return row


def fetch_request(*topics: tuple[str | Uuid, int, int], **chosen: Any) -> m.FetchRequest:
    """Fetch (topic, offset, leader epoch or -1) of partition 0, without a session unless `chosen` has one."""
    made = []
    for topic, offset, epoch in topics:
        one = m.FetchRequest_FetchTopic(
            partitions=[
                m.FetchRequest_FetchPartition(
                    partition=0, fetch_offset=offset, current_leader_epoch=epoch, partition_max_bytes=1_000_000
                )
            ]
        )
        if isinstance(topic, str):
            one.topic = topic
        else:
            one.topic_id = topic
        made.append(one)
    return m.FetchRequest(**{"max_wait_ms": 0, "min_bytes": 0, "topics": made, **chosen})


def fetch(client: WireClient, topic: str | Uuid, offset: int = 0, version: int = 13, epoch: int = -1) -> Any:
    """Fetch; return the partition's row of the response."""
    answer = client.call(fetch_request((topic, offset, epoch)), version)
    assert answer.error_code == 0
    ((row,),) = [topic.partitions for topic in answer.responses]
    return row


def leader_epoch(client: WireClient, topic: str | Uuid) -> int:
    """Return the leader epoch of partition 0."""
    return int(metadata(client, 12, topic).topics[0].partitions[0].leader_epoch)
