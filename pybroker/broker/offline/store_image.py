"""The content of a metadata store (SQLite or ZooKeeper) as an image for a metadata log. Pure.

Broker epochs and leader epochs continue above those of the store: the log begins at an offset above all transaction ids
of the store, and each partition gets a new leader epoch and no leader. A replica in sync becomes leader when its broker
registers.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pybroker.broker.coordinators.producer_ids import BLOCK_PATH, following_id
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.acl_nodes import ACLS, EXTENDED_ACLS
from pybroker.broker.metadata.feature_levels import (
    FEATURES,
    HIGHEST,
    METADATA_VERSION,
    METADATA_VERSIONS,
    FeaturesImage,
)
from pybroker.broker.metadata.image import NO_LEADER, ClusterImage, PartitionImage, TopicImage
from pybroker.broker.metadata.image_loader import Nodes, load_image
from pybroker.broker.metadata.metadata_store import Node, values
from pybroker.broker.metadata.outcome_nodes import read_outcomes
from pybroker.broker.metadata.token_nodes import TOKENS
from pybroker.broker.metadata.znodes import DamagedNodeError, RunningNode, StagedNode
from pybroker.errors import KafkaError, StartError
from pybroker.native import Uuid


def image_of_store(nodes: Mapping[str, Node]) -> ClusterImage:
    """Return the image of all nodes of a store. Its offset is the offset at which the new log begins. Raises StartError
    if a node is damaged or a change is unfinished."""
    try:
        _refuse_missing_ids(nodes)
        return _image(nodes)
    except (DamagedNodeError, KafkaError) as problem:
        raise StartError(f"the metadata store is damaged: {problem}") from None


def _image(nodes: Mapping[str, Node]) -> ClusterImage:
    epoch = nodes.get(znodes.CONTROLLER_EPOCH)
    epochs, block = nodes.get(znodes.BROKER_EPOCHS), nodes.get(BLOCK_PATH)
    loaded = load_image(
        0 if epoch is None else znodes.decode_controller_epoch(epoch.data),
        Nodes(
            _below(nodes, znodes.TOPICS),
            _below(nodes, "/config"),
            _below(nodes, "/admin"),
            _below(nodes, ACLS),
            _below(nodes, EXTENDED_ACLS),
            _below(nodes, "/ingest"),
            b"" if epochs is None else epochs.data,
            nodes.get(FEATURES),
            _below(nodes, TOKENS),
        ),
    )
    image = loaded.image
    _refuse_unfinished(image, loaded.unfinished)
    last = max(
        *(max(node.created_zxid, node.changed_zxid) for node in nodes.values()), *image.broker_epochs.values(), 0
    )
    return msgspec.structs.replace(
        image,
        topics={name: _without_leaders(topic) for name, topic in image.topics.items()},
        features=_finalized(image.features),
        offset=last + 1,
        running=_running(nodes),
        staged=_staged(nodes),
        next_producer_id=0 if block is None else following_id(block.data),
        outcomes=read_outcomes(_below(nodes, znodes.OUTCOMES)),
    )


def _below(nodes: Mapping[str, Node], path: str) -> dict[str, Node]:
    return {name: node for name, node in nodes.items() if name.startswith(path + "/")}


def _refuse_missing_ids(nodes: Mapping[str, Node]) -> None:
    for name, node in values(nodes, znodes.TOPICS).items():
        path = znodes.topic_path(name)
        if znodes.decode_leftover(path, node.data) is None and znodes.decode_topic(path, node.data).topic_id is None:
            raise StartError(
                f"topic {name} has no topic id yet. Start the cluster once more as before, with "
                "inter.broker.protocol.version 2.8 or later"
            )


def _refuse_unfinished(image: ClusterImage, unfinished: frozenset[str]) -> None:
    for name, reason in sorted(image.damaged.items()):
        raise StartError(f"topic {name} has damaged metadata ({reason}). Repair or delete it first")
    for path in sorted(image.damaged_ingests):
        raise StartError(f"the ingest {path} has damaged metadata. Repair or delete it first")
    old = {record.topic for record in image.deletions.values() if record.by_order}
    for name in sorted(image.delete_orders | old):
        raise StartError(
            f"the deletion of topic {name}, which began without topic ids, is not complete. Start the cluster once "
            "more as before, until `pybroker topics deletions` shows it as staged"
        )
    for name in sorted(unfinished):
        raise StartError(
            f"not all replicas of topic {name} have its topic id. Start the cluster once more as before, until "
            "`pybroker cluster health` ends with 0"
        )


def _without_leaders(topic: TopicImage) -> TopicImage:
    return msgspec.structs.replace(topic, partitions=tuple(map(_without_leader, topic.partitions)))


def _without_leader(partition: PartitionImage) -> PartitionImage:
    return msgspec.structs.replace(
        partition,
        leader=NO_LEADER,
        leader_epoch=partition.leader_epoch + 1,
        state_version=partition.state_version + 1,
    )


def _finalized(features: FeaturesImage) -> FeaturesImage:
    """Return the levels of a new metadata log: the stored levels, and for other features the levels that the first
    controller would finalize."""
    levels = {**HIGHEST, **features.levels, METADATA_VERSION: METADATA_VERSIONS.highest}
    return FeaturesImage(levels, features.version + 1)


def _running(nodes: Mapping[str, Node]) -> dict[int, RunningNode]:
    found: dict[int, RunningNode] = {}
    for name, node in values(nodes, znodes.RUNNING).items():
        path = f"{znodes.RUNNING}/{name}"
        found[znodes.broker_id_of(path, name)] = znodes.decode_running(path, node.data)
    return found


def _staged(nodes: Mapping[str, Node]) -> dict[int, dict[Uuid, StagedNode]]:
    found: dict[int, dict[Uuid, StagedNode]] = {}
    for broker in values(nodes, znodes.STAGED):
        parent = f"{znodes.STAGED}/{broker}"
        marks = {
            znodes.parse_topic_id(f"{parent}/{name}", name): znodes.decode_staged(f"{parent}/{name}", node.data)
            for name, node in values(nodes, parent).items()
        }
        if marks:
            found[znodes.broker_id_of(parent, broker)] = marks
    return found
