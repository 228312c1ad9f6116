"""Offsets together with the cluster and the topic ids they belong to: what stands in Spark's checkpoint.

{"cluster": "…", "topics": {"<topic id>": {"name": "orders", "p": {"0": 5}}}}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pybroker.spark.errors import TopicChangedError


@dataclass(frozen=True)
class TopicPosition:
    """Next offset by partition of one topic."""

    name: str
    offsets: Mapping[int, int]


@dataclass(frozen=True)
class Position:
    """Next offset of every partition, by topic id."""

    cluster: str
    topics: Mapping[str, TopicPosition] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """For the checkpoint; partitions in order, so that equal positions are equal texts."""
        topics = {
            topic_id: {
                "name": topic.name,
                "p": {str(number): topic.offsets[number] for number in sorted(topic.offsets)},
            }
            for topic_id, topic in sorted(self.topics.items())
        }
        return {"cluster": self.cluster, "topics": topics}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Position:
        """Reads a checkpoint's offset. Raises TopicChangedError for one of another source."""
        try:
            topics = {
                topic_id: TopicPosition(topic["name"], {int(number): int(at) for number, at in topic["p"].items()})
                for topic_id, topic in value["topics"].items()
            }
            return Position(str(value["cluster"]), topics)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise TopicChangedError(f"the checkpoint holds no offsets of format('pybroker'): {value}") from None

    def get(self, topic_id: str, partition: int) -> int | None:
        """The next offset; None if the partition is not in here."""
        topic = self.topics.get(topic_id)
        return None if topic is None else topic.offsets.get(partition)

    def named(self, name: str) -> str | None:
        """The id of the topic that has (or had) this name."""
        return next((topic_id for topic_id, topic in self.topics.items() if topic.name == name), None)

    def __iter__(self) -> Iterator[tuple[str, str, int, int]]:
        """(topic id, name, partition, offset)"""
        for topic_id, topic in self.topics.items():
            for partition, offset in topic.offsets.items():
                yield topic_id, topic.name, partition, offset
