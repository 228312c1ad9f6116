"""What a controller hands over as objects can be sent as it is: the same fields as on the inter-broker wire."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker import native
from pybroker.metadata import control_messages as control
from pybroker.native import Uuid

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
        [control.StopReplicaTopicState(TOPIC_ID, [control.StopReplicaPartitionState(0, -2, True)])],
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


def as_wire(classes: dict[str, Any], kind: str, value: Any) -> Any:
    """`value` as the class of the wire that the schema calls `kind`."""
    if kind.startswith("[]"):
        return [as_wire(classes, kind[2:], each) for each in value]
    if kind not in classes:
        return value
    fields = {name: field_kind for name, field_kind, *_ in classes[kind]}
    assert set(type(value).__struct_fields__) == set(fields), kind
    made = native.message_class(kind, interbroker=True)
    assert made is not None
    return made(**{name: as_wire(classes, field_kind, getattr(value, name)) for name, field_kind in fields.items()})


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_there_and_back_over_the_wire(message: Any) -> None:
    name = type(message).__name__
    schema = native.message_schema(name, interbroker=True)
    assert schema is not None
    kind, key, version, _, classes = schema
    assert key is not None
    sent = as_wire(dict(classes), name, message)
    assert native.decode(key, version, native.encode(sent, version), kind == "request", interbroker=True) == sent
