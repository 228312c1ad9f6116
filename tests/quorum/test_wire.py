"""The messages of the metadata quorum on the inter-broker listener of a broker, over a socket (KIP-516, "Compatibility
with KIP-500")."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pybroker.broker.cluster.quorum_events import AskClusterId
from pybroker.broker.cluster.value_codec import pack_reply, unpack_event
from pybroker.client import NewTopic, blocking
from pybroker.native import Uuid, decode, encode
from pybroker.protocol import interbroker as ib
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from pybroker.testing.child_processes import free_port
from tests.client.fake_broker import Answer, FakeBroker
from tests.quorum.scene import QuorumBroker, Scene, until
from tests.wire.client import WireClient

CLUSTER_ID = "cI3nMBYCQHaSq9dLLyuxqA"
UNKNOWN_NODE = 99
"""A node id that no broker has."""
TOPIC_ID_RECORD = re.compile(rb"\x00\x00\x00\x05.\x00\x00\x00\x01\x01\x90\x4e\x10(.{16})", re.DOTALL)
"""The control record with the metadata topic's id: key, length of the value, KRaftVersionRecord with pybroker's tag
10000."""


class Node:
    """The only voter, and a connection to its inter-broker listener."""

    def __init__(self, folder: Path) -> None:
        self.between = free_port()
        self.broker = QuorumBroker(folder, 1, {1: self.between})
        self.broker.settings |= {"offsets.topic.replication.factor": "1", "min.insync.replicas": "1"}
        self.broker.start()
        self.client = WireClient(self.between, interbroker=True)
        with WireClient(self.broker.port) as client:
            self.cluster_id = client.call(m.MetadataRequest(topics=None), 12).cluster_id
        self.epoch = self.fetch(Uuid.METADATA, epoch=0).current_leader.leader_epoch
        everything = self.fetch(Uuid.METADATA)
        found = TOPIC_ID_RECORD.search(everything.records)
        assert found is not None
        self.topic_id = Uuid.from_bytes(found[1])
        self.end = everything.high_watermark

    def call(self, request: Any, version: int) -> Any:
        return self.client.call(request, version)

    def fetch(self, topic_id: Uuid, offset: int = 0, **fields: Any) -> Any:
        """Fetch partition 0 of the metadata topic; return the partition of the response."""
        response = self.call(self.fetch_request(topic_id, offset, **fields), 13)
        assert response.error_code == fields.get("error_code", 0), response
        return response.responses[0].partitions[0]

    def fetch_request(self, topic_id: Uuid, offset: int = 0, **fields: Any) -> Any:
        partition = ib.FetchRequest_FetchPartition(
            partition=0,
            current_leader_epoch=fields.get("epoch", getattr(self, "epoch", 0)),
            fetch_offset=offset,
            last_fetched_epoch=fields.get("last_epoch", 0),
            partition_max_bytes=1 << 20,
        )
        topic = ib.FetchRequest_FetchTopic(topic_id=topic_id, partitions=[partition])
        cluster_id = fields.get("cluster_id", self.cluster_id)
        return ib.FetchRequest(cluster_id=cluster_id, replica_id=UNKNOWN_NODE, topics=[topic])


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    node = Node(tmp_path_factory.mktemp("node"))
    yield node
    node.client.close()
    node.broker.kill()


def vote(cluster_id: str, topic_id: Uuid, epoch: int, **fields: Any) -> Any:
    partition = ib.VoteRequest_PartitionData(
        partition_index=0,
        candidate_epoch=epoch,
        candidate_id=UNKNOWN_NODE,
        last_offset_epoch=fields.pop("last_epoch", 0),
        last_offset=fields.pop("last", 0),
        **fields,
    )
    return ib.VoteRequest(
        cluster_id=cluster_id, topics=[ib.VoteRequest_TopicData(topic_id=topic_id, partitions=[partition])]
    )


def begin_epoch(cluster_id: str, topic_id: Uuid, epoch: int) -> Any:
    partition = ib.BeginQuorumEpochRequest_PartitionData(partition_index=0, leader_id=UNKNOWN_NODE, leader_epoch=epoch)
    topic = ib.BeginQuorumEpochRequest_TopicData(topic_id=topic_id, partitions=[partition])
    return ib.BeginQuorumEpochRequest(cluster_id=cluster_id, topics=[topic])


def end_epoch(cluster_id: str, topic_id: Uuid, epoch: int) -> Any:
    partition = ib.EndQuorumEpochRequest_PartitionData(
        partition_index=0, leader_id=UNKNOWN_NODE, leader_epoch=epoch, preferred_successors=[1]
    )
    topic = ib.EndQuorumEpochRequest_TopicData(topic_id=topic_id, partitions=[partition])
    return ib.EndQuorumEpochRequest(cluster_id=cluster_id, topics=[topic])


def fetch_snapshot(cluster_id: str, topic_id: Uuid, epoch: int) -> Any:
    partition = ib.FetchSnapshotRequest_PartitionSnapshot(
        partition=0,
        current_leader_epoch=epoch,
        snapshot_id=ib.FetchSnapshotRequest_SnapshotId(end_offset=12345, epoch=1),
    )
    topic = ib.FetchSnapshotRequest_TopicSnapshot(topic_id=topic_id, partitions=[partition])
    return ib.FetchSnapshotRequest(cluster_id=cluster_id, replica_id=UNKNOWN_NODE, topics=[topic])


MESSAGES = [(vote, 0), (vote, 1), (begin_epoch, 0), (begin_epoch, 1), (end_epoch, 0), (end_epoch, 1)]


def partition_of(response: Any) -> Any:
    """Return the only partition of a response."""
    ((partition,),) = [topic.partitions for topic in response.topics]
    return partition


@pytest.mark.checklist(57, *range(192, 198), "X16", "R46")
@pytest.mark.parametrize(("make", "version"), MESSAGES)
def test_messages_of_an_old_epoch_are_fenced(node: Node, make: Any, version: int) -> None:
    request = make(node.cluster_id, node.topic_id, 0)
    if make is vote and version:
        # Version 1 of the request names the voter, and the voter checks that the name is its own.
        assert partition_of(node.call(request, version)).error_code == ErrorCode.INVALID_VOTER_KEY
        return
    response = node.call(request, version)
    assert response.error_code == 0
    assert response.topics[0].topic_id == node.topic_id
    partition = partition_of(response)
    assert partition.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (partition.leader_id, partition.leader_epoch) == (1, node.epoch)


@pytest.mark.checklist(191, 192, 193, "R46")
def test_a_vote_after_the_id_is_known_names_it(node: Node) -> None:
    # A vote in the leader's own epoch does not end its leadership.
    request = vote(node.cluster_id, node.topic_id, node.epoch, last=node.end, last_epoch=node.epoch)
    partition = partition_of(node.call(request, 0))
    assert (partition.error_code, partition.vote_granted) == (0, False)
    request = vote(node.cluster_id, Uuid.METADATA, node.epoch, last=node.end, last_epoch=node.epoch)
    assert partition_of(node.call(request, 0)).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    # A candidate that lacks the record with the topic's id cannot know the id.
    request = vote(node.cluster_id, Uuid.METADATA, node.epoch)
    partition = partition_of(node.call(request, 0))
    assert (partition.error_code, partition.vote_granted) == (0, False)


@pytest.mark.checklist("R46")
@pytest.mark.parametrize(("make", "version"), [*MESSAGES[:1], *MESSAGES[2:], (fetch_snapshot, 1)])
def test_another_topic_id_is_unknown(node: Node, make: Any, version: int) -> None:
    response = node.call(make(node.cluster_id, Uuid(5, 6), node.epoch), version)
    assert partition_of(response).error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.checklist("R46")
@pytest.mark.parametrize(("make", "version"), [*MESSAGES, (fetch_snapshot, 1)])
def test_another_cluster_is_refused(node: Node, make: Any, version: int) -> None:
    response = node.call(make(CLUSTER_ID, node.topic_id, node.epoch + 1), version)
    assert response.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert node.fetch(Uuid.METADATA).current_leader.leader_epoch == node.epoch


@pytest.mark.checklist("R46")
@pytest.mark.parametrize(("make", "version"), [*MESSAGES, (fetch_snapshot, 1)])
def test_only_partition_0_of_one_topic_can_be_named(node: Node, make: Any, version: int) -> None:
    def with_index(index: int) -> Any:
        request = make(node.cluster_id, node.topic_id, node.epoch)
        (partition,) = request.topics[0].partitions
        if make is fetch_snapshot:
            partition.partition = index
        else:
            partition.partition_index = index
        return request

    more = with_index(0)
    more.topics[0].partitions += with_index(1).topics[0].partitions
    two = with_index(0)
    two.topics += make(node.cluster_id, Uuid(5, 6), node.epoch).topics
    none = with_index(0)
    none.topics = []
    for request in (with_index(1), more, two, none):
        assert node.call(request, version).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.checklist(198, "R46")
def test_a_fetch_by_the_sentinel_reads_up_to_the_ids_record(node: Node) -> None:
    by_sentinel = node.fetch(Uuid.METADATA)
    assert by_sentinel.error_code == 0
    assert by_sentinel.records == node.fetch(node.topic_id).records
    behind = node.fetch(Uuid.METADATA, node.end, last_epoch=node.epoch)
    assert behind.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert node.fetch(node.topic_id, node.end, last_epoch=node.epoch).error_code == 0


@pytest.mark.checklist("R46")
def test_fetches_of_other_clusters_and_topics_are_refused(node: Node) -> None:
    response = node.call(node.fetch_request(Uuid.METADATA, cluster_id=CLUSTER_ID), 13)
    assert response.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert node.fetch(Uuid(5, 6)).error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.checklist("R46")
@pytest.mark.parametrize("session_epoch", [-1, 0])
def test_a_fetch_of_the_metadata_topic_and_another_is_invalid(node: Node, session_epoch: int) -> None:
    both = node.fetch_request(node.topic_id)
    both.topics += node.fetch_request(Uuid(5, 6)).topics
    second = node.fetch_request(Uuid.METADATA)
    second.topics[0].partitions[0].partition = 1
    for request in (both, second):
        request.session_epoch = session_epoch
        response = node.call(request, 13)
        assert (response.error_code, response.responses) == (ErrorCode.INVALID_REQUEST, [])


@pytest.mark.checklist(199, "X17", "D25")
def test_the_topic_gets_its_unique_id_in_its_own_log(node: Node) -> None:
    assert node.topic_id not in {Uuid.ZERO, Uuid.METADATA}
    assert TOPIC_ID_RECORD.findall(node.fetch(node.topic_id).records) == [node.topic_id.bytes]


@pytest.mark.checklist(200)
def test_ids_of_topics_are_written_to_the_metadata_topic(node: Node) -> None:
    with blocking.AdminClient({"bootstrap.servers": node.broker.bootstrap}) as admin:
        created = admin.create_topics([NewTopic("written", 1, 1)]).all()["written"].topic_id
    name_and_id = b"\x08written" + created.bytes
    assert name_and_id in node.fetch(node.topic_id).records


@pytest.mark.checklist("R37", "R46")
def test_clients_cannot_send_them(node: Node) -> None:
    with WireClient(node.broker.port) as client:
        rows = client.call(m.ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4).api_keys
    assert not {52, 53, 54, 59} & {row.api_key for row in rows}
    for make, version in (*MESSAGES, (fetch_snapshot, 1)):
        with WireClient(node.broker.port, interbroker=True) as client:
            client.send(make(node.cluster_id, node.topic_id, 0), version, answered=False)
            assert client.is_closed_by_peer()
    with WireClient(node.broker.port) as client:
        topic = m.FetchRequest_FetchTopic(
            topic_id=node.topic_id, partitions=[m.FetchRequest_FetchPartition(partition=0, partition_max_bytes=1 << 20)]
        )
        response = client.call(m.FetchRequest(max_wait_ms=0, topics=[topic]), 13)
        assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.checklist("R46")
def test_garbage_closes_the_connection(node: Node) -> None:
    for key in (52, 53, 54, 59):
        with WireClient(node.between, interbroker=True) as client:
            client.send_frame(key.to_bytes(2) + b"\x00\x01" + b"\x00\x00\x00\x01\xff\xff\x00" + b"\xff" * 9)
            assert client.is_closed_by_peer()
    console = node.broker.console.read_text()
    assert "Traceback" not in console
    assert "bug in pybroker" not in console


@pytest.mark.checklist(191, 192, 198, "R46")
def test_a_new_broker_uses_the_sentinel_until_it_knows_the_id(tmp_path: Path) -> None:
    """The test acts as the broker that founded the cluster. It never sends the topic's id to the new broker."""
    asyncio.run(_begin_with_the_sentinel(tmp_path))


async def _begin_with_the_sentinel(folder: Path) -> None:
    def tell_cluster_id(request: Any, _: int) -> Any:
        inner = decode(32164, 0, request.request_data, True, interbroker=True)
        assert isinstance(unpack_event(inner.event), AskClusterId)
        reply = ib.SubmitEventResponse(error_code=0, error_message=None, reply=pack_reply(CLUSTER_ID), in_force=True)
        return ib.EnvelopeResponse(response_data=encode(reply, 0), error_code=0)

    def refuse_fetch(request: Any, _: int) -> Any:
        partition = ib.FetchResponse_PartitionData(
            partition_index=0, error_code=int(ErrorCode.NOT_LEADER_OR_FOLLOWER), records=b""
        )
        topic = ib.FetchResponse_FetchableTopicResponse(topic_id=request.topics[0].topic_id, partitions=[partition])
        return ib.FetchResponse(responses=[topic])

    versions = {1: (12, 13), 18: (0, 4), 52: (0, 1), 53: (0, 1), 54: (0, 1), 58: (0, 0), 59: (1, 1)}
    answers: dict[str, Answer] = {"EnvelopeRequest": tell_cluster_id, "FetchRequest": refuse_fetch}
    async with FakeBroker(answers, versions, interbroker=True) as founder:
        port = free_port()
        broker = QuorumBroker(folder, 2, {1: founder.port, 2: port})
        broker.launch()
        try:
            while not founder.asked("FetchRequest"):  # noqa: ASYNC110 - another process says it
                await asyncio.sleep(0.02)
            first = next(request for request, _ in founder.requests if type(request).__name__ == "FetchRequest")
            assert set(founder.client_ids) == {"broker-2"}
            assert (first.cluster_id, first.replica_id) == (CLUSTER_ID, 2)
            assert [topic.topic_id for topic in first.topics] == [Uuid.METADATA]
            granted, refused = await asyncio.to_thread(_vote_by_sentinel, port)
            assert (granted.error_code, granted.vote_granted, granted.leader_epoch) == (0, True, 7)
            assert (refused.error_code, refused.vote_granted) == (0, False)
        finally:
            broker.kill()


def _vote_by_sentinel(port: int) -> tuple[Any, Any]:
    """Return the responses to two candidates of one epoch: a voter votes only once."""
    with WireClient(port, interbroker=True) as client:
        first = vote(CLUSTER_ID, Uuid.METADATA, 7)
        second = vote(CLUSTER_ID, Uuid.METADATA, 7)
        second.topics[0].partitions[0].candidate_id = UNKNOWN_NODE + 1
        responses = [client.call(request, 0) for request in (first, second)]
        assert [response.topics[0].topic_id for response in responses] == [Uuid.METADATA] * 2
        granted, refused = map(partition_of, responses)
        return granted, refused


PUSHED = ("LeaderAndIsr", "StopReplica", "UpdateMetadata", "UpdateCluster")


@pytest.mark.checklist(201)
def test_brokers_pull_everything_from_the_metadata_topic(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    metrics = {broker.settings["node.id"]: free_port() for broker in scene.brokers.values()}
    for broker in scene.brokers.values():
        broker.settings["metrics.listener"] = f"127.0.0.1:{metrics[broker.settings['node.id']]}"
    try:
        scene.start()
        with blocking.AdminClient({"bootstrap.servers": scene.bootstrap}) as admin:
            until(lambda: len(admin.describe_cluster().nodes) == len(scene.brokers))
            admin.create_topics([NewTopic("pulled", 3, 3)]).all()
            records = scene.produce("pulled", "x-", 30)
            until(lambda: scene.read("pulled") == records)
            admin.delete_topics(["pulled"]).all()
            until(lambda: "pulled" not in admin.list_topics())
        counts = [_requests(port) for port in metrics.values()]
    finally:
        for broker in scene.brokers.values():
            broker.kill()
    assert [count.get(name, 0) for count in counts for name in PUSHED] == [0] * len(PUSHED) * len(counts)
    assert all(count["Fetch"] > 0 for count in counts)


def _requests(port: int) -> dict[str, float]:
    """Return the number of requests that a broker has answered, by name."""
    from urllib.request import urlopen

    with urlopen(f"http://127.0.0.1:{port}/metrics") as page:
        lines = page.read().decode().splitlines()
    found = (re.fullmatch(r'pybroker_requests_total\{api="(\w+)"\} ([0-9.e+]+)', line) for line in lines)
    return {match[1]: float(match[2]) for match in found if match is not None}


def test_an_idle_cluster_sends_no_heartbeats(tmp_path: Path) -> None:
    """The fetches of the metadata topic replace the heartbeats."""
    scene = Scene(tmp_path)
    metrics = {broker_id: free_port() for broker_id in scene.brokers}
    for broker_id, broker in scene.brokers.items():
        broker.settings["metrics.listener"] = f"127.0.0.1:{metrics[broker_id]}"
    try:
        scene.start()
        until(scene.all_vote)
        controller = metrics[scene.controller()]
        began = _requests(controller)

        def quiet() -> bool:
            nonlocal began
            now = _requests(controller)
            if now["Envelope"] != began["Envelope"]:
                began = now
            # Each follower fetches about three times a second; in this time it would send two heartbeats.
            return now["Fetch"] - began["Fetch"] > 30

        until(quiet)
        with blocking.AdminClient({"bootstrap.servers": scene.bootstrap}) as admin:
            assert len(admin.describe_cluster().nodes) == len(scene.brokers)
    finally:
        for broker in scene.brokers.values():
            broker.kill()
