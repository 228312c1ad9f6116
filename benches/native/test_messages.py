"""Encoding and decoding of Fetch and Produce: names (the last version with them) against topic ids."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker.native import Uuid, build_batch, decode, encode
from pybroker.protocol import messages

PARTITIONS = [1, 100, 1000]
# Fetch and Produce both carry topic ids from version 13 on.
VERSIONS = {"names": 12, "ids": 13}
FETCH, PRODUCE = 1, 0


def _fetch(partitions: int) -> Any:
    return messages.FetchRequest(
        max_wait_ms=500,
        topics=[
            messages.FetchRequest_FetchTopic(
                topic=f"a-topic-with-an-average-name-{number:04}",
                topic_id=Uuid.random(),
                partitions=[messages.FetchRequest_FetchPartition(partition=0, partition_max_bytes=1 << 20)],
            )
            for number in range(partitions)
        ],
    )


def _produce(partitions: int) -> Any:
    batch = build_batch([(None, b"v" * 1024)], 0)
    return messages.ProduceRequest(
        acks=-1,
        topic_data=[
            messages.ProduceRequest_TopicProduceData(
                name=f"a-topic-with-an-average-name-{number:04}",
                topic_id=Uuid.random(),
                partition_data=[messages.ProduceRequest_PartitionProduceData(index=0, records=batch)],
            )
            for number in range(partitions)
        ],
    )


CASES = {"fetch": (FETCH, _fetch), "produce": (PRODUCE, _produce)}


@pytest.mark.parametrize("by", VERSIONS)
@pytest.mark.parametrize("partitions", PARTITIONS)
@pytest.mark.parametrize("case", CASES)
def test_encode(benchmark: Any, case: str, partitions: int, by: str) -> None:
    """From the message object to bytes."""
    benchmark.group = f"encode {case}, {partitions} topics"
    _, make = CASES[case]
    benchmark.extra_info["bytes"] = len(benchmark(encode, make(partitions), VERSIONS[by]))


@pytest.mark.parametrize("by", VERSIONS)
@pytest.mark.parametrize("partitions", PARTITIONS)
@pytest.mark.parametrize("case", CASES)
def test_decode(benchmark: Any, case: str, partitions: int, by: str) -> None:
    """From bytes to the message object."""
    benchmark.group = f"decode {case}, {partitions} topics"
    key, make = CASES[case]
    body = encode(make(partitions), VERSIONS[by])
    benchmark(decode, key, VERSIONS[by], body, True)
