"""A client's cluster metadata: immutable; each metadata response replaces it as a whole."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from pybroker.native import Uuid


class TopicPartition(NamedTuple):
    """A partition by topic name. It has no topic id on purpose (KIP-516)."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class TopicIdPartition:
    """A partition of one incarnation of a topic: identified by id, with the name for display (KIP-516)."""

    topic_id: Uuid
    topic_partition: TopicPartition

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self.topic_partition.topic

    @property
    def partition(self) -> int:
        """The partition's index."""
        return self.topic_partition.partition

    def __str__(self) -> str:
        return f"{self.topic_id}:{self.topic_partition}"


class Node(NamedTuple):
    """A broker: id, address, rack."""

    id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port} (id {self.id})"


class PartitionInfo(NamedTuple):
    """A partition in the metadata. `leader` is -1 if there is none; `leader_epoch` is -1 if unknown."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]

    @property
    def topic_partition(self) -> TopicPartition:
        """The topic name and index."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic in the metadata. `topic_id` is Uuid.ZERO from brokers without topic ids; `error_code` is 0 if it exists.
    """

    name: str
    topic_id: Uuid
    internal: bool
    partitions: tuple[PartitionInfo, ...]
    error_code: int = 0


@dataclass(frozen=True)
class Cluster:
    """A snapshot of the cluster's metadata.

    id: the cluster id (KIP-78); None before the first response, and if the cluster has none.
    """

    id: str | None = None
    nodes: tuple[Node, ...] = ()
    controller: Node | None = None
    by_name: Mapping[str, TopicInfo] = field(default_factory=dict, repr=False)

    @cached_property
    def _nodes(self) -> dict[int, Node]:
        return {node.id: node for node in self.nodes}

    @cached_property
    def _names(self) -> dict[Uuid, str]:
        return {topic.topic_id: topic.name for topic in self._live if topic.topic_id}

    @property
    def _live(self) -> Iterable[TopicInfo]:
        return (topic for topic in self.by_name.values() if not topic.error_code)

    def node(self, node_id: int) -> Node | None:
        """Return the broker with that id, or None."""
        return self._nodes.get(node_id)

    def topics(self) -> Collection[str]:
        """Return the names of all topics."""
        return {topic.name for topic in self._live}

    def topic_ids(self) -> Collection[Uuid]:
        """Return the ids of all topics that have one."""
        return self._names.keys()

    def topic_id(self, name: str) -> Uuid:
        """Return the topic's id; Uuid.ZERO if it has none or does not exist."""
        topic = self.by_name.get(name)
        return topic.topic_id if topic is not None and not topic.error_code else Uuid.ZERO

    def topic_name(self, topic_id: Uuid) -> str | None:
        """Return the name of the topic with that id, or None."""
        return self._names.get(topic_id)

    def internal_topics(self) -> Collection[str]:
        """Return the names of internal topics, such as `__consumer_offsets`."""
        return {topic.name for topic in self._live if topic.internal}

    def partitions(self, topic: str) -> tuple[PartitionInfo, ...]:
        """Return the topic's partitions in order; empty if it does not exist."""
        found = self.by_name.get(topic)
        return found.partitions if found is not None and not found.error_code else ()

    def absence(self, partition: TopicPartition) -> str:
        """Return a sentence with the reason why a partition does not exist: the topic does not exist, or the index is
        too high."""
        count = len(self.partitions(partition.topic))
        if not count:
            return f"topic {partition.topic} does not exist"
        return (
            f"topic {partition.topic} has partitions 0 to {count - 1}; partition {partition.partition} does not exist"
        )

    def partition(self, partition: TopicPartition) -> PartitionInfo | None:
        """Return the partition, or None if it does not exist."""
        partitions = self.partitions(partition.topic)
        return partitions[partition.partition] if 0 <= partition.partition < len(partitions) else None

    def leader_id(self, partition: TopicPartition) -> int:
        """Return the id of the current leader; -1 if there is none."""
        found = self.partition(partition)
        return found.leader if found is not None else -1

    def leader(self, partition: TopicPartition) -> Node | None:
        """Return the current leader, or None."""
        return self.node(self.leader_id(partition))


Partition = TypeVar("Partition", bound=TopicPartition | TopicIdPartition)
"""A partition by name or by id. The result of a call has the same kind as its argument."""


def by_topic_and_id(
    partitions: Iterable[TopicPartition | TopicIdPartition],
) -> dict[tuple[str, Uuid], list[int]]:
    """Return (topic, its id or ZERO) → partition indexes."""
    found: dict[tuple[str, Uuid], list[int]] = {}
    for each in partitions:
        found.setdefault((each.topic, topic_id_of(each)), []).append(each.partition)
    return found


def topic_id_of(partition: TopicPartition | TopicIdPartition) -> Uuid:
    """Return the topic id, ZERO for a partition by name."""
    return partition.topic_id if isinstance(partition, TopicIdPartition) else Uuid.ZERO


def partition_of(topic: str, topic_id: Uuid, index: int) -> Any:
    """Return the partition in the form of the request: by id, or by name if the id is ZERO."""
    named = TopicPartition(topic, index)
    return named if topic_id == Uuid.ZERO else TopicIdPartition(topic_id, named)


def by_name(partition: TopicPartition | TopicIdPartition) -> TopicPartition:
    """Return the partition without the id."""
    return partition.topic_partition if isinstance(partition, TopicIdPartition) else partition


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return topic → partition indexes."""
    found: dict[str, list[int]] = {}
    for each in partitions:
        found.setdefault(each.topic, []).append(each.partition)
    return found
