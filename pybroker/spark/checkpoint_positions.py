"""Offsets with their cluster and topic ids: the content of Spark's checkpoint.

{"cluster": "…", "topics": {"<topic id>": {"name": "orders", "p": {"0": 5}}}}
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pybroker.native import Uuid
from pybroker.spark.source_errors import TopicChangedError


@dataclass(frozen=True)
class TopicPosition:
    """The next offset of each partition of one topic."""

    name: str
    offsets: Mapping[int, int]


@dataclass(frozen=True)
class StreamPosition:
    """The next offset of each partition, by topic id."""

    cluster: str
    topics: Mapping[str, TopicPosition] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the checkpoint's text, in sorted order, so that equal positions have equal texts."""
        topics = {
            topic_id: {
                "name": topic.name,
                "p": {str(number): topic.offsets[number] for number in sorted(topic.offsets)},
            }
            for topic_id, topic in sorted(self.topics.items())
        }
        return {"cluster": self.cluster, "topics": topics}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> StreamPosition:
        """Read a position from a checkpoint. Raises TopicChangedError if the checkpoint belongs to another source."""
        try:
            topics = {str(Uuid.parse(topic_id)): _topic(topic) for topic_id, topic in value["topics"].items()}
            return StreamPosition(_text(value["cluster"]), topics)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise TopicChangedError(f"the checkpoint contains no offsets of format('pybroker'): {value}") from None

    def only(self, places: Mapping[str, Collection[int]]) -> StreamPosition:
        """Return the position with only the partitions in `places` (topic id → partitions)."""
        topics = {
            topic_id: TopicPosition(
                topic.name, {number: at for number, at in topic.offsets.items() if number in places[topic_id]}
            )
            for topic_id, topic in self.topics.items()
            if topic_id in places
        }
        return StreamPosition(self.cluster, topics)

    def filled(self, other: StreamPosition) -> StreamPosition:
        """Return this position with the partitions that only `other` has."""
        topics = dict(other.topics)
        for topic_id, topic in self.topics.items():
            more = other.topics[topic_id].offsets if topic_id in other.topics else {}
            topics[topic_id] = TopicPosition(topic.name, {**more, **topic.offsets})
        return StreamPosition(self.cluster, topics)

    def get(self, topic_id: str, partition: int) -> int | None:
        """Return the next offset; None if the partition is missing."""
        topic = self.topics.get(topic_id)
        return None if topic is None else topic.offsets.get(partition)

    def named(self, name: str) -> str | None:
        """Return the id of the topic that has (or had) this name."""
        return next((topic_id for topic_id, topic in self.topics.items() if topic.name == name), None)

    def __iter__(self) -> Iterator[tuple[str, str, int, int]]:
        """Yield (topic id, name, partition, offset)."""
        for topic_id, topic in self.topics.items():
            for partition, offset in topic.offsets.items():
                yield topic_id, topic.name, partition, offset


def _topic(value: Mapping[str, Any]) -> TopicPosition:
    return TopicPosition(_text(value["name"]), {_number(int(part)): _number(at) for part, at in value["p"].items()})


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(value)
    return value
