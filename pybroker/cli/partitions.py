"""Partitions of topics, and offsets of their logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pybroker.client import AdminClient, OffsetSpec, TopicPartition


async def partitions_of(admin: AdminClient, topics: Sequence[str]) -> list[TopicPartition]:
    """Return all partitions, in order. Raises KafkaError if a topic does not exist."""
    from pybroker.client import TopicPartition

    described = await admin.describe_topics(topics)
    return sorted(TopicPartition(name, each.partition) for name in topics for each in described[name].partitions)


async def offsets(
    admin: AdminClient, partitions: Sequence[TopicPartition], spec: OffsetSpec
) -> dict[TopicPartition, int]:
    """Return the offsets. An offset is -1 if the time is after the last record."""
    if not partitions:
        return {}
    return {each: row.offset for each, row in (await admin.list_offsets(dict.fromkeys(partitions, spec))).items()}
