"""The partitions of topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pybroker.client import AdminClient, TopicPartition


async def partitions_of(admin: AdminClient, topics: Sequence[str]) -> list[TopicPartition]:
    """Return all partitions, in order. Raises KafkaError for a topic that does not exist."""
    from pybroker.client import TopicPartition

    described = await admin.describe_topics(topics)
    return sorted(TopicPartition(name, each.partition) for name in topics for each in described[name].partitions)
