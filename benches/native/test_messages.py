"""Fetch and Produce in the broker's codecs: names (version 12, the last with them) against topic ids (13).

The typed codecs that serve the sockets, for topics of one partition and names of 30 characters. A message has at most
400,000 elements (`ELEMENTS_MAX`): more than 100,000 partitions need several messages.
"""

from __future__ import annotations

from typing import Any

import pytest

from benches.native.topics import COUNTS, topics
from pybroker.native import HotResponse, TopicPartitions, Uuid, build_batch, decode_hot, encode
from pybroker.protocol import messages

IN_ONE_MAX = 100_000
VERSIONS = {"name": 12, "id": 13}
FETCH, PRODUCE = 1, 0
KEYS = {"Fetch": FETCH, "Produce": PRODUCE}
RECORDS = build_batch([(None, b"v" * 100)], 0)


def parts(count: int) -> list[list[tuple[Uuid, str]]]:
    """Return the topics of each message."""
    every = topics(count)
    return [every[start : start + IN_ONE_MAX] for start in range(0, count, IN_ONE_MAX)]


def fetch(some: list[tuple[Uuid, str]]) -> messages.FetchRequest:
    """Return a Fetch of partition 0 of each topic."""
    return messages.FetchRequest(
        max_wait_ms=500,
        topics=[
            messages.FetchRequest_FetchTopic(
                topic=name,
                topic_id=topic_id,
                partitions=[messages.FetchRequest_FetchPartition(partition=0, partition_max_bytes=1 << 20)],
            )
            for topic_id, name in some
        ],
    )


def produce(some: list[tuple[Uuid, str]]) -> messages.ProduceRequest:
    """Return a Produce of one 100-byte record to each topic."""
    return messages.ProduceRequest(
        acks=-1,
        topic_data=[
            messages.ProduceRequest_TopicProduceData(
                name=name,
                topic_id=topic_id,
                partition_data=[messages.ProduceRequest_PartitionProduceData(index=0, records=RECORDS)],
            )
            for topic_id, name in some
        ],
    )


MAKERS: dict[str, Any] = {"Fetch": fetch, "Produce": produce}


@pytest.mark.parametrize("by", VERSIONS)
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("message", KEYS)
def test_requests_are_decoded(benchmark: Any, message: str, count: int, by: str) -> None:
    """From a request's bytes to the server's structure."""
    key, version = KEYS[message], VERSIONS[by]
    bodies = [encode(MAKERS[message](part), version) for part in parts(count)]
    benchmark.group = f"decode {message} requests"
    benchmark.extra_info["bytes"] = sum(map(len, bodies))
    assert benchmark(lambda: sum(decode_hot(key, version, body, True) for body in bodies)) == count


@pytest.mark.parametrize("by", VERSIONS)
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("message", KEYS)
def test_responses_are_encoded(benchmark: Any, message: str, count: int, by: str) -> None:
    """Encodes the server's response around the records; it has no records here."""
    key, version = KEYS[message], VERSIONS[by]
    made = ([TopicPartitions(topic_id, name, 1) for topic_id, name in part] for part in parts(count))
    responses = [HotResponse(key, version, topics) for topics in made]
    benchmark.group = f"encode {message} responses"
    benchmark.extra_info["bytes"] = sum(map(len, benchmark(lambda: [response.encode() for response in responses])))


@pytest.mark.parametrize("by", VERSIONS)
@pytest.mark.parametrize("count", COUNTS[:1])
@pytest.mark.parametrize("message", KEYS)
def test_requests_are_encoded_by_a_client(benchmark: Any, message: str, count: int, by: str) -> None:
    """From Python's message object to bytes, with the generic codec of all messages."""
    request = MAKERS[message](topics(count))
    benchmark.group = f"encode {message} requests from Python objects"
    benchmark.extra_info["bytes"] = len(benchmark(encode, request, VERSIONS[by]))
