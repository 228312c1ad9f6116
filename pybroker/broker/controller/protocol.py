"""What the metadata store shows of topic ids, and the way up (KIP-516; checklist 206, 210).

With `inter.broker.protocol.version` below 2.8 topics have no ids that anybody outside sees. Inside nothing changes
(every partition has its id, `partition.metadata` is written): what Kafka's own node may not show stands in a node
beside it, `/admin/topic_ids/[topic]`, the same in which a migration notes the ids that it gives.

    version 2 node + record of the id ──AlterConfigs──► version 3 node + record ──FinishMigrations──► version 3 node

The way up is one multi, that of the setting which orders it if it comes while the broker runs: no crash can leave some
topics with ids and others without, and an id is given once.

Why `partition.metadata` is written below 2.8, too: a log must not take a byte before the directory says whose it is,
Kafka's brokers from before ids pass over files that they do not know, and a topic whose node was written anew by an old
tool gets its id back from there.
"""

from __future__ import annotations

import msgspec

from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.image import ClusterImage, TopicImage
from pybroker.broker.metadata.store import Create, Operation, Set


def topic_node(topic: TopicImage, topic_ids: bool) -> bytes:
    """The content of `/brokers/topics/[topic]`: version 3, or version 2 where ids are not shown."""
    return znodes.TopicNode(
        topic.topic_id if topic_ids else None,
        {index: partition.replicas for index, partition in enumerate(topic.partitions)},
        {index: part.adding_replicas for index, part in enumerate(topic.partitions) if part.adding_replicas},
        {index: part.removing_replicas for index, part in enumerate(topic.partitions) if part.removing_replicas},
        topic.departed,
    ).encode()


def id_operations(topic: TopicImage, topic_ids: bool) -> list[Operation]:
    """Keeps the id of a new topic whose node does not show it."""
    if topic_ids:
        return []
    record = znodes.TopicIdRecord(topic.topic_id, znodes.WITH_ITS_TOPIC)
    return [Create(znodes.topic_id_path(topic.name), record.encode())]


class Raise(msgspec.Struct, frozen=True):
    """The step to topic ids: writes, and the topics as they are then."""

    operations: tuple[Operation, ...]
    topics: dict[str, TopicImage]


def decide_raise(image: ClusterImage) -> Raise:
    """Every topic's node becomes version 3. The records of the ids stay until the replicas have confirmed."""
    operations = tuple(
        Set(znodes.topic_path(name), topic_node(topic, True), topic.node_version)
        for name, topic in image.topics.items()
    )
    topics = {
        name: msgspec.structs.replace(topic, node_version=topic.node_version + 1)
        for name, topic in image.topics.items()
    }
    return Raise(operations, topics)
