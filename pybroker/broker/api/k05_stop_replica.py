"""StopReplica (key 5), between controller and broker only.

Versions
- v4 is KIP-516's, by topic id; v3 is by name.
"""

from __future__ import annotations

from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.metadata.control_messages import (
    EPOCH_DURING_DELETE,
    NamedPartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from pybroker.broker.metadata.deletion_records import DELETING
from pybroker.broker.replicas.replica_manager import ReplicaManager
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

API_KEY = 5


async def handle(replicas: ReplicaManager, request: StopReplicaRequest) -> StopReplicaResponse:
    """Respond when clients can no longer reach the data, because the replicas are stopped or staged for removal."""
    return await replicas.stop_replica(request)


async def handle_by_name(
    replicas: ReplicaManager, view: ClusterView, request: StopReplicaRequest
) -> StopReplicaResponse:
    """Handle the version with names: stop every local incarnation of the name whose leader epoch is not above the
    leader epoch in the request.
    """
    found: dict[Uuid, list[StopReplicaPartitionState]] = {}
    meant: list[tuple[str, int, list[Uuid]]] = []
    refused: list[NamedPartitionError] = []
    for topic in request.topic_states:
        name = topic.topic_name
        for state in topic.partition_states:
            index = state.partition_index
            served = replicas.served_at(name, index)
            deleted = state.leader_epoch == EPOCH_DURING_DELETE
            if deleted and served is not None and -1 < topic.last_epoch < served.epoch:
                refused.append(NamedPartitionError(name, index, ErrorCode.FENCED_LEADER_EPOCH))
                continue
            ids = [served.topic_id] if served is not None else _ids(replicas, view, name, index)
            for topic_id in ids:
                found.setdefault(topic_id, []).append(state)
            meant.append((name, index, ids))
    states = [StopReplicaTopicState("", topic_id, mine) for topic_id, mine in found.items()]
    stopped = await replicas.stop_replica(
        StopReplicaRequest(
            request.controller_id, request.controller_epoch, request.broker_epoch, request.delete_partitions, states
        )
    )
    codes = {
        (topic.topic_id, error.partition_index): error.error_code
        for topic in stopped.topics
        for error in topic.partition_errors
    }
    named_errors = [
        NamedPartitionError(name, index, next(filter(None, (codes[topic_id, index] for topic_id in ids)), 0))
        for name, index, ids in meant
    ]
    return StopReplicaResponse(stopped.error_code, named_errors=named_errors + refused)


def _ids(replicas: ReplicaManager, view: ClusterView, name: str, index: int) -> list[Uuid]:
    """Return the topic ids of a name's dead incarnations on this broker: replicas on disk that it does not serve, and
    running deletions.
    """
    image = view.image
    living = image.topics.get(name)
    ids = {
        record.topic_id: None
        for record in image.deletions.values()
        if record.state == DELETING and record.topic == name and index in record.partitions
    }
    ids |= dict.fromkeys(replicas.unclaimed_at(name, index))
    return [topic_id for topic_id in ids if living is None or topic_id != living.topic_id]
