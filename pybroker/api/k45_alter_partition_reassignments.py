"""AlterPartitionReassignments (key 45), versions 0–1 (KIP-455). v1 (KIP-860) may forbid another number of replicas."""

from __future__ import annotations

from itertools import groupby

from pybroker.admin.reassignments import ReassignmentAdmin
from pybroker.cluster.events import NewReplicas
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterPartitionReassignmentsResponse_ReassignablePartitionResponse,
    AlterPartitionReassignmentsResponse_ReassignableTopicResponse,
)
from pybroker.requests.context import RequestContext
from pybroker.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from pybroker.security.authorizer import Authorizer

API_KEY = 45


async def handle(
    reassignments: ReassignmentAdmin,
    authorizer: Authorizer,
    context: RequestContext,
    request: AlterPartitionReassignmentsRequest,
) -> AlterPartitionReassignmentsResponse:
    """Answers when the reassignments have begun and this broker shows them, or after timeout_ms."""
    allowed = request.allow_replication_factor_change
    try:
        if not authorizer.permits(context, AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
        wanted = _wanted(request)
        results = await reassignments.alter(
            wanted, request.timeout_ms, factor_may_change=allowed, caller=context.caller
        )
    except KafkaError as error:
        return AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=allowed, error_code=error.code, error_message=error.message
        )
    rows = zip(wanted, results, strict=True)
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=allowed,
        responses=[
            AlterPartitionReassignmentsResponse_ReassignableTopicResponse(
                name=name, partitions=[_answer(one, error) for one, error in found]
            )
            for name, found in groupby(rows, lambda row: row[0].topic)
        ],
    )


def _wanted(request: AlterPartitionReassignmentsRequest) -> list[NewReplicas]:
    return [
        NewReplicas(topic.name, one.partition_index, None if one.replicas is None else tuple(one.replicas))
        for topic in request.topics
        for one in topic.partitions
    ]


def _answer(
    wanted: NewReplicas, error: KafkaError | None
) -> AlterPartitionReassignmentsResponse_ReassignablePartitionResponse:
    return AlterPartitionReassignmentsResponse_ReassignablePartitionResponse(
        partition_index=wanted.partition,
        error_code=0 if error is None else error.code,
        error_message=None if error is None else error.message,
    )
