"""ListPartitionReassignments (key 46), version 0 (KIP-455): answered from this broker's view of the cluster.

Behavior
- The response has no error per topic: a topic whose id does not match its name is omitted.

Versions
- From v0 a tagged field names the topic by id (`topic_ids`).
"""

from __future__ import annotations

from pybroker.broker.admin.replica_assignment import ReassignmentAdmin
from pybroker.broker.api.topic_ids import Names, meant
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsResponse_OngoingPartitionReassignment,
    ListPartitionReassignmentsResponse_OngoingTopicReassignment,
)

API_KEY = 46


def handle(
    reassignments: ReassignmentAdmin,
    names: Names,
    authorizer: Authorizer,
    context: RequestContext,
    request: ListPartitionReassignmentsRequest,
) -> ListPartitionReassignmentsResponse:
    """Return the running reassignments; if topics are null, of all partitions."""
    if not authorizer.permits_on_cluster(context, AclOperation.DESCRIBE):
        return ListPartitionReassignmentsResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message="Cluster authorization failed."
        )
    requested: dict[str, list[int]] | None = None
    ids: dict[str, Uuid] = {}
    if request.topics is not None:
        requested = {}
        for asked in request.topics:
            topic = meant(names, asked.name, asked.topic_id)
            if topic.refused is None:
                requested.setdefault(topic.name, []).extend(asked.partition_indexes)
                ids[topic.name] = topic.told_id
    return ListPartitionReassignmentsResponse(
        topics=[
            ListPartitionReassignmentsResponse_OngoingTopicReassignment(
                name=name,
                topic_id=ids.get(name, Uuid.ZERO),
                partitions=[
                    ListPartitionReassignmentsResponse_OngoingPartitionReassignment(
                        partition_index=index,
                        replicas=list(state.replicas),
                        adding_replicas=list(state.adding_replicas),
                        removing_replicas=list(state.removing_replicas),
                    )
                    for index, state in partitions.items()
                ],
            )
            for name, partitions in reassignments.under_way(requested).items()
        ]
    )
