"""DescribeClusterState (key 32147, pybroker's own), version 0: returns the cluster's state as this broker knows it.

Behavior
- It contains the brokers with their epochs, the number of unhealthy partitions and the first of them, whether this
  broker reaches the metadata store, and this broker's partitions with a role that differs from the metadata.
- In a metadata quorum it also contains the quorum's state as this broker's node has it. Only the leader knows the
  progress of the other voters.
- Any broker answers. It needs DESCRIBE on the cluster.
- Topic ids are zero while `inter.broker.protocol.version` hides them.
"""

from __future__ import annotations

from itertools import islice

from pybroker.broker.admin.cluster_description import ClusterState
from pybroker.broker.admin.partition_health import Condition, Conditions
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.native import Uuid
from pybroker.native_quorum import QuorumStatus
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    DescribeClusterStateRequest,
    DescribeClusterStateResponse,
    DescribeClusterStateResponse_BrokerState,
    DescribeClusterStateResponse_DamagedTopic,
    DescribeClusterStateResponse_PartitionCondition,
    DescribeClusterStateResponse_QuorumNode,
    DescribeClusterStateResponse_QuorumVoter,
    DescribeClusterStateResponse_WrongRole,
)
from pybroker.wall_clock import wall_ms

API_KEY = 32147

PARTITIONS_MAX = 10_000
"""Limit of partitions in one response, even if the request allows more."""


async def handle(
    cluster: ClusterState, authorizer: Authorizer, context: RequestContext, request: DescribeClusterStateRequest
) -> DescribeClusterStateResponse:
    """Return the state from this broker's view of the cluster."""
    if not authorizer.permits_on_cluster(context, AclOperation.DESCRIBE):
        return DescribeClusterStateResponse(error_code=int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    conditions = cluster.conditions
    await conditions.catch_up()
    image, counts = conditions.image, conditions.counts()
    partitions_max = max(0, min(request.partitions_max, PARTITIONS_MAX))
    return DescribeClusterStateResponse(
        broker_id=cluster.broker_id,
        store_session=cluster.session.state.value,
        controller_id=cluster.cluster.controller_id,
        controller_epoch=image.controller_epoch,
        topics=len(image.topics),
        partitions=counts.partitions,
        offline_partitions=counts.offline,
        under_replicated_partitions=counts.under_replicated,
        under_min_isr_partitions=counts.under_min_isr,
        at_min_isr_partitions=counts.at_min_isr,
        reassigning_partitions=counts.reassigning,
        too_few_replicas_partitions=counts.too_few_replicas,
        brokers=_brokers(conditions),
        conditions=[
            _condition(condition, image.topic_ids) for condition in islice(conditions.troubled(), partitions_max)
        ],
        damaged_topics=[
            DescribeClusterStateResponse_DamagedTopic(name=name, reason=reason)
            for name, reason in sorted(image.damaged.items())
        ],
        wrong_roles=[
            DescribeClusterStateResponse_WrongRole(
                name=mismatch.topic,
                topic_id=mismatch.topic_id if image.topic_ids else Uuid.ZERO,
                partition_index=mismatch.partition,
                leader_epoch=mismatch.leader_epoch,
                found=mismatch.found,
            )
            for mismatch in islice(cluster.wrong_roles(), partitions_max)
        ],
        quorum=[] if cluster.quorum is None else [_quorum(cluster.quorum(), wall_ms())],
    )


def _quorum(status: QuorumStatus, now_ms: int) -> DescribeClusterStateResponse_QuorumNode:
    return DescribeClusterStateResponse_QuorumNode(
        role=status.role,
        epoch=status.epoch,
        leader_id=-1 if status.leader is None else status.leader,
        high_watermark=status.high_watermark,
        log_end_offset=status.log_end,
        voters=[
            DescribeClusterStateResponse_QuorumVoter(
                voter_id=voter.node_id,
                log_end_offset=voter.end_offset,
                ms_since_fetch=_since(voter.fetched_ms, now_ms),
                ms_since_caught_up=_since(voter.caught_up_ms, now_ms),
            )
            for voter in status.voters
        ],
    )


def _since(then_ms: int, now_ms: int) -> int:
    return -1 if then_ms < 0 else max(0, now_ms - then_ms)


def _brokers(conditions: Conditions) -> list[DescribeClusterStateResponse_BrokerState]:
    image, rows = conditions.image, []
    for broker_id, load in sorted(conditions.loads().items()):
        alive = image.brokers.get(broker_id)
        rows.append(
            DescribeClusterStateResponse_BrokerState(
                broker_id=broker_id,
                broker_epoch=-1 if alive is None else alive.epoch,
                rack=None if alive is None else alive.rack,
                leaving=broker_id in image.leaving,
                leaders=load.leaders,
                replicas=load.replicas,
            )
        )
    return rows


def _condition(one: Condition, topic_ids: bool) -> DescribeClusterStateResponse_PartitionCondition:
    state = one.state
    return DescribeClusterStateResponse_PartitionCondition(
        name=one.topic.name,
        topic_id=one.topic.topic_id if topic_ids else Uuid.ZERO,
        partition_index=one.partition,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        adding_nodes=list(state.adding_replicas),
        removing_nodes=list(state.removing_replicas),
        min_isr=one.min_isr,
        replicas_wanted=one.replicas_wanted,
    )
