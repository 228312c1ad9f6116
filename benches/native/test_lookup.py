"""Topic ids against names: comparing two, and finding a partition among many."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

import pytest

from pybroker.native import PartitionIndex, Uuid

TOPICS = [1_000, 100_000]
LOOKUPS = 1_000


@pytest.mark.parametrize("operation", ["==", "<", "hash"])
def test_two_ids(benchmark: Any, operation: str) -> None:
    """Python's cost of one comparison of two ids that differ in the last byte only."""
    left = Uuid.from_bytes(b"\1" * 16)
    right = Uuid.from_bytes(b"\1" * 15 + b"\2")
    operations: dict[str, Callable[[], object]] = {
        "==": lambda: left == right,
        "<": lambda: left < right,
        "hash": lambda: hash(left),
    }
    benchmark.group = "two topic ids"
    benchmark(operations[operation])


@pytest.mark.parametrize("topics", TOPICS)
@pytest.mark.parametrize("by", ["id", "name"])
def test_partitions_are_found(benchmark: Any, by: str, topics: int) -> None:
    """1,000 lookups in random order in one native call, so that the call itself does not count."""
    rows = [(Uuid.random(), f"a-topic-with-an-average-name-{number:06}", 1) for number in range(topics)]
    index = PartitionIndex(rows)
    chosen = random.Random(1).choices(rows, k=LOOKUPS)
    benchmark.group = f"find {LOOKUPS} of {topics:,} partitions"
    if by == "id":
        keys = b"".join(topic_id.bytes + struct.pack(">i", 0) for topic_id, _, _ in chosen)
        assert benchmark(index.count_by_id, keys) == LOOKUPS
    else:
        names = [name for _, name, _ in chosen]
        assert benchmark(index.count_by_name, names, 0) == LOOKUPS


@pytest.mark.parametrize("by", ["id", "name"])
def test_one_partition_is_found(benchmark: Any, by: str) -> None:
    """One lookup from Python, the call included."""
    rows = [(Uuid.random(), f"a-topic-with-an-average-name-{number:06}", 1) for number in range(1_000)]
    index = PartitionIndex(rows)
    topic_id, name, _ = rows[500]
    benchmark.group = "find 1 of 1,000 partitions"
    assert benchmark(index.by_id, topic_id, 0) if by == "id" else benchmark(index.by_name, name, 0)
