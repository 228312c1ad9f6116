"""The metadata quorum as this broker's node sees it, and the metadata of its log without settings and secrets."""

from __future__ import annotations

from typing import Any

from pybroker.broker.metadata.image import ClusterImage, TopicImage
from pybroker.native_quorum import QuorumReplicaStatus, QuorumStatus

TOPICS_MAX = 10_000


def quorum_document(status: QuorumStatus) -> dict[str, Any]:
    """Return the state of the quorum for JSON."""
    return {
        "role": status.role,
        "epoch": status.epoch,
        "leader": status.leader,
        "high_watermark": status.high_watermark,
        "log_start": status.log_start,
        "log_end": status.log_end,
        "snapshot_end": status.snapshot_end,
        "topic_id": str(status.topic_id),
        "voters": [_replica(voter) for voter in status.voters],
        "observers": [_replica(observer) for observer in status.observers],
    }


def _replica(replica: QuorumReplicaStatus) -> dict[str, Any]:
    return {
        "node_id": replica.node_id,
        "directory_id": str(replica.directory_id),
        "end_offset": replica.end_offset,
        "fetched_ms": replica.fetched_ms,
        "caught_up_ms": replica.caught_up_ms,
        "endpoints": [f"{endpoint.host}:{endpoint.port}" for endpoint in replica.endpoints],
    }


def image_document(image: ClusterImage) -> dict[str, Any]:
    """Return the metadata for JSON. If there are more than TOPICS_MAX topics, return only the number of the remaining
    topics."""
    some = sorted(image.topics)[:TOPICS_MAX]
    return {
        "offset": image.offset,
        "controller_epoch": image.controller_epoch,
        "features": dict(image.features.shown),
        "brokers": {
            str(broker.broker_id): {
                "epoch": broker.epoch,
                "rack": broker.rack,
                "features": {feature.name: str(feature) for feature in broker.features},
            }
            for broker in image.brokers.values()
        },
        "topics": {name: _topic(image.topics[name]) for name in some},
        "topics_left_out": len(image.topics) - len(some),
        "deletions": [
            {"topic": deletion.topic, "topic_id": str(deletion.topic_id), "state": deletion.state}
            for deletion in image.deletions.values()
        ],
    }


def _topic(topic: TopicImage) -> dict[str, Any]:
    return {
        "topic_id": str(topic.topic_id),
        "partitions": [
            {
                "leader": partition.leader,
                "leader_epoch": partition.leader_epoch,
                "replicas": list(partition.replicas),
                "isr": list(partition.isr),
            }
            for partition in topic.partitions
        ],
    }
