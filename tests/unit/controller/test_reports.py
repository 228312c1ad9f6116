"""Brokers' reports on staged and restored replicas."""

from __future__ import annotations

import pytest

from pybroker.broker.cluster.events import CreatedTopic, CreateTopics, DeleteTopics, NewTopic, UndeleteTopic
from pybroker.broker.cluster.quorum_events import ReplicasRestored, ReplicasStopped
from pybroker.broker.metadata.control_messages import (
    EPOCH_DURING_DELETE,
    RestoreReplicasRequest,
    RestoreReplicasResponse,
    RestoreTopicState,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from tests.unit.control_plane import ControlPlane
from tests.unit.controller.test_local_controller_client import HoldingBroker

CREATE = CreateTopics((NewTopic("a", 1, 1, None, {}),), False, 0, 100)


def stopped(broker_id: int, broker_epoch: int, topic_id: Uuid, last_epoch: int = -1) -> ReplicasStopped:
    state = StopReplicaPartitionState(0, EPOCH_DURING_DELETE, True)
    topic = StopReplicaTopicState("a", topic_id, [state], last_epoch)
    request = StopReplicaRequest(1, 1, broker_epoch, True, [topic])
    return ReplicasStopped(broker_id, request, StopReplicaResponse(0))


def restored(broker_id: int, broker_epoch: int, topic_id: Uuid) -> ReplicasRestored:
    request = RestoreReplicasRequest(1, 1, broker_epoch, (RestoreTopicState("a", topic_id, (0,)),))
    return ReplicasRestored(broker_id, request, RestoreReplicasResponse(0))


@pytest.mark.parametrize("undeletes", [False, True])
async def test_a_report_of_an_earlier_broker_epoch_confirms_nothing(
    control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch, undeletes: bool
) -> None:
    """The report may belong to an earlier deletion of the topic, which an undelete has ended."""
    held = HoldingBroker(monkeypatch, RestoreReplicasRequest if undeletes else StopReplicaRequest)
    await control_plane.start()
    controller, deletions = control_plane.parts.controller, control_plane.controller._deletions
    (broker,) = control_plane.parts.services.view.image.brokers.values()
    (made,) = (await controller.submit(CREATE)).reply
    assert isinstance(made, CreatedTopic)
    held.free.clear()
    try:
        await controller.submit(DeleteTopics((made.topic_id,), "User:a", 200, 50_000), timeout_ms=1)
        if undeletes:
            await controller.submit(UndeleteTopic(made.topic_id, None, "User:a", 300), timeout_ms=1)
        report = restored if undeletes else stopped
        with pytest.raises(KafkaError) as stale:
            await controller.submit(report(broker.broker_id, broker.epoch - 1, made.topic_id))
        assert stale.value.code == ErrorCode.STALE_BROKER_EPOCH
        assert deletions.pending_of(broker.broker_id) == [made.topic_id]
        await controller.submit(report(broker.broker_id, broker.epoch, made.topic_id))
        assert deletions.pending_of(broker.broker_id) == []
    finally:
        held.free.set()


async def test_a_report_of_an_earlier_deletion_confirms_nothing(
    control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker reports with delay: the topic was undeleted and deleted again meanwhile."""
    held = HoldingBroker(monkeypatch, StopReplicaRequest)
    await control_plane.start()
    controller, deletions = control_plane.parts.controller, control_plane.controller._deletions
    (broker,) = control_plane.parts.services.view.image.brokers.values()
    (made,) = (await controller.submit(CREATE)).reply
    assert isinstance(made, CreatedTopic)
    await controller.submit(DeleteTopics((made.topic_id,), "User:a", 200, 50_000))
    first = control_plane.controller._image.deletions[made.topic_id]
    await controller.submit(UndeleteTopic(made.topic_id, None, "User:a", 300))
    held.free.clear()
    try:
        await controller.submit(DeleteTopics((made.topic_id,), "User:a", 400, 50_000), timeout_ms=1)
        second = control_plane.controller._image.deletions[made.topic_id]
        await controller.submit(stopped(broker.broker_id, broker.epoch, made.topic_id, first.leader_epoch_max))
        assert deletions.pending_of(broker.broker_id) == [made.topic_id]
        await controller.submit(stopped(broker.broker_id, broker.epoch, made.topic_id, second.leader_epoch_max))
        assert deletions.pending_of(broker.broker_id) == []
    finally:
        held.free.set()
