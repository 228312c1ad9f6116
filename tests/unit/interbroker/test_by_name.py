"""StopReplica to a broker without topic ids: one name for all incarnations, and its result is the result of each."""

from __future__ import annotations

import pytest

from pybroker.broker.interbroker.by_name import by_id, named
from pybroker.broker.metadata.control_messages import (
    NamedPartitionError,
    PartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
    TopicPartitionErrors,
)
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

FIRST, SECOND, NAMELESS = (Uuid.random() for _ in range(3))


def deleted(index: int) -> StopReplicaPartitionState:
    return StopReplicaPartitionState(index, -2, True)


@pytest.mark.checklist(118, "R39")
def test_incarnations_of_a_name_are_one_order() -> None:
    moved = StopReplicaPartitionState(1, 7, True)
    request = StopReplicaRequest(
        1,
        2,
        3,
        True,
        [
            StopReplicaTopicState("a", FIRST, [deleted(0), deleted(1)], 4),
            StopReplicaTopicState("a", SECOND, [deleted(0)], 6),
            StopReplicaTopicState("", NAMELESS, [deleted(0)], 6),
        ],
    )
    said = named(request)
    assert isinstance(said, StopReplicaRequest)
    assert said.topic_states == [StopReplicaTopicState("a", Uuid.ZERO, [deleted(0), deleted(1)], 6)]
    answer = StopReplicaResponse(0, named_errors=[NamedPartitionError("a", 0, 0), NamedPartitionError("a", 1, 56)])
    assert by_id(request, answer) == StopReplicaResponse(
        0,
        [
            TopicPartitionErrors(FIRST, [PartitionError(0, 0), PartitionError(1, 56)]),
            TopicPartitionErrors(SECOND, [PartitionError(0, 0)]),
            # The first report did not name the topic, so report it again.
            TopicPartitionErrors(NAMELESS, [PartitionError(0, ErrorCode.UNKNOWN_TOPIC_ID)]),
        ],
    )
    # A replica that moved away belongs to the existing topic: its leader epoch proves it.
    request.topic_states[1] = StopReplicaTopicState("a", SECOND, [moved])
    said = named(request)
    assert isinstance(said, StopReplicaRequest)
    assert said.topic_states == [StopReplicaTopicState("a", Uuid.ZERO, [deleted(0), moved], 4)]
