"""LeaderAndIsr (key 4), between controller and broker only.

Versions
- v5 is KIP-516's, by topic id; v4 is by name.
"""

from __future__ import annotations

import msgspec

from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.metadata.control_messages import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrType,
    NamedPartitionError,
)
from pybroker.broker.replicas.replica_manager import ReplicaManager
from pybroker.protocol.error_codes import ErrorCode

API_KEY = 4


async def handle(replicas: ReplicaManager, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
    """Respond when all partitions are open, with an error for each partition that could not be opened."""
    return await replicas.leader_and_isr(request)


async def handle_by_name(
    replicas: ReplicaManager, view: ClusterView, request: LeaderAndIsrRequest
) -> LeaderAndIsrResponse:
    """Handle the version with names. A name means the topic that has the name in the current image, because the
    controller sends the change that creates a topic before this order. This version has no type field, so the broker
    does not compare the replicas on its disks with the request.
    """
    living, unknown, names = [], [], {}
    for topic in request.topic_states:
        known = view.image.topics.get(topic.topic_name)
        if known is None:
            unknown += [
                NamedPartitionError(topic.topic_name, state.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                for state in topic.partition_states
            ]
            continue
        names[known.topic_id] = topic.topic_name
        living.append(msgspec.structs.replace(topic, topic_id=known.topic_id))
    resolved = msgspec.structs.replace(request, type=int(LeaderAndIsrType.INCREMENTAL), topic_states=living)
    applied = await replicas.leader_and_isr(resolved)
    named_errors = [
        NamedPartitionError(names[topic.topic_id], error.partition_index, error.error_code)
        for topic in applied.topics
        for error in topic.partition_errors
    ]
    return LeaderAndIsrResponse(applied.error_code, named_errors=named_errors + unknown)
