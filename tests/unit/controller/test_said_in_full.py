"""Every field of the controller's messages, with realistic values, also as inter-broker bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pybroker.broker.api.controller_messages import ControlReceiver
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.control_messages import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from pybroker.broker.metadata.sqlite_store import EmbeddedStore
from pybroker.native import Uuid
from pybroker.protocol import messages as m
from tests.unit.control_plane import ControlPlane, until
from tests.wire.sent import there_and_back

INCREMENTAL, FULL = 1, 2
PLAINTEXT = 0
ON_THE_WIRE = LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest
NODE, PORT = 7, 9092


@pytest.fixture
def exchanged(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """Return each message of the controller with its response."""
    pairs: list[tuple[Any, Any]] = []
    handle = ControlReceiver.handle

    async def listening(*bound_and_request: Any) -> Any:
        answer = await handle(*bound_and_request)
        pairs.append((bound_and_request[-1], answer))
        return answer

    monkeypatch.setattr(ControlReceiver, "handle", listening)
    return pairs


async def create(plane: ControlPlane, name: str, partitions: int) -> Uuid:
    topic = m.CreateTopicsRequest_CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    (row,) = (await plane.call(19, m.CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)).topics
    assert row.error_code == 0
    topic_id: Uuid = row.topic_id
    return topic_id


async def delete(plane: ControlPlane, name: str) -> None:
    state = m.DeleteTopicsRequest_DeleteTopicState(name=name)
    (row,) = (await plane.call(20, m.DeleteTopicsRequest(topics=[state], timeout_ms=30_000), 6)).responses
    assert row.error_code == 0


BY_NAME_ONLY = {"named_errors", "last_epoch"}
"""Fields that only versions without topic ids have."""


def shape(value: Any) -> Any:
    """Return a message as nested plain values, to detect missing and additional fields."""
    if isinstance(value, list | tuple):
        return [shape(each) for each in value]
    if hasattr(value, "__struct_fields__"):
        hidden = BY_NAME_ONLY | ({"topic_name"} if isinstance(value, StopReplicaTopicState) else set())
        return {name: shape(getattr(value, name)) for name in value.__struct_fields__ if name not in hidden}
    return value


@pytest.mark.checklist(51, 52, 60, 61, 62, 63, 76, 77, 83, 84, 85, 102, 103, 104, "R15", "X13", "X14")
async def test_every_field_has_its_value_and_the_codec_carries_it(
    control_plane: ControlPlane, exchanged: list[tuple[Any, Any]]
) -> None:
    plane = control_plane
    plane.settings |= {
        "node.id": str(NODE),
        "broker.rack": "r1",
        "listeners": "CLIENTS://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:PLAINTEXT",
        "advertised.listeners": f"CLIENTS://shown.example:{PORT}",
    }
    broker = await plane.start()
    a = await create(plane, "a", 2)
    b = await create(plane, "b", 1)
    assert broker.services is not None
    first = next(request for request, _ in exchanged if isinstance(request, ON_THE_WIRE))
    epochs = {"controller_id": NODE, "controller_epoch": 1, "broker_epoch": first.broker_epoch}
    assert first.broker_epoch > 0

    def leads(index: int, *, new: bool) -> dict[str, Any]:
        state = {"partition_index": index, "controller_epoch": 1, "leader": NODE, "leader_epoch": 0}
        more = {"isr": [NODE], "zk_version": 0, "replicas": [NODE], "adding_replicas": [], "removing_replicas": []}
        return {**state, **more, "is_new": new, "start_offset": 0}

    def shown(index: int) -> dict[str, Any]:
        state = {"partition_index": index, "controller_epoch": 1, "leader": NODE, "leader_epoch": 0}
        return {**state, "isr": [NODE], "zk_version": 0, "replicas": [NODE], "offline_replicas": []}

    def said(kind: type) -> list[Any]:
        return [(shape(request), shape(answer)) for request, answer in exchanged if isinstance(request, kind)]

    live_brokers = [
        {
            "id": NODE,
            "endpoints": [
                {"port": PORT, "host": "shown.example", "listener": "CLIENTS", "security_protocol": PLAINTEXT}
            ],
            "rack": "r1",
        }
    ]
    topics = [
        {"topic_name": "a", "topic_id": a, "partition_states": [leads(0, new=True), leads(1, new=True)]},
        {"topic_name": "b", "topic_id": b, "partition_states": [leads(0, new=True)]},
    ]
    live = {"live_leaders": [{"broker_id": NODE, "host_name": "shown.example", "port": PORT}]}
    no_error = {"partition_errors": [{"partition_index": index, "error_code": 0} for index in range(2)]}
    assert said(LeaderAndIsrRequest) == [
        ({**epochs, "type": FULL, "topic_states": [], "live_leaders": []}, {"error_code": 0, "topics": []}),
        (
            {**epochs, "type": INCREMENTAL, "topic_states": topics[:1], **live},
            {"error_code": 0, "topics": [{"topic_id": a, **no_error}]},
        ),
        (
            {**epochs, "type": INCREMENTAL, "topic_states": topics[1:], **live},
            {
                "error_code": 0,
                "topics": [{"topic_id": b, "partition_errors": [{"partition_index": 0, "error_code": 0}]}],
            },
        ),
    ]
    told = said(UpdateMetadataRequest)[-1]
    assert told == (
        {
            **epochs,
            "topic_states": [{"topic_name": "b", "topic_id": b, "partition_states": [shown(0)]}],
            "live_brokers": live_brokers,
        },
        {"error_code": 0},
    )
    await delete(plane, "a")
    await until(lambda: said(StopReplicaRequest))  # the deletion is answered without waiting for it
    stopped = [{"partition_index": index, "leader_epoch": -2, "delete_partition": True} for index in range(2)]
    assert said(StopReplicaRequest) == [
        (
            {**epochs, "delete_partitions": True, "topic_states": [{"topic_id": a, "partition_states": stopped}]},
            {"error_code": 0, "topics": [{"topic_id": a, **no_error}]},
        )
    ]
    # Encode it all: every field must exist on the wire.
    answers = LeaderAndIsrResponse | StopReplicaResponse | UpdateMetadataResponse
    carried = [one for pair in exchanged for one in pair if isinstance(one, ON_THE_WIRE | answers)]
    assert len(carried) >= 12
    for message in carried:
        sent, arrived = there_and_back(message)
        assert arrived == sent


@pytest.mark.checklist(76, 77)
async def test_answers_name_a_topic_once_by_its_id(
    control_plane: ControlPlane, exchanged: list[tuple[Any, Any]]
) -> None:
    """There are several topics in one request, as in a FULL one."""
    plane = control_plane
    await plane.start()
    ids = [await create(plane, name, partitions) for name, partitions in (("a", 2), ("b", 3))]
    await plane.stop()
    exchanged.clear()
    await plane.start()
    (answer,) = [answer for request, answer in exchanged if isinstance(request, LeaderAndIsrRequest)]
    assert [(topic.topic_id, len(topic.partition_errors)) for topic in answer.topics] == [(ids[0], 2), (ids[1], 3)]
    assert set(type(answer.topics[0]).__struct_fields__) == {"topic_id", "partition_errors"}, "no names"


@pytest.mark.checklist(46, 47)
async def test_the_controller_knows_each_id_by_name_and_each_name_by_id(control_plane: ControlPlane) -> None:
    plane = control_plane
    broker = await plane.start()
    ids = {name: await create(plane, name, 1) for name in ("a", "b", "c")}

    def known() -> tuple[dict[str, Uuid], dict[Uuid, str]]:
        assert broker.services is not None
        image = broker.services.view.image
        return {name: topic.topic_id for name, topic in image.topics.items()}, dict(image.names)

    def expected() -> tuple[dict[str, Uuid], dict[Uuid, str]]:
        return ids, {topic_id: name for name, topic_id in ids.items()}

    assert known() == expected()
    await delete(plane, "b")
    del ids["b"]
    assert known() == expected()
    await plane.stop()
    broker = await plane.start()  # from the store
    assert known() == expected()
    ids["b"] = await create(plane, "b", 1)
    assert known() == expected()


@pytest.mark.checklist(50, 207, 208, 209)
async def test_no_topic_is_spoken_of_before_its_id_is_stored(
    control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Topics that are older than topic ids: each one's id is stored when its first LeaderAndIsr is sent."""
    plane = control_plane
    await plane.start()
    partitions = {name: await create(plane, name, 2) and {"0": [1], "1": [1]} for name in ("a", "b")}
    await plane.stop()
    old = await EmbeddedStore.open(plane.directory)
    for name, replicas in partitions.items():
        node = {"version": 2, "partitions": replicas, "adding_replicas": {}, "removing_replicas": {}}
        await old.set(znodes.topic_path(name), json.dumps(node).encode())
    await old.close()
    plane.native.disk.clear()
    stored: list[dict[str, tuple[int, str, Uuid]]] = []
    handle = ControlReceiver.handle

    async def looking(*bound_and_request: Any) -> Any:
        request = bound_and_request[-1]
        if isinstance(request, LeaderAndIsrRequest):
            seen = {}
            store = plane.broker._store if plane.broker else None
            assert store is not None
            for topic in request.topic_states:
                node = json.loads((await store.get(znodes.topic_path(topic.topic_name))).data)
                seen[topic.topic_name] = (node["version"], node["id"], topic.topic_id)
            stored.append(seen)
        return await handle(*bound_and_request)

    monkeypatch.setattr(ControlReceiver, "handle", looking)
    await plane.start()
    assert [set(seen) for seen in stored] == [{"a", "b"}]
    for version, in_store, said in stored[0].values():
        assert (version, in_store) == (3, str(said))
        assert said != Uuid.ZERO
