"""Kafka's requests by name with the tagged topic id that pybroker adds (docs/protocol.md). The topic is deleted and
created again between two requests. The request with the old id is refused and changes nothing, the one with the new id
works, and an id alone is sufficient."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pybroker.native import Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.support.brokers import BrokerProcess, PybrokerProcess
from tests.topic_ids.kit import batch, create, delete, metadata, produce, recreate, unique
from tests.topic_ids.lives import until
from tests.wire.client import WireClient

UNKNOWN, INCONSISTENT = int(ErrorCode.UNKNOWN_TOPIC_ID), int(ErrorCode.INCONSISTENT_TOPIC_ID)
RETENTION = "retention.ms"


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(broker.port) as connected:
        yield connected


class PartitionRequest(NamedTuple):
    """A request about partition 0 of a topic, with its version, and how to read its response."""

    make: Callable[[str, Uuid], Any]
    version: int
    read: Callable[[Any], tuple[int, str, Uuid]]
    """Returns error code, name and id."""
    works: int = 0
    """The error code of a request with the id of the current topic."""


def _list_offsets(name: str, topic_id: Uuid) -> Any:
    partition = m.ListOffsetsRequest_ListOffsetsPartition(partition_index=0, timestamp=-1)
    topic = m.ListOffsetsRequest_ListOffsetsTopic(name=name, topic_id=topic_id, partitions=[partition])
    return m.ListOffsetsRequest(replica_id=-1, topics=[topic])


def _epoch(name: str, topic_id: Uuid) -> Any:
    partition = m.OffsetForLeaderEpochRequest_OffsetForLeaderPartition(partition=0, leader_epoch=0)
    topic = m.OffsetForLeaderEpochRequest_OffsetForLeaderTopic(
        topic=name, topic_id=topic_id, partitions=[partition]
    )
    return m.OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])


def _delete_records(name: str, topic_id: Uuid) -> Any:
    partition = m.DeleteRecordsRequest_DeleteRecordsPartition(partition_index=0, offset=1)
    topic = m.DeleteRecordsRequest_DeleteRecordsTopic(name=name, topic_id=topic_id, partitions=[partition])
    return m.DeleteRecordsRequest(topics=[topic], timeout_ms=60_000)


def _create_partitions(name: str, topic_id: Uuid) -> Any:
    topic = m.CreatePartitionsRequest_CreatePartitionsTopic(name=name, topic_id=topic_id, count=3, assignments=None)
    return m.CreatePartitionsRequest(topics=[topic], timeout_ms=60_000)


def _elect(name: str, topic_id: Uuid) -> Any:
    topic = m.ElectLeadersRequest_TopicPartitions(topic=name, topic_id=topic_id, partitions=[0])
    return m.ElectLeadersRequest(topic_partitions=[topic], timeout_ms=60_000)


def _reassign(name: str, topic_id: Uuid) -> Any:
    partition = m.AlterPartitionReassignmentsRequest_ReassignablePartition(partition_index=0, replicas=None)
    topic = m.AlterPartitionReassignmentsRequest_ReassignableTopic(
        name=name, topic_id=topic_id, partitions=[partition]
    )
    return m.AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=60_000)


def _incremental(name: str, topic_id: Uuid) -> Any:
    config = m.IncrementalAlterConfigsRequest_AlterableConfig(name=RETENTION, config_operation=0, value="77777")
    resource = m.IncrementalAlterConfigsRequest_AlterConfigsResource(
        resource_type=2, resource_name=name, topic_id=topic_id, configs=[config]
    )
    return m.IncrementalAlterConfigsRequest(resources=[resource])


def _alter(name: str, topic_id: Uuid) -> Any:
    config = m.AlterConfigsRequest_AlterableConfig(name=RETENTION, value="88888")
    resource = m.AlterConfigsRequest_AlterConfigsResource(
        resource_type=2, resource_name=name, topic_id=topic_id, configs=[config]
    )
    return m.AlterConfigsRequest(resources=[resource])


def _configs(name: str, topic_id: Uuid) -> Any:
    resource = m.DescribeConfigsRequest_DescribeConfigsResource(
        resource_type=2, resource_name=name, topic_id=topic_id, configuration_keys=[RETENTION]
    )
    return m.DescribeConfigsRequest(resources=[resource])


def _producers(name: str, topic_id: Uuid) -> Any:
    topic = m.DescribeProducersRequest_TopicRequest(name=name, topic_id=topic_id, partition_indexes=[0])
    return m.DescribeProducersRequest(topics=[topic])


def _markers(name: str, topic_id: Uuid) -> Any:
    topic = m.WriteTxnMarkersRequest_WritableTxnMarkerTopic(name=name, topic_id=topic_id, partition_indexes=[0])
    marker = m.WriteTxnMarkersRequest_WritableTxnMarker(
        producer_id=7_000_000, producer_epoch=0, transaction_result=False, topics=[topic], coordinator_epoch=0
    )
    return m.WriteTxnMarkersRequest(markers=[marker])


def _partition_of(topics: str, partitions: str, *, name: str = "name") -> Callable[[Any], Any]:
    def read(answer: Any) -> tuple[int, str, Uuid]:
        (topic,) = getattr(answer, topics)
        (partition,) = getattr(topic, partitions)
        return partition.error_code, getattr(topic, name), topic.topic_id

    return read


def _topic_of(topics: str, name: str = "name") -> Callable[[Any], Any]:
    def read(answer: Any) -> tuple[int, str, Uuid]:
        (topic,) = getattr(answer, topics)
        return topic.error_code, getattr(topic, name), topic.topic_id

    return read


def _of_marker(answer: Any) -> tuple[int, str, Uuid]:
    (marker,) = answer.markers
    found: tuple[int, str, Uuid] = _partition_of("topics", "partitions")(marker)
    return found


REQUESTS = {
    "ListOffsets": PartitionRequest(_list_offsets, 6, _partition_of("topics", "partitions")),
    "ListOffsets, newest": PartitionRequest(_list_offsets, 11, _partition_of("topics", "partitions")),
    "OffsetForLeaderEpoch": PartitionRequest(_epoch, 4, _partition_of("topics", "partitions", name="topic")),
    "DeleteRecords": PartitionRequest(_delete_records, 2, _partition_of("topics", "partitions")),
    "CreatePartitions": PartitionRequest(_create_partitions, 3, _topic_of("results")),
    "ElectLeaders": PartitionRequest(
        _elect,
        2,
        _partition_of("replica_election_results", "partition_result", name="topic"),
        int(ErrorCode.ELECTION_NOT_NEEDED),
    ),
    "AlterPartitionReassignments": PartitionRequest(
        _reassign, 1, _partition_of("responses", "partitions"), int(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    ),
    "IncrementalAlterConfigs": PartitionRequest(_incremental, 1, _topic_of("responses", "resource_name")),
    "AlterConfigs": PartitionRequest(_alter, 2, _topic_of("responses", "resource_name")),
    "DescribeConfigs": PartitionRequest(_configs, 4, _topic_of("results", "resource_name")),
    "DescribeProducers": PartitionRequest(_producers, 0, _partition_of("topics", "partitions")),
    "WriteTxnMarkers": PartitionRequest(_markers, 2, _of_marker),
}


def state(client: WireClient, name: str) -> Any:
    """Return the state that the requests change: partitions, settings, start and end of the log."""
    (topic,) = metadata(client, 12, name).topics
    (described,) = client.call(_configs(name, Uuid.ZERO), 4).results
    offsets = []
    for timestamp in (-2, -1):
        request = _list_offsets(name, Uuid.ZERO)
        request.topics[0].partitions[0].timestamp = timestamp
        offsets.append(client.call(request, 6).topics[0].partitions[0].offset)
    return topic.topic_id, len(topic.partitions), [one.value for one in described.configs], offsets


@pytest.mark.checklist(233, 234, 236, 237, 239, 242, "U11", "D2", "D3", "D39")
@pytest.mark.parametrize("what", REQUESTS)
def test_the_id_of_before_is_refused_and_the_new_one_works(client: WireClient, what: str) -> None:
    asked = REQUESTS[what]
    name = unique("tagged")
    old = create(client, name).topic_id
    new = recreate(client, name)
    assert produce(client, new, batch(b"a", b"b")).error_code == 0
    before = state(client, name)

    def ask(name: str, topic_id: Uuid) -> tuple[int, str, Uuid]:
        return asked.read(client.call(asked.make(name, topic_id), asked.version))

    other = unique("tagged")
    create(client, other)
    assert ask(name, old) == (INCONSISTENT, name, old)
    assert ask("", old) == (UNKNOWN, "", old)
    # Id and name exist, but belong to two topics; then only the id exists.
    assert ask(other, new) == (INCONSISTENT, other, new)
    assert ask("no-such-topic", new) == (INCONSISTENT, "no-such-topic", new)
    assert ask("no-such-topic", old) == (UNKNOWN, "no-such-topic", old)
    assert state(client, name) == before
    assert ask(name, new) == (asked.works, name, new)
    again = asked.works
    if what == "CreatePartitions":
        again = int(ErrorCode.INVALID_PARTITIONS)
        assert state(client, name)[1] == 3
    assert ask("", new) == (again, "", new)
    if "AlterConfigs" in what or what == "DeleteRecords":
        assert state(client, name) != before


@pytest.mark.checklist("U11")
def test_of_versions_without_tags_the_name_decides(client: WireClient) -> None:
    name = unique("tagged")
    topic_id = create(client, name).topic_id
    recreate(client, name)
    answer = client.call(_list_offsets(name, topic_id), 5)
    assert _partition_of("topics", "partitions")(answer) == (0, name, Uuid.ZERO)
    answer = client.call(_delete_records(name, topic_id), 1)
    assert _partition_of("topics", "partitions")(answer) == (int(ErrorCode.OFFSET_OUT_OF_RANGE), name, Uuid.ZERO)


@pytest.mark.checklist("U11")
def test_an_id_is_given_for_what_is_no_topic(client: WireClient) -> None:
    resource = m.DescribeConfigsRequest_DescribeConfigsResource(
        resource_type=4, resource_name="0", topic_id=Uuid.random(), configuration_keys=[]
    )
    (row,) = client.call(m.DescribeConfigsRequest(resources=[resource]), 4).results
    assert row.error_code == ErrorCode.INVALID_REQUEST


# --- offsets of groups --------------------------------------------------------------------------------------------


def _commit(client: WireClient, group: str, name: str) -> None:
    partition = m.OffsetCommitRequest_OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = m.OffsetCommitRequest_OffsetCommitRequestTopic(name=name, partitions=[partition])
    request = m.OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, topics=[topic])
    while (code := client.call(request, 8).topics[0].partitions[0].error_code) in (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    ):
        client.call(m.FindCoordinatorRequest(coordinator_keys=[group]), 4)
    assert code == 0


def _committed(client: WireClient, group: str, name: str) -> int:
    topic = m.OffsetFetchRequest_OffsetFetchRequestTopic(name=name, partition_indexes=[0])
    answer = client.call(m.OffsetFetchRequest(group_id=group, topics=[topic]), 7)
    return int(answer.topics[0].partitions[0].committed_offset)


@pytest.mark.checklist("U11")
def test_offsets_are_deleted_by_id(client: WireClient) -> None:
    """OffsetDelete has no version with tags, so pybroker has its own key."""
    name, group = unique("tagged"), unique("group")
    old = create(client, name).topic_id
    new = recreate(client, name)
    _commit(client, group, name)

    def ask(name: str, topic_id: Uuid) -> tuple[int, str, Uuid]:
        topic = m.DeleteOffsetsRequest_DeleteOffsetsTopic(
            name=name,
            topic_id=topic_id,
            partitions=[m.DeleteOffsetsRequest_DeleteOffsetsPartition(partition_index=0)],
        )
        answer = client.call(m.DeleteOffsetsRequest(group_id=group, topics=[topic]), 0)
        assert answer.error_code == 0, answer
        found: tuple[int, str, Uuid] = _partition_of("topics", "partitions")(answer)
        return found

    assert ask(name, old) == (INCONSISTENT, name, old)
    assert ask("", old) == (UNKNOWN, "", old)
    assert _committed(client, group, name) == 1
    assert ask("", new) == (0, "", new)
    assert _committed(client, group, name) == -1
    _commit(client, group, name)
    assert ask(name, Uuid.ZERO) == (0, name, Uuid.ZERO)
    assert _committed(client, group, name) == -1
    answer = client.call(m.DeleteOffsetsRequest(group_id="no-such-group", topics=[]), 0)
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND


# --- transactions -------------------------------------------------------------------------------------------------


def _init(client: WireClient, transactional_id: str) -> Any:
    request = m.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    retriable = {
        int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        int(ErrorCode.COORDINATOR_NOT_AVAILABLE),
        int(ErrorCode.NOT_COORDINATOR),
        int(ErrorCode.CONCURRENT_TRANSACTIONS),
    }
    while (answer := client.call(request, 4)).error_code in retriable:
        client.call(m.FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id]), 4)
    assert answer.error_code == 0
    return answer


@pytest.mark.checklist(240, "U11", "D39")
def test_partitions_join_a_transaction_by_id(client: WireClient) -> None:
    names = unique("tagged"), unique("tagged")
    old = create(client, names[0]).topic_id
    ids = recreate(client, names[0]), create(client, names[1]).topic_id
    transactional_id = unique("transaction")
    producer = _init(client, transactional_id)

    def ask(*topics: tuple[str, Uuid]) -> list[tuple[int, str, Uuid]]:
        wanted = [
            m.AddPartitionsToTxnRequest_AddPartitionsToTxnTopic(name=name, topic_id=topic_id, partitions=[0])
            for name, topic_id in topics
        ]
        request = m.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=wanted,
        )
        rows = client.call(request, 3).results_by_topic_v3_and_below
        return [(row.results_by_partition[0].partition_error_code, row.name, row.topic_id) for row in rows]

    def held() -> set[str]:
        (row,) = client.call(m.DescribeTransactionsRequest(transactional_ids=[transactional_id]), 0).transaction_states
        return {topic.topic for topic in row.topics}

    unattempted = int(ErrorCode.OPERATION_NOT_ATTEMPTED)
    assert ask((names[0], old), (names[1], ids[1])) == [
        (INCONSISTENT, names[0], old),
        (unattempted, names[1], ids[1]),
    ]
    assert ask(("", old)) == [(UNKNOWN, "", old)]
    assert held() == set()
    assert ask((names[0], ids[0]), ("", ids[1])) == [(0, names[0], ids[0]), (0, "", ids[1])]
    assert held() == set(names)


@pytest.mark.checklist(241, 247, "D31", "E11")
def test_offsets_of_a_transaction_are_committed_by_id(client: WireClient) -> None:
    """TxnOffsetCommit from Kafka's version 6 on: an offset of the deleted topic never becomes one of the next."""
    name, group, transactional_id = unique("offsets"), unique("group"), unique("transaction")
    old = create(client, name).topic_id
    _commit(client, group, name)
    new = recreate(client, name)
    producer = _init(client, transactional_id)
    me = {"transactional_id": transactional_id, "producer_id": producer.producer_id}

    def commit(topic_id: Uuid, offset: int) -> tuple[Uuid, str, int]:
        partition = m.TxnOffsetCommitRequest_TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset
        )
        topic = m.TxnOffsetCommitRequest_TxnOffsetCommitRequestTopic(topic_id=topic_id, partitions=[partition])
        request = m.TxnOffsetCommitRequest(
            **me, producer_epoch=producer.producer_epoch, group_id=group, topics=[topic]
        )
        (row,) = client.call(request, 6).topics
        return row.topic_id, row.name, row.partitions[0].error_code

    assert commit(old, 7) == (old, "", UNKNOWN)
    assert commit(new, 3) == (new, "", 0)
    assert _committed(client, group, name) == -1, "not before the transaction ends"
    end = m.EndTxnRequest(**me, producer_epoch=producer.producer_epoch, committed=True)
    assert client.call(end, 5).error_code == 0
    until(lambda: _committed(client, group, name) == 3, "the offset of the transaction")


# --- log directories ----------------------------------------------------------------------------------------------


@pytest.fixture
def two_dirs(tmp_path: Path) -> Iterator[tuple[WireClient, list[str]]]:
    dirs = [str(tmp_path / "one"), str(tmp_path / "two")]
    broker = PybrokerProcess(tmp_path / "data", {"log.dirs": ",".join(dirs)})
    broker.start()
    try:
        with WireClient(broker.port) as client:
            yield client, dirs
    finally:
        broker.kill()
        shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.mark.checklist(235, 238, 329, "U11", "D39")
def test_replicas_are_described_and_moved_by_id(two_dirs: tuple[WireClient, list[str]]) -> None:
    client, dirs = two_dirs
    name = unique("tagged")
    old = create(client, name).topic_id
    new = recreate(client, name)
    assert produce(client, new, batch(b"a")).error_code == 0

    def where(name: str, topic_id: Uuid) -> dict[str, list[tuple[str, Uuid]]]:
        topic = m.DescribeLogDirsRequest_DescribableLogDirTopic(topic=name, topic_id=topic_id, partitions=[0])
        answer = client.call(m.DescribeLogDirsRequest(topics=[topic]), 4)
        return {
            one.log_dir: [(topic.name, topic.topic_id) for topic in one.topics if not topic.partitions[0].is_future_key]
            for one in answer.results
            if one.topics
        }

    def move(name: str, topic_id: Uuid, path: str) -> tuple[int, str, Uuid]:
        topic = m.AlterReplicaLogDirsRequest_AlterReplicaLogDirTopic(name=name, topic_id=topic_id, partitions=[0])
        directory = m.AlterReplicaLogDirsRequest_AlterReplicaLogDir(path=path, topics=[topic])
        answer = client.call(m.AlterReplicaLogDirsRequest(dirs=[directory]), 2)
        found: tuple[int, str, Uuid] = _partition_of("results", "partitions", name="topic_name")(answer)
        return found

    # It is omitted, like a missing topic: the response has no field for an error of a topic.
    assert where(name, old) == {}
    assert where("", old) == {}
    ((first, rows),) = where("", new).items()
    assert rows == [(name, new)]
    assert where(name, Uuid.ZERO) == {first: [(name, Uuid.ZERO)]}
    second = next(one for one in dirs if one != first)
    assert move(name, old, second) == (INCONSISTENT, name, old)
    assert move("", old, second) == (UNKNOWN, "", old)
    assert where(name, new) == {first: [(name, new)]}
    assert move("", new, second) == (0, "", new)
    until(lambda: where(name, new) == {second: [(name, new)]})
    assert [row.error_code for row in delete(client, new)] == [0]


@pytest.mark.checklist("U11", "D39")
def test_reassignments_are_listed_by_id(client: WireClient) -> None:
    """A single broker has no reassignments: a wrong id is not an error."""
    name = unique("tagged")
    topic_id = create(client, name).topic_id
    for one in (topic_id, Uuid.random()):
        topic = m.ListPartitionReassignmentsRequest_ListPartitionReassignmentsTopics(
            name=name, topic_id=one, partition_indexes=[0]
        )
        answer = client.call(m.ListPartitionReassignmentsRequest(topics=[topic]), 0)
        assert (answer.error_code, answer.topics) == (0, [])
