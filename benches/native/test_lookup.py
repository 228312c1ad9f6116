"""Finding a partition among many, by topic id and by topic name."""

from __future__ import annotations

import random
import struct
from functools import lru_cache
from typing import Any

import pytest

from benches.native.topics import COUNTS, topics
from pybroker.native import PartitionIndex, TopicPartitions

LOOKUPS = 1_000


@lru_cache(maxsize=1)
def index_of(count: int) -> PartitionIndex:
    """Return the partition index of Produce and Fetch with this many partitions."""
    return PartitionIndex([TopicPartitions(topic_id, name, 1) for topic_id, name in topics(count)])


@pytest.mark.checklist(332)
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("by", ["name", "id"])
def test_partitions_are_found(benchmark: Any, by: str, count: int) -> None:
    """1,000 lookups in random order in one native call, which makes the cost of the call negligible."""
    index = index_of(count)
    chosen = random.Random(1).choices(topics(count), k=LOOKUPS)
    benchmark.group = f"find {LOOKUPS:,} partitions of"
    if by == "id":
        keys = b"".join(topic_id.bytes + struct.pack(">i", 0) for topic_id, _ in chosen)
        assert benchmark(index.count_by_id, keys) == LOOKUPS
    else:
        names = [name for _, name in chosen]
        assert benchmark(index.count_by_name, names, 0) == LOOKUPS


@pytest.mark.parametrize("count", [1_000])
@pytest.mark.parametrize("by", ["name", "id"])
def test_one_partition_is_found(benchmark: Any, by: str, count: int) -> None:
    """One lookup from Python, including the call."""
    index = index_of(count)
    topic_id, name = topics(count)[500]
    benchmark.group = "find 1 partition of"
    assert benchmark(index.by_id, topic_id, 0) if by == "id" else benchmark(index.by_name, name, 0)
