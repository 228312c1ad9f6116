"""DescribeQuorum (key 55), versions 0–2: the leader of the metadata log, its voters and its observers (KIP-595).

Behavior
- Any broker answers; it asks the leader. It needs DESCRIBE on the cluster.
- A partition other than partition 0 of the metadata topic is UNKNOWN_TOPIC_OR_PARTITION.

Versions
- v1 adds the times of fetches (KIP-836); v2 adds directory ids and addresses (KIP-853).
"""

from __future__ import annotations

from collections.abc import Sequence

from pybroker.broker.admin.quorum import VoterAdmin
from pybroker.broker.admin.topic_names import METADATA_LOG
from pybroker.broker.cluster.quorum_events import QuorumReplicaState, QuorumState
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    DescribeQuorumRequest,
    DescribeQuorumRequest_PartitionData,
    DescribeQuorumResponse,
    DescribeQuorumResponse_Listener,
    DescribeQuorumResponse_Node,
    DescribeQuorumResponse_PartitionData,
    DescribeQuorumResponse_ReplicaState,
    DescribeQuorumResponse_TopicData,
)

API_KEY = 55
PARTITION = 0


async def handle(
    quorum: VoterAdmin, authorizer: Authorizer, context: RequestContext, request: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    """Respond with the leader's view."""
    try:
        authorizer.require_cluster(context, AclOperation.DESCRIBE)
        state = await quorum.describe(context.caller)
    except KafkaError as error:
        return DescribeQuorumResponse(error_code=error.code, error_message=error.message)
    topics = [
        DescribeQuorumResponse_TopicData(
            topic_name=topic.topic_name,
            partitions=[_partition(topic.topic_name, partition, state) for partition in topic.partitions],
        )
        for topic in request.topics
    ]
    return DescribeQuorumResponse(
        error_message=None, topics=topics, nodes=_nodes((*state.voters, *state.observers), quorum.listener)
    )


def _partition(
    topic: str, partition: DescribeQuorumRequest_PartitionData, state: QuorumState
) -> DescribeQuorumResponse_PartitionData:
    if (topic, partition.partition_index) != (METADATA_LOG, PARTITION):
        return DescribeQuorumResponse_PartitionData(
            partition_index=partition.partition_index,
            error_code=int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            error_message="Only the metadata topic has a quorum.",
        )
    return DescribeQuorumResponse_PartitionData(
        partition_index=PARTITION,
        error_message=None,
        leader_id=state.leader,
        leader_epoch=state.epoch,
        high_watermark=state.high_watermark,
        current_voters=_replicas(state.voters),
        observers=_replicas(state.observers),
    )


def _replicas(replicas: Sequence[QuorumReplicaState]) -> list[DescribeQuorumResponse_ReplicaState]:
    return [
        DescribeQuorumResponse_ReplicaState(
            replica_id=replica.node_id,
            replica_directory_id=replica.directory_id,
            log_end_offset=replica.end_offset,
            last_fetch_timestamp=replica.fetched_ms,
            last_caught_up_timestamp=replica.caught_up_ms,
        )
        for replica in replicas
    ]


def _nodes(replicas: Sequence[QuorumReplicaState], listener: str) -> list[DescribeQuorumResponse_Node]:
    return [
        DescribeQuorumResponse_Node(
            node_id=replica.node_id,
            listeners=[
                DescribeQuorumResponse_Listener(
                    name=address.listener or listener, host=address.host, port=address.port
                )
                for address in replica.addresses
            ],
        )
        for replica in replicas
        if replica.addresses
    ]
