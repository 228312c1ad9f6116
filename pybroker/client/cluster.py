"""What a client knows of the cluster: immutable, replaced whole by each metadata response."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from pybroker.native import Uuid


class TopicPartition(NamedTuple):
    """A partition by the name of its topic. It carries no id on purpose (KIP-516)."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class TopicIdPartition:
    """A partition of one incarnation of a topic: by id, with the name for people (KIP-516)."""

    topic_id: Uuid
    topic_partition: TopicPartition

    @property
    def topic(self) -> str:
        """The name."""
        return self.topic_partition.topic

    @property
    def partition(self) -> int:
        """The index."""
        return self.topic_partition.partition

    def __str__(self) -> str:
        return f"{self.topic_id}:{self.topic_partition}"


class Node(NamedTuple):
    """A broker."""

    id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port} (id {self.id})"


class PartitionInfo(NamedTuple):
    """A partition as the metadata show it. `leader` is -1 while there is none, `leader_epoch` -1 where unknown."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]

    @property
    def topic_partition(self) -> TopicPartition:
        """Its topic and index."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic as the metadata show it. `topic_id` is Uuid.ZERO from brokers without ids; `error_code` 0 if it is
    there.
    """

    name: str
    topic_id: Uuid
    internal: bool
    partitions: tuple[PartitionInfo, ...]
    error_code: int = 0


@dataclass(frozen=True)
class Cluster:
    """A snapshot of the cluster's metadata.

    id: the cluster's (KIP-78); None before the first answer and from clusters that have none.
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
        """The broker of that id."""
        return self._nodes.get(node_id)

    def topics(self) -> Collection[str]:
        """The names of all topics."""
        return {topic.name for topic in self._live}

    def topic_ids(self) -> Collection[Uuid]:
        """The ids of all topics that have one."""
        return self._names.keys()

    def topic_id(self, name: str) -> Uuid:
        """The topic's id; Uuid.ZERO if it has none or does not exist."""
        topic = self.by_name.get(name)
        return topic.topic_id if topic is not None and not topic.error_code else Uuid.ZERO

    def topic_name(self, topic_id: Uuid) -> str | None:
        """The name of the topic with that id."""
        return self._names.get(topic_id)

    def internal_topics(self) -> Collection[str]:
        """Topics that belong to the cluster itself."""
        return {topic.name for topic in self._live if topic.internal}

    def partitions(self, topic: str) -> tuple[PartitionInfo, ...]:
        """The topic's partitions in order; empty if it does not exist."""
        found = self.by_name.get(topic)
        return found.partitions if found is not None and not found.error_code else ()

    def absence(self, partition: TopicPartition) -> str:
        """That a partition does not exist, in words: it is its topic that does not, or it is one too many."""
        count = len(self.partitions(partition.topic))
        if not count:
            return f"topic {partition.topic} does not exist"
        return f"topic {partition.topic} has partitions 0 to {count - 1}, not {partition.partition}"

    def partition(self, partition: TopicPartition) -> PartitionInfo | None:
        """One partition."""
        partitions = self.partitions(partition.topic)
        return partitions[partition.partition] if 0 <= partition.partition < len(partitions) else None

    def leader_id(self, partition: TopicPartition) -> int:
        """The id of the broker that leads it now; -1 while there is none."""
        found = self.partition(partition)
        return found.leader if found is not None else -1

    def leader(self, partition: TopicPartition) -> Node | None:
        """The broker that leads it now."""
        return self.node(self.leader_id(partition))


Partition = TypeVar("Partition", bound=TopicPartition | TopicIdPartition)
"""By which a call is asked about partitions, and answers."""


def by_topic_and_id(
    partitions: Iterable[TopicPartition | TopicIdPartition],
) -> dict[tuple[str, Uuid], list[int]]:
    """(topic, its id or ZERO) → partition indexes."""
    found: dict[tuple[str, Uuid], list[int]] = {}
    for each in partitions:
        found.setdefault((each.topic, topic_id_of(each)), []).append(each.partition)
    return found


def topic_id_of(partition: TopicPartition | TopicIdPartition) -> Uuid:
    """ZERO of one that goes by name."""
    return partition.topic_id if isinstance(partition, TopicIdPartition) else Uuid.ZERO


def partition_of(topic: str, topic_id: Uuid, index: int) -> Any:
    """A partition as it was asked for: by id unless that is ZERO."""
    named = TopicPartition(topic, index)
    return named if topic_id == Uuid.ZERO else TopicIdPartition(topic_id, named)


def by_name(partition: TopicPartition | TopicIdPartition) -> TopicPartition:
    """The partition without the id."""
    return partition.topic_partition if isinstance(partition, TopicIdPartition) else partition


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Topic → partition indexes."""
    found: dict[str, list[int]] = {}
    for each in partitions:
        found.setdefault(each.topic, []).append(each.partition)
    return found
