"""The JSON of KIP-516 and KIP-78, read leniently and written exactly."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.deletion_records import (
    DeletionRecord,
    decode_deletion_head,
    forget_operations,
    read_deletions,
    write_operations,
)
from pybroker.broker.metadata.lineage import TopicEvent, TopicLineage
from pybroker.broker.metadata.metadata_store import Create, Delete, Node, Operation, Set
from pybroker.broker.metadata.znodes import DamagedNodeError
from pybroker.native import Uuid

GOLDEN = (
    b'{"version":3,"id":"b8tRS7h4TJ2Vt43Dp85v2A","partitions":{"0":[0,1,3]},'
    b'"adding_replicas":{},"removing_replicas":{}}'
)
ID = Uuid.parse("6fcb514b-b878-4c9d-95b7-8dc3a7ce6fd8")


@pytest.mark.checklist(26, 38, 39, 40, 41, 42, 43, 44)
def test_golden_topic_node() -> None:
    node = znodes.decode_topic("/t", GOLDEN)
    assert node.topic_id == ID
    assert node.partitions == {0: (0, 1, 3)}
    assert node.encode() == GOLDEN


def test_who_has_left_stands_in_the_topic_node_only_while_there_is_somebody() -> None:
    node = znodes.TopicNode(ID, {0: (0, 1, 3)}, departed_replicas={0: {4: 7}})
    assert node.encode() == GOLDEN.replace(b"{}}", b'{},"departed_replicas":{"0":{"4":7}}}')
    assert znodes.decode_topic("/t", node.encode()) == node


@pytest.mark.checklist(45)
def test_older_and_foreign_topic_nodes() -> None:
    assert znodes.decode_topic("/t", b'{"version":1,"partitions":{"0":[1]}}').topic_id is None
    assert znodes.decode_topic("/t", GOLDEN.replace(b'"id"', b'"topic_id"')).topic_id == ID
    later = GOLDEN.replace(b'"version":3', b'"version":4,"new":[1]')
    assert znodes.decode_topic("/t", later).topic_id == ID


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"{}",
        b"[" * 100_000,
        GOLDEN[:-1],
        GOLDEN.replace(b"b8tRS7h4TJ2Vt43Dp85v2A", b"short"),
        GOLDEN.replace(b"b8tRS7h4TJ2Vt43Dp85v2A", b"AAAAAAAAAAAAAAAAAAAAAA"),
        GOLDEN.replace(b"b8tRS7h4TJ2Vt43Dp85v2A", b"AAAAAAAAAAAAAAAAAAAAAQ"),
        GOLDEN.replace(b'{"0":', b'{"1":'),
        GOLDEN.replace(b'"id"', b'"topic_id":"AAAAAAAAAAAAAAAAAAAABB","id"'),
    ],
)
def test_damaged_topic_nodes_say_so(data: bytes) -> None:
    with pytest.raises(DamagedNodeError, match="/t"):
        znodes.decode_topic("/t", data)


@pytest.mark.checklist(260, 270)
def test_cluster_id_node() -> None:
    assert znodes.encode_cluster_id("vPeOCWypqUOSepEvx0cbog") == b'{"version":1,"id":"vPeOCWypqUOSepEvx0cbog"}'
    assert znodes.decode_cluster_id(b'{"version":"1","id":"MkU3OEVBNTcwNTJENDM2Qk"}') == "MkU3OEVBNTcwNTJENDM2Qk"
    for bad in (b'{"id":""}', b'{"id":"a b"}', '{"id":"ä"}'.encode(), b"{}"):
        with pytest.raises(DamagedNodeError):
            znodes.decode_cluster_id(bad)


def test_broker_node_round_trip() -> None:
    endpoints = (
        znodes.Endpoint("PLAINTEXT", "::1", 9092, "PLAINTEXT"),
        znodes.Endpoint("INSIDE", "h", 9093, "SASL_SSL"),
    )
    node = znodes.BrokerNode(endpoints, "r1", 5, log_dirs=("/a", "/b"), cordoned=("/b",))
    assert znodes.decode_broker("/b", node.encode()) == node


@pytest.mark.checklist("X20", 82)
@pytest.mark.parametrize("groups", [1, 30_000])
def test_deletion_record_round_trip(groups: int) -> None:
    offsets = tuple({"group": f"group-{number}", "partition": 0, "offset": number} for number in range(groups))
    record = DeletionRecord(
        "t", ID, "deleting", 1, 2, "User:a", 3, {0: (1,)}, {"k": "v"}, 7, offsets,
        "truncate", ((0, 5),), TopicLineage((TopicEvent("create", 1, "User:b", "t"),), 3, ((0, 2),), (4,)),
        Uuid.random(),
    )  # fmt: skip
    store: dict[str, Node] = {}

    def apply(operations: Sequence[Operation]) -> None:
        for operation in operations:
            assert (operation.path in store) != isinstance(operation, Create), operation.path
            if isinstance(operation, Delete):
                del store[operation.path]
            elif isinstance(operation, Create | Set):
                assert len(operation.data) <= 1 << 20
                store[operation.path] = Node(operation.data, 0, 0, 0, 0, 0)

    written, operations = write_operations(None, record)
    apply(operations)
    assert read_deletions(store) == ({ID: written}, [])
    head = decode_deletion_head(znodes.deletion_path(ID), store[znodes.deletion_path(ID)].data)
    assert (head.pieces, head.topic, head.deleted_ms) == (written.pieces, record.topic, record.deleted_ms)
    smaller, operations = write_operations(written, msgspec.structs.replace(written, offsets=(), state="staged"))
    apply(operations)
    assert read_deletions(store) == ({ID: smaller}, [])
    path = znodes.deletion_path(ID)
    head = decode_deletion_head(path, store[path].data)
    assert (head.state, head.topic, head.deleted_ms) == ("staged", record.topic, record.deleted_ms)
    apply(forget_operations(smaller))
    assert store == {}
