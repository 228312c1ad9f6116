"""ElectLeaders (key 43), versions 0–2 (KIP-460).

Versions
- v0 elects preferred leaders only and has no top-level error.
- From v2 a tagged field names the topic by id (`topic_ids`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from pybroker.broker.admin.replica_assignment import ElectionAdmin
from pybroker.broker.api.topic_ids import Names, ResolvedTopic, meant
from pybroker.broker.cluster.events import ElectedPartition, ElectionOutcome
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import CLUSTER_NAME, AclOperation, Authorizer, ResourceType
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersResponse_PartitionResult,
    ElectLeadersResponse_ReplicaElectionResult,
)

API_KEY = 43

PREFERRED, UNCLEAN = 0, 1


async def handle(
    elections: ElectionAdmin,
    names: Names,
    authorizer: Authorizer,
    context: RequestContext,
    request: ElectLeadersRequest,
) -> ElectLeadersResponse:
    """Respond when this broker shows the new leaders, or after timeout_ms."""
    asked = _asked(names, request)
    requested = None if asked is None else _wanted(asked)
    try:
        if not authorizer.permits(context, AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
        if request.election_type not in (PREFERRED, UNCLEAN):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}.")
        unclean = request.election_type == UNCLEAN
        outcomes = await elections.elect(requested, request.timeout_ms, unclean=unclean, caller=context.caller)
    except KafkaError as error:
        # In version 0 only partitions have errors.
        refused = [
            _row(topic.asked, topic.told_id, [_refused(topic.asked, partition, error) for partition in row])
            for topic, row in asked or ()
        ]
        return ElectLeadersResponse(error_code=error.code, replica_election_results=refused)
    rows = [
        _row(topic.asked, topic.told_id, [_refused(topic.asked, partition, topic.refused) for partition in row])
        for topic, row in asked or ()
        if topic.refused is not None
    ]
    rows += [_row(topic.asked, topic.told_id, []) for topic, row in asked or () if topic.refused is None and not row]
    asked_topics = {topic.name: (topic.asked, topic.told_id) for topic, _ in asked or ()}
    by_topic = groupby(sorted(outcomes, key=lambda one: one.topic), lambda one: one.topic)
    for name, found in by_topic:
        name_shown, topic_id = asked_topics.get(name, (name, Uuid.ZERO))
        rows.append(_row(name_shown, topic_id, list(found)))
    return ElectLeadersResponse(replica_election_results=rows)


def _asked(names: Names, request: ElectLeadersRequest) -> list[tuple[ResolvedTopic, Sequence[int]]] | None:
    if request.topic_partitions is None:
        return None
    return [(meant(names, topic.topic, topic.topic_id), topic.partitions) for topic in request.topic_partitions]


def _wanted(asked: Sequence[tuple[ResolvedTopic, Sequence[int]]]) -> list[ElectedPartition]:
    """Return the partitions that have no error yet."""
    return [
        ElectedPartition(topic.name, index, topic.topic_id)
        for topic, indexes in asked
        if topic.refused is None
        for index in indexes
    ]


def _refused(name: str, index: int, error: KafkaError) -> ElectionOutcome:
    return ElectionOutcome(name, index, error.code, error.message)


def _row(name: str, topic_id: Uuid, outcomes: Sequence[ElectionOutcome]) -> ElectLeadersResponse_ReplicaElectionResult:
    return ElectLeadersResponse_ReplicaElectionResult(
        topic=name,
        topic_id=topic_id,
        partition_result=[
            ElectLeadersResponse_PartitionResult(
                partition_id=outcome.partition, error_code=outcome.error_code, error_message=outcome.error_message
            )
            for outcome in outcomes
        ],
    )
