"""The controller's messages can be sent without conversion: their fields are those of the inter-broker wire."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker.broker.metadata import control_messages as control
from pybroker.native import Uuid
from tests.wire.sent import there_and_back

TOPIC_ID = Uuid.parse("b8tRS7h4TJ2Vt43Dp85v2A")
ERRORS = [control.TopicPartitionErrors(TOPIC_ID, [control.PartitionError(0, 103), control.PartitionError(1, 0)])]
MESSAGES = [
    control.LeaderAndIsrRequest(
        1, 2, 3, control.LeaderAndIsrType.FULL,
        [control.LeaderAndIsrTopicState(
            "foo", TOPIC_ID,
            [control.LeaderAndIsrPartitionState(0, 2, 1, 5, (1, 2), 6, (1, 2, 3), (3,), (), True)],
        )],
        [control.LiveLeader(1, "host", 9092)],
    ),
    control.LeaderAndIsrResponse(0, ERRORS),
    control.StopReplicaRequest(
        1, 2, 3, False,
        [control.StopReplicaTopicState("", TOPIC_ID, [control.StopReplicaPartitionState(0, -2, True)])],
    ),
    control.StopReplicaResponse(0, ERRORS),
    control.UpdateMetadataRequest(
        1, 2, 3,
        [control.UpdateMetadataTopicState(
            "foo", TOPIC_ID, [control.UpdateMetadataPartitionState(0, 2, 1, 5, (1,), 6, (1, 2), (2,))]
        )],
        [control.UpdateMetadataBroker(1, (control.UpdateMetadataEndpoint(9092, "host", "PLAINTEXT", 0),), None)],
    ),
    control.UpdateMetadataResponse(11),
]  # fmt: skip


@pytest.mark.checklist("R9", "R15")
@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_there_and_back_over_the_wire(message: Any) -> None:
    sent, arrived = there_and_back(message)
    assert arrived == sent
