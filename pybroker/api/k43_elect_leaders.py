"""ElectLeaders (key 43), versions 0–2 (KIP-460). v0 knows preferred leaders only and has no error for the whole."""

from __future__ import annotations

from itertools import groupby

from pybroker.admin.elections import ElectionAdmin
from pybroker.cluster.events import ElectionOutcome
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersResponse_PartitionResult,
    ElectLeadersResponse_ReplicaElectionResult,
)
from pybroker.requests.context import RequestContext
from pybroker.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from pybroker.security.authorizer import Authorizer

API_KEY = 43

PREFERRED, UNCLEAN = 0, 1


async def handle(
    elections: ElectionAdmin, authorizer: Authorizer, context: RequestContext, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    """Answers when this broker shows the new leaders, or after timeout_ms."""
    partitions = _named(request)
    try:
        if not authorizer.permits(context, AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
        if request.election_type not in (PREFERRED, UNCLEAN):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"There is no election type {request.election_type}.")
        unclean = request.election_type == UNCLEAN
        outcomes = await elections.elect(partitions, request.timeout_ms, unclean=unclean, caller=context.caller)
    except KafkaError as error:
        # Version 0 shows only what stands in the partitions.
        refused = [ElectionOutcome(name, index, error.code, error.message) for name, index in partitions or ()]
        return ElectLeadersResponse(error_code=error.code, replica_election_results=_results(refused))
    return ElectLeadersResponse(replica_election_results=_results(outcomes))


def _named(request: ElectLeadersRequest) -> list[tuple[str, int]] | None:
    if request.topic_partitions is None:
        return None
    return [(topic.topic, index) for topic in request.topic_partitions for index in topic.partitions]


def _results(outcomes: list[ElectionOutcome]) -> list[ElectLeadersResponse_ReplicaElectionResult]:
    return [
        ElectLeadersResponse_ReplicaElectionResult(
            topic=topic,
            partition_result=[
                ElectLeadersResponse_PartitionResult(
                    partition_id=one.partition, error_code=one.error_code, error_message=one.error_message
                )
                for one in found
            ],
        )
        for topic, found in groupby(sorted(outcomes, key=lambda one: one.topic), lambda one: one.topic)
    ]
