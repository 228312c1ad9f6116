"""Messages between the brokers of a cluster: by topic id, in the layouts of KIP-516."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest

from pybroker import native
from pybroker.native import Uuid
from pybroker.protocol import interbroker as wire
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from pybroker.testing.cluster import Store
from tests.support.cluster import running_cluster, until
from tests.support.heard import Heard, states
from tests.support.lives_in_cluster import Everywhere
from tests.support.replicas import epochs_of, make_controller
from tests.topic_ids import kit
from tests.wire.client import WireClient

pytestmark = pytest.mark.only_on_zookeeper("ZooKeeper's own: UpdateMetadata, LeaderAndIsr and StopReplica are pushed")

INCREMENTAL, FULL = 1, 2
LEADER = 2
DEAD = ErrorCode.UNKNOWN_TOPIC_ID


@pytest.fixture(scope="module")
def heard(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[Heard]:
    """Three brokers; the first one is the controller."""
    folder = tmp_path_factory.mktemp("between")
    settings = {"auto.leader.rebalance.enable": "false", "broker.rack": "r"}
    with running_cluster(folder, 3, settings, module=("tests.cluster.hears", str(folder)), store=store) as cluster:
        brokers = Everywhere(cluster)
        make_controller(cluster, 1)
        until(lambda: brokers.controller(2) == 1)
        yield Heard(brokers, folder / "heard-2")


@pytest.mark.checklist(50, 52, 58, *range(60, 66), 83, 84, *range(102, 106), 119, 209, "D4", "X12", "X13", "X14")
def test_what_the_controller_says(heard: Heard) -> None:
    """Messages that announce a topic have its id and name; messages that end it have only the id. Only a FULL message
    lists all replicas of a broker."""
    brokers = heard.brokers
    earlier = brokers.at(1).create_on("earlier", [2, 1])
    topic_id = brokers.at(1).create_on("told", [2, 1], [1, 2], [1, 3])
    brokers.written("told", "one")
    ordered = heard.first("LeaderAndIsrRequest", topic_id)
    assert ordered["type"] == INCREMENTAL
    assert not states(ordered, earlier)
    (topic,) = ordered["topic_states"]
    assert (topic["topic_name"], topic["topic_id"]) == ("told", str(topic_id))
    # The message names the receiver's own replicas, and no others.
    rows = {one["partition_index"]: (one["leader"], one["isr"], one["replicas"]) for one in topic["partition_states"]}
    assert rows == {0: (2, [2, 1], [2, 1]), 1: (1, [1, 2], [1, 2])}
    assert all(one["is_new"] and one["controller_epoch"] >= 1 for one in topic["partition_states"])
    shown = heard.first("UpdateMetadataRequest", topic_id)
    assert [one["topic_name"] for one in shown["topic_states"]] == ["told"]
    assert len(states(shown, topic_id)) == 3
    live = {one["id"]: one for one in shown["live_brokers"]}
    for number, broker in brokers.cluster.brokers.items():
        ports = {one["listener"]: (one["host"], one["port"]) for one in live[number]["endpoints"]}
        assert ports["PLAINTEXT"] == ("127.0.0.1", broker.port)
        assert live[number]["rack"] == "r"
    deleted = brokers.at(2).delete(topic_id)
    assert (deleted.error_code, deleted.name, deleted.topic_id) == (0, "told", topic_id)
    stopped = heard.first("StopReplicaRequest", topic_id)
    assert {one.get("topic_name", "") for one in stopped["topic_states"]} == {""}
    assert {(one["partition_index"], one["delete_partition"]) for one in states(stopped, topic_id)} == {
        (0, True),
        (1, True),
    }
    before = len(heard.said("LeaderAndIsrRequest"))
    brokers.cluster.brokers[2].restart()
    until(lambda: brokers.isr("earlier", 1) == {1, 2})
    # The stop has moved the broker's leaderships to other brokers.
    (full,) = (one for one in heard.said("LeaderAndIsrRequest")[before:] if one["type"] == FULL)
    assert {one["topic_id"] for one in full["topic_states"]} == {str(earlier)}
    everything = heard.said("LeaderAndIsrRequest") + heard.said("UpdateMetadataRequest")
    assert str(Uuid.ZERO) not in {one["topic_id"] for message in everything for one in message["topic_states"]}


@pytest.mark.checklist(58, 105, 331, "R31")
def test_every_broker_answers_by_id_what_the_others_do(heard: Heard) -> None:
    """Each request gets the same response from every broker."""
    brokers = heard.brokers
    for number in brokers.cluster.brokers:
        topic_id = brokers.at(number).create(f"of-{number}", replicas=1)
        wanted = m.MetadataRequest(topics=[m.MetadataRequest_MetadataRequestTopic(name=None, topic_id=topic_id)])

        def shown(at: int, wanted: Any = wanted) -> tuple[str, Uuid]:
            (topic,) = brokers.at(at).call(wanted, 12).topics
            return topic.name, topic.topic_id

        for other in brokers.cluster.brokers:
            until(lambda other=other, shown=shown, is_=(f"of-{number}", topic_id): shown(other) == is_)
    lists: list[Any] = []

    def alike() -> bool:
        answers = [brokers.at(number).call(m.ListTopicsRequest(), 0) for number in brokers.cluster.brokers]
        lists[:] = [one.topic_listing for one in answers]
        return bool(lists[0] == lists[1] == lists[2])

    until(alike)
    assert {"of-1", "of-2", "of-3"} <= {one.name for one in lists[0]}


@pytest.mark.checklist(53, 54, 55, 56, *range(87, 92), *range(94, 101), 106, 107, "R9", "X4")
def test_what_a_follower_asks(heard: Heard) -> None:
    """Neither request nor response has a name. A request by the id of a dead topic is refused, although a topic with
    that name exists."""
    brokers = heard.brokers
    dead = brokers.at(1).create_on("asked", [LEADER, 1])
    assert brokers.at(1).delete(dead).error_code == 0
    topic_id = brokers.at(1).create_on("asked", [LEADER, 1])
    brokers.written("asked", "one")
    epoch = brokers.at(LEADER).epoch("asked")
    port = brokers.cluster.brokers[LEADER].between_port
    with WireClient(port, client_id="broker-9", interbroker=True) as follower:
        produced = [follower.call(_produce(one), 9).responses[0] for one in (topic_id, dead)]
        assert [one.topic_id for one in produced] == [topic_id, dead]
        assert [(one.error_code, one.base_offset) for row in produced for one in row.partition_responses] == [
            (0, 1),
            (DEAD, -1),
        ]
        listed = [follower.call(_list(one, epoch), 6).topics[0] for one in (topic_id, dead)]
        assert [(row.topic, row.topic_id) for row in listed] == [("", topic_id), ("", dead)]
        found = [(one.error_code, one.offset, one.leader_epoch) for row in listed for one in row.partitions]
        assert found == [(0, 2, epoch), (DEAD, -1, -1)]
        ends = [follower.call(_epochs(one, epoch), 4).topics[0] for one in (topic_id, dead)]
        assert [(row.topic, row.topic_id) for row in ends] == [("", topic_id), ("", dead)]
        found = [(one.error_code, one.end_offset) for row in ends for one in row.partitions]
        assert found == [(0, 2), (DEAD, -1)]
        _fetches(follower, topic_id, dead, epoch)
    assert brokers.at(LEADER).read("asked") == ["one", "by id"]


@pytest.mark.checklist(159, 160, 263, 264, 325)
def test_metadata_shows_the_brokers_and_partitions_that_there_are(heard: Heard) -> None:
    """The test compares the value of every field of version 2, and of the fields that version 10 adds. All brokers
    respond alike."""
    brokers = heard.brokers
    # The leader epochs of the second topic continue, so they are not 0.
    brokers.at(1).delete(brokers.at(1).create_on("shown", [2, 1], [3, 1]))
    topic_id = brokers.at(1).create_on("shown", [2, 1], [3, 1])
    until(lambda: brokers.isr("shown", 1) == {1, 2})
    brokers.written("shown", "one")
    (epoch,) = epochs_of(brokers.records_of(2, "shown-0"))
    assert epoch > 0
    nodes = [(number, "127.0.0.1", broker.port, "r") for number, broker in brokers.cluster.brokers.items()]
    names = [m.MetadataRequest_MetadataRequestTopic(name=name) for name in ("shown", "__consumer_offsets", "absent")]
    with WireClient(brokers.cluster.brokers[1].port) as client:
        client.call(m.FindCoordinatorRequest(key="makes the internal topic", key_type=0), 2)

    def answers(version: int) -> Iterator[Any]:
        for number in brokers.cluster.brokers:
            yield brokers.at(number).call(m.MetadataRequest(topics=names, allow_auto_topic_creation=False), version)

    def topics(answer: Any) -> list[Any]:
        """Return the topics in the order of the request."""
        by_name = {topic.name: topic for topic in answer.topics}
        return [by_name[name] for name in ("shown", "__consumer_offsets", "absent")]

    until(lambda: all(topics(answer)[1].error_code == 0 for answer in answers(2)))
    for answer in answers(2):
        told = [(one.node_id, one.host, one.port, one.rack) for one in answer.brokers]
        assert (sorted(told), answer.controller_id) == (nodes, 1)
        shown, internal, absent = topics(answer)
        assert [(topic.error_code, topic.is_internal) for topic in (shown, internal, absent)] == [
            (0, False),
            (0, True),
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False),
        ]
        assert absent.partitions == []
        assert {tuple(sorted(one.replica_nodes)) for one in internal.partitions} == {(1, 2, 3)}
        rows = [
            (one.error_code, one.partition_index, one.leader_id, one.replica_nodes, sorted(one.isr_nodes))
            for one in sorted(shown.partitions, key=lambda one: one.partition_index)
        ]
        assert rows == [(0, 0, 2, [2, 1], [1, 2]), (0, 1, 3, [3, 1], [1, 3])]
    for answer in answers(10):
        shown, _, absent = topics(answer)
        assert (shown.topic_id, absent.topic_id) == (topic_id, Uuid.ZERO)
        assert {one.leader_epoch for one in shown.partitions} == {epoch}


def _fetches(follower: WireClient, topic_id: Uuid, dead: Uuid, epoch: int) -> None:
    """Open a fetch session with both topics, continue it, and remove them from it."""
    wanted = [_fetched(topic_id, epoch), _fetched(dead, epoch)]
    request = wire.FetchRequest(session_epoch=0, topics=wanted)
    # Both sides use our codec: an exchanged field would go unnoticed in the responses.
    assert native.encode(request, 13) == _fetch_of_the_text(topic_id, dead, epoch)
    first = follower.call(request, 13)
    rows = {row.topic_id: row.partitions[0] for row in first.responses}
    assert {row.topic for row in first.responses} == {""}
    assert (rows[topic_id].error_code, rows[topic_id].high_watermark, rows[topic_id].log_start_offset) == (0, 2, 0)
    assert b"by id" in rows[topic_id].records
    assert rows[dead].error_code == DEAD
    session = first.session_id
    assert session != 0
    again = follower.call(wire.FetchRequest(session_id=session, session_epoch=1), 13)
    assert {row.topic_id for row in again.responses} >= {dead}
    forgotten = wire.FetchRequest_ForgottenTopic(topic_id=dead, partitions=[0])
    last = follower.call(wire.FetchRequest(session_id=session, session_epoch=2, forgotten_topics_data=[forgotten]), 13)
    assert dead not in {row.topic_id for row in last.responses}
    # This includes a follower: it had a replica of the dead topic, and has one of the next topic.
    as_follower = wire.FetchRequest(replica_id=1, session_epoch=-1, topics=[_fetched(dead, epoch)])
    (row,) = follower.call(as_follower, 13).responses
    assert (row.topic_id, row.partitions[0].error_code, row.partitions[0].records or b"") == (dead, DEAD, b"")


def _fetch_of_the_text(topic_id: Uuid, dead: Uuid, epoch: int) -> bytes:
    """Return the bytes of this request in the order of KIP-516's text, with its fields' default values."""
    # replica_id, max_wait_time, min_bytes, max_bytes, isolation_level, session_id, session_epoch
    head = struct.pack(">iiiibii", -1, 0, 0, 2**31 - 1, 0, 0, 0)
    # partition, current_leader_epoch, fetch_offset, last_fetched_epoch, log_start_offset, partition_max_bytes
    partition = struct.pack(">iiqiqi", 0, epoch, 0, -1, -1, 1 << 20)
    topics = b"".join(one.bytes + b"\x02" + partition + b"\0\0" for one in (topic_id, dead))
    # No forgotten topics, an empty rack id, no tagged fields.
    return head + b"\x03" + topics + b"\x01" + b"\x01" + b"\0"


def _fetched(topic_id: Uuid, epoch: int) -> Any:
    partition = wire.FetchRequest_FetchPartition(
        partition=0, current_leader_epoch=epoch, fetch_offset=0, partition_max_bytes=1 << 20
    )
    return wire.FetchRequest_FetchTopic(topic_id=topic_id, partitions=[partition])


def _produce(topic_id: Uuid) -> Any:
    partition = wire.ProduceRequest_PartitionProduceData(index=0, records=kit.batch(b"by id"))
    topic = wire.ProduceRequest_TopicProduceData(topic_id=topic_id, partition_data=[partition])
    return wire.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


def _list(topic_id: Uuid, epoch: int) -> Any:
    partition = wire.ListOffsetsRequest_ListOffsetsPartition(
        partition_index=0, current_leader_epoch=epoch, timestamp=-1
    )
    topic = wire.ListOffsetsRequest_ListOffsetsTopic(topic_id=topic_id, partitions=[partition])
    return wire.ListOffsetsRequest(replica_id=-1, topics=[topic])


def _epochs(topic_id: Uuid, epoch: int) -> Any:
    partition = wire.OffsetForLeaderEpochRequest_OffsetForLeaderPartition(
        partition=0, current_leader_epoch=epoch, leader_epoch=epoch
    )
    topic = wire.OffsetForLeaderEpochRequest_OffsetForLeaderTopic(topic_id=topic_id, partitions=[partition])
    return wire.OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])
