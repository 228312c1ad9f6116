"""Where the metadata store contains topic ids, and how a cluster starts to show them to clients (KIP-516).

With `inter.broker.protocol.version` below 2.8, clients and old brokers see no topic ids. Internally nothing changes:
every topic has its id, and `partition.metadata` is written. Kafka's own topic znode must not contain the id in these
versions; another znode, `/admin/topic_ids/[topic]`, contains it. A migration records the ids that it assigns in the
same znode.

    version 2 znode + record of the id ──AlterConfigs──► version 3 znode + record ──FinishMigrations──► version 3 znode

One multi changes all topics when the version is raised. If the version is raised while the broker runs, that multi also
stores the setting. A crash cannot leave some topics with ids and others without, and each topic gets its id only once.

Brokers write `partition.metadata` in versions below 2.8 too. The directory must name its topic before the log accepts a
byte. If an old tool rewrites the topic's znode, the topic gets its id back from this file. Kafka's brokers without
topic ids ignore the file.
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
    """Return the operations that record the id of a new topic whose znode does not contain it."""
    if topic_ids:
        return []
    record = znodes.TopicIdRecord(topic.topic_id, znodes.WITH_ITS_TOPIC)
    return [Create(znodes.topic_id_path(topic.name), record.encode())]


class Raise(msgspec.Struct, frozen=True):
    """The change to visible topic ids: the writes, and the topics after them."""

    operations: tuple[Operation, ...]
    topics: dict[str, TopicImage]


def decide_raise(image: ClusterImage) -> Raise:
    """Return the writes that make every topic's znode version 3. The records of the ids stay until all replicas have
    written their ids."""
    operations = tuple(
        Set(znodes.topic_path(name), topic_node(topic, True), topic.node_version)
        for name, topic in image.topics.items()
    )
    topics = {
        name: msgspec.structs.replace(topic, node_version=topic.node_version + 1)
        for name, topic in image.topics.items()
    }
    return Raise(operations, topics)
