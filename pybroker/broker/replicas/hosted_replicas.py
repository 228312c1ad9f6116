"""The partitions that this broker serves, each with its topic incarnation."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from pybroker.native import Uuid


class _Topic(msgspec.Struct):
    name: str
    epochs: dict[int, int]
    """Leader epoch by partition."""


class HostedReplicas:
    """Partitions in service, by topic id and by place (name and partition). Two incarnations cannot have the same
    place."""

    def __init__(self) -> None:
        self._topics: dict[Uuid, _Topic] = {}
        self._ids: dict[tuple[str, int], Uuid] = {}

    def __contains__(self, topic_id: Uuid) -> bool:
        return topic_id in self._topics

    def __len__(self) -> int:
        return len(self._ids)

    def all(self) -> Iterator[tuple[Uuid, str, int, int]]:
        """Yield topic id, name, partition and leader epoch of each partition in service."""
        for topic_id, topic in self._topics.items():
            for partition, epoch in topic.epochs.items():
                yield topic_id, topic.name, partition, epoch

    def id_at(self, name: str, partition: int) -> Uuid | None:
        """Return the incarnation in service under a name and partition number."""
        return self._ids.get((name, partition))

    def name(self, topic_id: Uuid) -> str | None:
        """Return the name of the topic with this id; None if this broker serves none of its partitions."""
        topic = self._topics.get(topic_id)
        return None if topic is None else topic.name

    def epoch(self, topic_id: Uuid, partition: int) -> int | None:
        """Return the leader epoch of a partition; None if it is not in service."""
        topic = self._topics.get(topic_id)
        return None if topic is None else topic.epochs.get(partition)

    def add(self, topic_id: Uuid, name: str, partition: int, epoch: int) -> None:
        """Put a partition in service with this leader epoch."""
        topic = self._topics.get(topic_id)
        if topic is None:
            topic = self._topics[topic_id] = _Topic(name, {})
        topic.epochs[partition] = epoch
        self._ids[name, partition] = topic_id

    def remove(self, topic_id: Uuid, partition: int) -> None:
        """Take a partition out of service."""
        topic = self._topics.get(topic_id)
        if topic is None:
            return
        topic.epochs.pop(partition, None)
        if self._ids.get((topic.name, partition)) == topic_id:
            del self._ids[topic.name, partition]
        if not topic.epochs:
            del self._topics[topic_id]
