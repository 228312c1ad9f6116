"""How the metadata store shows topic ids, and how a cluster begins to show them (KIP-516).

With `inter.broker.protocol.version` below 2.8, clients and old brokers see no topic ids. Internally nothing changes:
every partition has its id, and `partition.metadata` is written. Kafka's own topic node must not contain the id then, so
a separate node, `/admin/topic_ids/[topic]`, holds it. A migration records the ids it assigns in the same node.

    version 2 node + record of the id ──AlterConfigs──► version 3 node + record ──FinishMigrations──► version 3 node

One multi changes all topics when the version is raised. If the version is raised while the broker runs, that multi also
stores the setting. A crash cannot leave some topics with ids and others without, and each topic gets its id only once.

`partition.metadata` is written below 2.8 too, for three reasons: the directory must name its topic before the log takes
a byte; Kafka's brokers without topic ids ignore unknown files; and a topic whose node an old tool has rewritten gets
its id back from the file.
"""

from __future__ import annotations

import msgspec

from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.image import ClusterImage, TopicImage
from pybroker.broker.metadata.metadata_store import Create, Operation, Set


def topic_node(topic: TopicImage, topic_ids: bool) -> bytes:
    """Return the content of `/brokers/topics/[topic]`: version 3, or version 2 if ids are not shown."""
    return znodes.TopicNode(
        topic.topic_id if topic_ids else None,
        {index: partition.replicas for index, partition in enumerate(topic.partitions)},
        {index: part.adding_replicas for index, part in enumerate(topic.partitions) if part.adding_replicas},
        {index: part.removing_replicas for index, part in enumerate(topic.partitions) if part.removing_replicas},
        topic.departed,
    ).encode()


def id_operations(topic: TopicImage, topic_ids: bool) -> list[Operation]:
    """Return the operations that record the id of a new topic whose node does not show it."""
    if topic_ids:
        return []
    record = znodes.TopicIdRecord(topic.topic_id, znodes.WITH_ITS_TOPIC)
    return [Create(znodes.topic_id_path(topic.name), record.encode())]


class Raise(msgspec.Struct, frozen=True):
    """The change to shown topic ids: the writes, and the topics after them."""

    operations: tuple[Operation, ...]
    topics: dict[str, TopicImage]


def decide_raise(image: ClusterImage) -> Raise:
    """Return the writes that make every topic's node version 3. The records of the ids stay until the replicas have
    confirmed that they have written their ids.
    """
    operations = tuple(
        Set(znodes.topic_path(name), topic_node(topic, True), topic.node_version)
        for name, topic in image.topics.items()
    )
    topics = {
        name: msgspec.structs.replace(topic, node_version=topic.node_version + 1)
        for name, topic in image.topics.items()
    }
    return Raise(operations, topics)
