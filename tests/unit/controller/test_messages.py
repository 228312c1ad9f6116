"""Messages to a broker, and their order: FULL first, then changes, always by topic id."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from pybroker.broker.api.controller_messages import ControlReceiver
from pybroker.broker.controller import deletion_tracker
from pybroker.broker.metadata import broadcast, znodes
from pybroker.broker.metadata.control_messages import (
    CloseTopics,
    LeaderAndIsrRequest,
    PartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
    TopicPartitionErrors,
    UpdateCluster,
    UpdateMetadataRequest,
)
from pybroker.broker.metadata.deletion_records import DELETING, STAGED
from pybroker.native import Uuid
from pybroker.protocol import messages as m
from tests.unit.control_plane import ControlPlane
from tests.wire.sent import there_and_back

INCREMENTAL, FULL = 1, 2


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list to which every later message of a controller is added, in order."""
    sent: list[Any] = []
    handle = ControlReceiver.handle

    async def listening(*bound_and_request: Any) -> Any:
        sent.append(bound_and_request[-1])
        return await handle(*bound_and_request)

    monkeypatch.setattr(ControlReceiver, "handle", listening)
    return sent


async def create(plane: ControlPlane, name: str, partitions: int) -> Uuid:
    topic = m.CreateTopicsRequest_CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    (row,) = (await plane.call(19, m.CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)).topics
    assert row.error_code == 0
    topic_id: Uuid = row.topic_id
    return topic_id


async def delete(plane: ControlPlane, topic_id: Uuid) -> None:
    state = m.DeleteTopicsRequest_DeleteTopicState(name=None, topic_id=topic_id)
    (row,) = (await plane.call(20, m.DeleteTopicsRequest(topics=[state], timeout_ms=30_000), 6)).responses
    assert row.error_code == 0


def leaders(request: LeaderAndIsrRequest) -> dict[tuple[str, Uuid], list[int]]:
    return {
        (topic.topic_name, topic.topic_id): [partition.partition_index for partition in topic.partition_states]
        for topic in request.topic_states
    }


@pytest.mark.checklist(32, 37, 38, 39, 40, 41, 47, 50, 58, 64, 65, 66, 103, 105, "D5", "R35")
async def test_full_first_then_only_what_changes(
    control_plane: ControlPlane, said: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Above this number of partitions, a broker gets several messages, and serves clients after the last one.
    monkeypatch.setattr(broadcast, "SHOWN_AT_ONCE_MAX", 2)
    plane = control_plane
    broker = await plane.start()
    a = await create(plane, "a", 2)
    b = await create(plane, "b", 1)
    assert broker.services is not None
    node = json.loads((await plane.store.get(znodes.topic_path("a"))).data)
    assert (node["version"], node["id"], node["partitions"]) == (3, str(a), {"0": [1], "1": [1]})
    created = [request for request in said if isinstance(request, LeaderAndIsrRequest)]
    assert (created[0].type, leaders(created[0])) == (FULL, {})
    # The second message has only the second partition: a partition that it does not name stays.
    assert [(each.type, leaders(each)) for each in created[1:]] == [
        (INCREMENTAL, {("a", a): [0, 1]}),
        (INCREMENTAL, {("b", b): [0]}),
    ]
    told = [request for request in said if isinstance(request, UpdateMetadataRequest)]
    assert [(topic.topic_name, topic.topic_id) for topic in told[-1].topic_states] == [("b", b)]
    await plane.stop()
    said.clear()
    await plane.start()
    # In a new broker epoch the broker first gets everything, with every id, before any other message about partitions.
    about_partitions = LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest
    first = next(request for request in said if isinstance(request, about_partitions))
    assert isinstance(first, LeaderAndIsrRequest)
    assert (first.type, leaders(first)) == (FULL, {("a", a): [0, 1], ("b", b): [0]})
    told = [request for request in said if isinstance(request, UpdateMetadataRequest)]
    assert [[(topic.topic_name, topic.topic_id) for topic in each.topic_states] for each in told] == [
        [("a", a)],
        [("b", b)],
    ]


@pytest.mark.checklist(58, 110, 111, 114, 117, 119, "R11", "X18")
async def test_a_deletion_is_stored_shown_and_then_collected_by_id(
    control_plane: ControlPlane, said: list[Any]
) -> None:
    plane = control_plane
    broker = await plane.start()
    topic_id = await create(plane, "a", 2)
    said.clear()
    await delete(plane, topic_id)
    assert broker.services is not None
    store, image = plane.store, broker.services.view.image
    # The deletion is answered: the name is free and the deletion is stored, in the same change.
    assert await store.exists(znodes.topic_path("a")) is None
    assert topic_id in image.deletions
    # The topic is fenced and the deletion is decided. Then all brokers know it, clients no longer see the topic, and
    # its data is staged.
    closed, known, shown, stopped = said[:4]
    assert isinstance(closed, CloseTopics)
    assert closed.topics == (topic_id,)
    assert isinstance(known, UpdateCluster)
    assert isinstance(shown, UpdateMetadataRequest)
    assert [(topic.topic_name, topic.topic_id) for topic in shown.topic_states] == [("a", topic_id)]
    assert isinstance(stopped, StopReplicaRequest)
    ((stopped_id, states),) = [(topic.topic_id, topic.partition_states) for topic in stopped.topic_states]
    assert stopped_id == topic_id
    assert [(state.partition_index, state.delete_partition) for state in states] == [(0, True), (1, True)]
    assert there_and_back(stopped)[1].topic_states[0].topic_name == "", "no names on the wire"


async def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for `condition`, with a generous time limit."""
    for _ in range(6000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError(what)


@pytest.mark.checklist(122, 123)
async def test_a_stop_that_fails_is_said_again_but_not_for_ever(
    control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failing, stops = True, 0
    handle = ControlReceiver.handle

    async def disk_that_fails(*bound_and_request: Any) -> Any:
        nonlocal stops
        request = bound_and_request[-1]
        if not isinstance(request, StopReplicaRequest):
            return await handle(*bound_and_request)
        stops += 1
        if not failing:
            return await handle(*bound_and_request)
        return StopReplicaResponse(
            0, [TopicPartitionErrors(each.topic_id, [PartitionError(0, 56)]) for each in request.topic_states]
        )

    monkeypatch.setattr(ControlReceiver, "handle", disk_that_fails)
    monkeypatch.setattr(deletion_tracker, "RETRY_S", 0.001)
    monkeypatch.setattr(deletion_tracker, "RETRIES_MAX", 5)
    plane = control_plane
    broker = await plane.start()
    assert broker.services is not None
    first = await create(plane, "a", 1)
    await delete(plane, first)  # answered although no replica has confirmed
    await until(lambda: "does not confirm" in caplog.text, "the controller gives up")
    assert (stops, broker.services.view.image.deletions[first].state) == (1 + 5, DELETING)
    # The next controller starts from the stored state; this time the disk works.
    await plane.stop()
    failing, stops = False, 0
    broker = await plane.start()
    assert broker.services is not None
    view = broker.services.view
    await until(lambda: view.image.deletions[first].state == STAGED, "the deletion goes on")
    assert stops == 1
    # A deletion whose order fails twice is completed by the third order.
    second = await create(plane, "a", 1)
    failing, stops = True, 0
    await delete(plane, second)
    await until(lambda: stops >= 2, "the controller asks again")
    failing = False
    await until(lambda: view.image.deletions[second].state == STAGED, "it is confirmed")
