"""From the store's nodes to the first image, with the writes that mend what is incomplete. Pure.

What may be incomplete: a topic without an id (from before version 3; V, checklist 208), and a topic whose partition
states were not written (a create that was cut off between its parts, A1). What cannot be read is `damaged`: not
served, not deleted, its name taken.

10,000 partitions share a handful of distinct states; equal bytes are decoded once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from pybroker.metadata import znodes
from pybroker.metadata.image import (
    NO_LEADER,
    BrokerImage,
    ClusterImage,
    ConfigImage,
    PartitionImage,
    TopicImage,
    clash_key,
    has_clash_key,
)
from pybroker.metadata.store import Create, Node, Operation, Set
from pybroker.metadata.znodes import DamagedNodeError, DeletionRecord
from pybroker.native import Uuid

log = logging.getLogger(__name__)


class Nodes(NamedTuple):
    """The store's subtrees that make up the cluster's state."""

    brokers: Mapping[str, Node]
    topics: Mapping[str, Node]
    configs: Mapping[str, Node]
    admin: Mapping[str, Node]


class LoadedImage(NamedTuple):
    """The image, and the writes that make the store agree with it."""

    image: ClusterImage
    repairs: tuple[Operation, ...]


def load_image(controller_epoch: int, nodes: Nodes, new_id: Callable[[], Uuid] = Uuid.random) -> LoadedImage:
    """Builds the image."""
    deletions = _deletions(nodes.admin)
    floors = _floors(nodes.admin)
    topics = _Topics(nodes, controller_epoch, floors, new_id)
    topics.load(deletions)
    image = ClusterImage(
        controller_epoch,
        topics.topics,
        {topic.topic_id: name for name, topic in topics.topics.items()},
        {clash_key(name): name for name in topics.topics if has_clash_key(name)},
        _brokers(nodes.brokers),
        deletions,
        floors,
        _broker_configs(nodes.configs),
        topics.damaged,
    )
    return LoadedImage(image, tuple(topics.repairs))


class _Topics:
    """Reads topics one after another; gathers what they share."""

    def __init__(
        self, nodes: Nodes, controller_epoch: int, floors: Mapping[str, int], new_id: Callable[[], Uuid]
    ) -> None:
        self._nodes = nodes
        self._controller_epoch = controller_epoch
        self._floors = floors
        self._new_id = new_id
        self._states: dict[tuple[bytes, int, tuple[int, ...]], PartitionImage] = {}
        self.topics: dict[str, TopicImage] = {}
        self.damaged: dict[str, str] = {}
        self.repairs: list[Operation] = []

    def load(self, deletions: Mapping[Uuid, DeletionRecord]) -> None:
        names: dict[Uuid, str] = {}
        prefix = len(znodes.TOPICS) + 1
        for path, node in self._nodes.topics.items():
            name = path[prefix:]
            if "/" in name:
                continue
            repairs: list[Operation] = []
            try:
                topic = self._topic(name, path, node, repairs)
                if topic.topic_id in names:
                    raise DamagedNodeError(
                        f"{path}: topic id {topic.topic_id} is that of {names[topic.topic_id]!r}, too"
                    )
                if topic.topic_id in deletions:
                    raise DamagedNodeError(f"{path}: topic id {topic.topic_id} is that of a deleted topic")
            except DamagedNodeError as problem:
                log.error("topic %r is put aside: %s", name, problem)
                self.damaged[name] = str(problem)
                continue
            self.topics[name] = topic
            names[topic.topic_id] = name
            self.repairs += repairs

    def _topic(self, name: str, path: str, node: Node, repairs: list[Operation]) -> TopicImage:
        content = znodes.decode_topic(path, node.data)
        topic_id, version = content.topic_id, node.version
        if topic_id is None:
            topic_id = self._new_id()
            migrated = znodes.TopicNode(
                topic_id, content.partitions, content.adding_replicas, content.removing_replicas
            )
            repairs.append(Set(path, migrated.encode(), version))
            version += 1
            log.info("topic %s takes the id %s", name, topic_id)
        config_path = znodes.topic_config_path(name)
        config_node = self._nodes.configs.get(config_path)
        return TopicImage(
            name,
            topic_id,
            self._partitions(name, content, repairs),
            {} if config_node is None else znodes.decode_config(config_path, config_node.data),
            node.created_ms,
            version,
            -1 if config_node is None else config_node.version,
        )

    def _partitions(self, name: str, content: znodes.TopicNode, repairs: list[Operation]) -> tuple[PartitionImage, ...]:
        nodes, parent = self._nodes.topics, znodes.partitions_path(name)
        if parent not in nodes:
            repairs.append(Create(parent))
        partitions: list[PartitionImage] = []
        for index in range(len(content.partitions)):
            path = f"{parent}/{index}/state"
            node = nodes.get(path)
            if node is not None:
                partitions.append(self._partition(index, path, node, content))
                continue
            missing = _missing_state(content.partitions[index], self._controller_epoch, self._floors.get(name, -1) + 1)
            if f"{parent}/{index}" not in nodes:
                repairs.append(Create(f"{parent}/{index}"))
            repairs.append(Create(path, _state_bytes(missing)))
            partitions.append(missing)
        return tuple(partitions)

    def _partition(self, index: int, path: str, node: Node, content: znodes.TopicNode) -> PartitionImage:
        replicas = content.partitions[index]
        adding = content.adding_replicas.get(index, ())
        removing = content.removing_replicas.get(index, ())
        key = (node.data, node.version, replicas)
        found = self._states.get(key) if not adding and not removing else None
        if found is None:
            state = znodes.decode_state(path, node.data)
            found = PartitionImage(
                replicas,
                state.leader,
                state.leader_epoch,
                state.isr,
                state.controller_epoch,
                node.version,
                adding,
                removing,
            )
            if not adding and not removing:
                self._states[key] = found
        return found


def _missing_state(replicas: tuple[int, ...], controller_epoch: int, leader_epoch: int) -> PartitionImage:
    """No leader yet; the registration of a replica elects one."""
    return PartitionImage(replicas, NO_LEADER, leader_epoch, replicas, controller_epoch, 0)


def _state_bytes(partition: PartitionImage) -> bytes:
    return znodes.encode_state(partition.controller_epoch, partition.leader, partition.leader_epoch, partition.isr)


def _deletions(admin: Mapping[str, Node]) -> dict[Uuid, DeletionRecord]:
    found: dict[Uuid, DeletionRecord] = {}
    for path, node in admin.items():
        if path.startswith(znodes.DELETED_TOPICS + "/"):
            try:
                record = znodes.decode_deletion(path, node.data)
            except DamagedNodeError as problem:
                # Its name in the path still proves that the id is dead; the rest is lost.
                log.error("the record of a deletion is damaged: %s", problem)
                continue
            found[record.topic_id] = record
    return found


def _floors(admin: Mapping[str, Node]) -> dict[str, int]:
    start = len(znodes.EPOCH_FLOORS) + 1
    return {
        path[start:]: znodes.decode_floor(path, node.data)
        for path, node in admin.items()
        if path.startswith(znodes.EPOCH_FLOORS + "/")
    }


def _brokers(nodes: Mapping[str, Node]) -> dict[int, BrokerImage]:
    found: dict[int, BrokerImage] = {}
    for path, node in nodes.items():
        broker_id = int(path.rsplit("/", 1)[1])
        content = znodes.decode_broker(path, node.data)
        found[broker_id] = BrokerImage(broker_id, node.created_zxid, content.endpoints, content.rack)
    return found


def _broker_configs(nodes: Mapping[str, Node]) -> dict[str, ConfigImage]:
    start = len(znodes.BROKER_CONFIGS) + 1
    found: dict[str, ConfigImage] = {}
    for path, node in nodes.items():
        if path.startswith(znodes.BROKER_CONFIGS + "/"):
            try:
                found[path[start:]] = ConfigImage(znodes.decode_config(path, node.data), node.version)
            except DamagedNodeError as problem:
                log.error("a broker's dynamic configs are damaged and left out: %s", problem)
    return found
