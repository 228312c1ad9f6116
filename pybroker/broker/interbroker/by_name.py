"""The controller's messages to a broker without topic ids (`inter.broker.protocol.version` below 2.8): versions of
Kafka 2.7, which use topic names. The broker's ApiVersions show its versions.

The codec omits fields that a version does not have. This module does the rest. StopReplica may concern several
incarnations of a name, but the message names each topic only once; the answer for a name then applies to each of its
incarnations.
"""

from __future__ import annotations

from typing import Any

from pybroker.broker.metadata.control_messages import (
    ControlRequest,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    PartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
    TopicPartitionErrors,
    UpdateMetadataRequest,
)
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

LAST_BY_NAME: dict[type, int] = {LeaderAndIsrRequest: 4, StopReplicaRequest: 3, UpdateMetadataRequest: 6}
"""The last version of each message with names; the next version uses topic ids."""


def named(request: ControlRequest) -> ControlRequest:
    """Return the request for the version with names."""
    if not isinstance(request, StopReplicaRequest):
        return request
    topics: dict[str, StopReplicaTopicState] = {}
    for topic in request.topic_states:
        if not topic.topic_name:
            continue  # The topic no longer has a name. The order waits until the broker supports ids.
        before = topics.get(topic.topic_name)
        states = {state.partition_index: state for state in topic.partition_states}
        last_epoch = topic.last_epoch
        if before is not None:
            states = _merged(before.partition_states, topic.partition_states)
            last_epoch = max(before.last_epoch, last_epoch)
        topics[topic.topic_name] = StopReplicaTopicState(
            topic.topic_name, Uuid.ZERO, list(states.values()), last_epoch
        )
    return StopReplicaRequest(
        request.controller_id,
        request.controller_epoch,
        request.broker_epoch,
        request.delete_partitions,
        list(topics.values()),
    )


def _merged(
    one: list[StopReplicaPartitionState], other: list[StopReplicaPartitionState]
) -> dict[int, StopReplicaPartitionState]:
    """Two orders for a partition concern two incarnations. Return the order for the later incarnation, which has the
    higher leader epoch."""
    found = {state.partition_index: state for state in one}
    for state in other:
        before = found.get(state.partition_index)
        if before is None or before.leader_epoch < state.leader_epoch:
            found[state.partition_index] = state
    return found


def by_id(request: ControlRequest, answer: Any) -> Any:
    """Convert the response with names into a response with ids."""
    if not isinstance(request, LeaderAndIsrRequest | StopReplicaRequest):
        return answer
    codes = {
        (named_error.topic_name, named_error.partition_index): named_error.error_code
        for named_error in answer.named_errors
    }
    topics = []
    for topic in request.topic_states:
        # A topic without a name was not sent, so the broker has done nothing for it.
        missing = ErrorCode.NONE if topic.topic_name else ErrorCode.UNKNOWN_TOPIC_ID
        errors = [
            PartitionError(state.partition_index, codes.get((topic.topic_name, state.partition_index), int(missing)))
            for state in topic.partition_states
        ]
        topics.append(TopicPartitionErrors(topic.topic_id, errors))
    kind = LeaderAndIsrResponse if isinstance(request, LeaderAndIsrRequest) else StopReplicaResponse
    return kind(answer.error_code, topics)
