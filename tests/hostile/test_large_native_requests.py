"""Requests with hundreds of thousands of elements for the data plane: other clients of the same thread do not wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pybroker import Broker
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.hostile.large import encoded, exchange, strangers
from tests.security.kit import VERSIONS, call, login, secure_broker

STRANGER, HONEST = "stranger", "honest"
ELEMENTS = 300_000
OTHERS_A_LARGE = 50
"""Minimum number of another client's requests that are answered beside a large one. If they waited for its end, it
would be one to three."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with secure_broker([STRANGER, HONEST], {"num.network.threads": 1}) as broker:
        yield broker


def metadata(count: int) -> m.MetadataRequest:
    topics = [m.MetadataRequest_MetadataRequestTopic(name=f"none-{number:06}") for number in range(count)]
    return m.MetadataRequest(topics=topics, allow_auto_topic_creation=False)


def list_offsets(count: int) -> m.ListOffsetsRequest:
    partition = m.ListOffsetsRequest_ListOffsetsPartition(partition_index=0, timestamp=-1)
    topics = [
        m.ListOffsetsRequest_ListOffsetsTopic(name=f"none-{number:06}", partitions=[partition])
        for number in range(count // 2)
    ]
    return m.ListOffsetsRequest(topics=topics, replica_id=-1)


def epochs(count: int) -> m.OffsetForLeaderEpochRequest:
    partition = m.OffsetForLeaderEpochRequest_OffsetForLeaderPartition(partition=0, leader_epoch=1)
    topics = [
        m.OffsetForLeaderEpochRequest_OffsetForLeaderTopic(topic=f"none-{number:06}", partitions=[partition])
        for number in range(count // 2)
    ]
    return m.OffsetForLeaderEpochRequest(topics=topics, replica_id=-1)


def waits(broker: Broker, seconds: float) -> list[float]:
    """Return the durations of repeated ListOffsets of one partition."""
    took = []
    with login(broker, HONEST) as client:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            began = time.monotonic()
            call(client, list_offsets(2))
            took.append(time.monotonic() - began)
    return took


@pytest.mark.parametrize(("key", "request_of"), [(3, metadata), (2, list_offsets), (23, epochs)])
def test_others_do_not_wait(broker: Broker, key: int, request_of: Callable[[int], Any]) -> None:
    frame = encoded(request_of(ELEMENTS), VERSIONS[key])
    with strangers(broker, STRANGER, [frame], clients=2) as answered:
        took = waits(broker, 5.0)
    assert sum(answered) > 0
    assert len(took) > OTHERS_A_LARGE * sum(answered), sorted(took)[-5:]


def test_many_elements_have_the_answers_that_few_have(broker: Broker) -> None:
    """The responses are in the request's order, with the same errors. Some topics exist; invalid UTF-8 is replaced."""
    with login(broker, "root") as client:
        topic = m.CreateTopicsRequest_CreatableTopic(name="there", num_partitions=2, replication_factor=1)
        assert call(client, m.CreateTopicsRequest(topics=[topic], timeout_ms=60_000)).topics[0].error_code == 0
        for count in (3, 5_000):
            found = metadata(count)
            assert found.topics is not None
            found.topics.append(m.MetadataRequest_MetadataRequestTopic(name="there"))
            rows = call(client, found).topics
            assert [row.name for row in rows] == [topic.name for topic in found.topics]
            assert {row.error_code for row in rows[:-1]} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            assert (rows[-1].error_code, len(rows[-1].partitions)) == (0, 2)
            asked = list_offsets(2 * count)
            asked.topics[0].name = "there"
            answers = call(client, asked).topics
            assert [one.name for one in answers] == [one.name for one in asked.topics]
            assert [one.partitions[0].error_code for one in answers] == [0] + [3] * (count - 1)
            asked.topics[0].partitions[0].timestamp = 0
            assert call(client, asked).topics[0].partitions[0].error_code == 0, "it reads files"
            compared = epochs(2 * count)
            compared.topics[0].topic = "there"
            ends = call(client, compared).topics
            assert {one.topic for one in ends} == {one.topic for one in compared.topics}
        frame = bytearray(encoded(metadata(5_000), 9))
        at = frame.index(b"none-000000")
        frame[at] = 0xFF
        assert exchange(client.plain, bytes(frame)) > 5_000


def test_many_names_may_be_created(broker: Broker) -> None:
    """A large Metadata that creates topics is handled by the control plane."""
    with login(broker, "root") as client:
        names = ["new"] * 3_000 + ["b" * 249] + ["n" * 249] * 200
        topics = [m.MetadataRequest_MetadataRequestTopic(name=name) for name in names]
        known = m.MetadataRequest(topics=topics, allow_auto_topic_creation=True)
        assert len(encoded(known, VERSIONS[3])) > 32 * 1024
        rows = call(client, known).topics
        assert {row.name for row in rows} == {"new", "b" * 249, "n" * 249}


def test_a_quota_of_time_counts_large_requests(broker: Broker) -> None:
    """It counts the time that another thread has spent on them."""
    entity = m.AlterClientQuotasRequest_EntityData(entity_type="user", entity_name=STRANGER)
    limit = m.AlterClientQuotasRequest_OpData(key="request_percentage", value=1.0)
    entry = m.AlterClientQuotasRequest_EntryData(entity=[entity], ops=[limit])
    with login(broker, "root") as root:
        assert call(root, m.AlterClientQuotasRequest(entries=[entry])).entries[0].error_code == 0
    frame = encoded(metadata(ELEMENTS), VERSIONS[3])
    with login(broker, STRANGER) as client:
        for _ in range(2):
            exchange(client.plain, frame)
        assert call(client, metadata(1)).throttle_time_ms > 0
