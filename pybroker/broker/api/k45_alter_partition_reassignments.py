"""AlterPartitionReassignments (key 45), versions 0–1 (KIP-455).

Versions
- v1 may forbid a change of the replication factor (KIP-860).
- From v0 a tagged field names the topic by id (`topic_ids`).
"""

from __future__ import annotations

from pybroker.broker.admin.replica_assignment import ReassignmentAdmin
from pybroker.broker.api.topic_ids import Names, ResolvedTopic, meant
from pybroker.broker.cluster.events import NewReplicas
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import CLUSTER_NAME, AclOperation, Authorizer, ResourceType
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsRequest_ReassignablePartition,
    AlterPartitionReassignmentsResponse,
    AlterPartitionReassignmentsResponse_ReassignablePartitionResponse,
    AlterPartitionReassignmentsResponse_ReassignableTopicResponse,
)

API_KEY = 45


async def handle(
    reassignments: ReassignmentAdmin,
    names: Names,
    authorizer: Authorizer,
    context: RequestContext,
    request: AlterPartitionReassignmentsRequest,
) -> AlterPartitionReassignmentsResponse:
    """Respond when the reassignments have begun and this broker shows them, or after timeout_ms."""
    allowed = request.allow_replication_factor_change
    try:
        if not authorizer.permits(context, AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
        asked = [(meant(names, topic.name, topic.topic_id), topic.partitions) for topic in request.topics]
        requested = [_wanted(topic, partition) for topic, row in asked if topic.refused is None for partition in row]
        results = iter(
            await reassignments.alter(requested, request.timeout_ms, factor_may_change=allowed, caller=context.caller)
        )
    except KafkaError as error:
        return AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=allowed, error_code=error.code, error_message=error.message
        )
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=allowed,
        responses=[
            AlterPartitionReassignmentsResponse_ReassignableTopicResponse(
                name=topic.asked,
                topic_id=topic.told_id,
                partitions=[
                    _answer(partition.partition_index, next(results) if topic.refused is None else topic.refused)
                    for partition in row
                ],
            )
            for topic, row in asked
        ],
    )


def _wanted(topic: ResolvedTopic, one: AlterPartitionReassignmentsRequest_ReassignablePartition) -> NewReplicas:
    replicas = None if one.replicas is None else tuple(one.replicas)
    return NewReplicas(topic.name, one.partition_index, replicas, topic.topic_id)


def _answer(index: int, error: KafkaError | None) -> AlterPartitionReassignmentsResponse_ReassignablePartitionResponse:
    return AlterPartitionReassignmentsResponse_ReassignablePartitionResponse(
        partition_index=index,
        error_code=0 if error is None else error.code,
        error_message=None if error is None else error.message,
    )
