"""The tagged topic id in Kafka's requests by name (docs/protocol.md), on each broker of a cluster. Brokers that lead or
coordinate a re-created topic refuse its dead id, and so do all others. The id of the live topic is sufficient without a
name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from pybroker.native import Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from pybroker.testing.cluster import Store
from tests.support.cluster import BrokerCluster, running_cluster, until
from tests.topic_ids.kit import batch, delete, metadata, produce
from tests.topic_ids.test_ids_in_tags import REQUESTS
from tests.wire.client import WireClient

UNKNOWN, INCONSISTENT = int(ErrorCode.UNKNOWN_TOPIC_ID), int(ErrorCode.INCONSISTENT_TOPIC_ID)
SETTINGS = {
    "offsets.topic.num.partitions": "6",
    "transaction.state.log.num.partitions": "6",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
BROKERS = (1, 2, 3)
GROUP, TRANSACTION = 0, 1
"""FindCoordinator's key types."""


class RecreatedTopic(NamedTuple):
    """A topic that was deleted and created again with the same name."""

    name: str
    dead: Uuid
    living: Uuid


class Scene(NamedTuple):
    cluster: BrokerCluster
    topics: dict[int, RecreatedTopic]
    """Broker → topic whose only replica it has."""


def _create(client: WireClient, name: str, broker: int) -> Uuid:
    assignment = m.CreateTopicsRequest_CreatableReplicaAssignment(partition_index=0, broker_ids=[broker])
    topic = m.CreateTopicsRequest_CreatableTopic(
        name=name, num_partitions=-1, replication_factor=-1, assignments=[assignment]
    )
    (row,) = client.call(m.CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 7).topics
    assert row.error_code == 0, row
    topic_id: Uuid = row.topic_id
    return topic_id


def _told(client: WireClient, name: str) -> Uuid:
    (topic,) = metadata(client, 12, name).topics
    topic_id: Uuid = topic.topic_id
    return topic_id


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[Scene]:
    with running_cluster(tmp_path_factory.mktemp("ids"), 3, SETTINGS, store=store) as cluster:
        topics = {}
        with WireClient(cluster.brokers[1].port) as client:
            for broker in BROKERS:
                name = f"tagged-{broker}"
                dead = _create(client, name, broker)
                assert [row.error_code for row in delete(client, name)] == [0]
                topics[broker] = RecreatedTopic(name, dead, _create(client, name, broker))
        for broker in BROKERS:
            with WireClient(cluster.brokers[broker].port) as client:
                until(lambda: all(_told(client, one.name) == one.living for one in topics.values()))
                own = topics[broker].living
                until(lambda own=own: produce(client, own, batch(b"a", b"b")).error_code == 0)
        yield Scene(cluster, topics)


@pytest.fixture(params=BROKERS)
def asked(scene: Scene, request: pytest.FixtureRequest) -> Iterator[tuple[int, WireClient]]:
    """Send the request to each broker in turn."""
    with WireClient(scene.cluster.brokers[request.param].port) as client:
        yield request.param, client


@pytest.mark.checklist(233, 234, 236, 237, 239, 242, "U11", "D39")
@pytest.mark.parametrize("what", REQUESTS)
def test_each_broker_refuses_a_dead_id(scene: Scene, asked: tuple[int, WireClient], what: str) -> None:
    broker, client = asked
    of = REQUESTS[what]

    def ask(name: str, topic_id: Uuid) -> tuple[int, str, Uuid]:
        return of.read(client.call(of.make(name, topic_id), of.version))

    for lived in scene.topics.values():
        assert ask("", lived.dead) == (UNKNOWN, "", lived.dead)
        assert ask(lived.name, lived.dead) == (INCONSISTENT, lived.name, lived.dead)
    own = scene.topics[broker]
    assert ask("", own.living) == (of.works, "", own.living)


def _key_of(client: WireClient, broker: int, kind: int) -> str:
    """Return a group id or transactional id that this broker coordinates."""
    found: list[str] = []

    def is_there() -> bool:
        keys = [f"key-{number}" for number in range(60)]
        answer = client.call(m.FindCoordinatorRequest(key_type=kind, coordinator_keys=keys), 4)
        found.extend(one.key for one in answer.coordinators if one.error_code == 0 and one.node_id == broker)
        return bool(found)

    until(is_there)
    return found[0]


def _repeated(ask: Callable[[], Any], code: Callable[[Any], int]) -> Any:
    """Return the response of a coordinator that has loaded its log; repeat the request until then."""
    answers = []
    passing = (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    )

    def comes() -> bool:
        answers.append(ask())
        return code(answers[-1]) not in passing

    until(comes)
    assert code(answers[-1]) == 0, answers[-1]
    return answers[-1]


@pytest.mark.checklist(240, "U11", "D39")
def test_each_coordinator_refuses_a_dead_id_in_a_transaction(scene: Scene, asked: tuple[int, WireClient]) -> None:
    broker, client = asked
    key = _key_of(client, broker, TRANSACTION)
    request = m.InitProducerIdRequest(transactional_id=key, transaction_timeout_ms=60_000)
    producer = _repeated(lambda: client.call(request, 4), lambda answer: int(answer.error_code))

    def add(topic_id: Uuid) -> int:
        topic = m.AddPartitionsToTxnRequest_AddPartitionsToTxnTopic(name="", topic_id=topic_id, partitions=[0])
        wanted = m.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=key,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=[topic],
        )
        (row,) = client.call(wanted, 3).results_by_topic_v3_and_below
        return int(row.results_by_partition[0].partition_error_code)

    for lived in scene.topics.values():
        assert add(lived.dead) == UNKNOWN
        assert add(lived.living) == 0


@pytest.mark.checklist("U11", "D39")
def test_each_coordinator_refuses_to_delete_offsets_of_a_dead_id(
    scene: Scene, asked: tuple[int, WireClient]
) -> None:
    broker, client = asked
    key = _key_of(client, broker, GROUP)
    partition = m.OffsetCommitRequest_OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topics = [
        m.OffsetCommitRequest_OffsetCommitRequestTopic(name=lived.name, partitions=[partition])
        for lived in scene.topics.values()
    ]
    request = m.OffsetCommitRequest(group_id=key, generation_id_or_member_epoch=-1, topics=topics)
    _repeated(lambda: client.call(request, 8), lambda answer: int(answer.topics[0].partitions[0].error_code))

    def remove(topic_id: Uuid) -> int:
        one = m.DeleteOffsetsRequest_DeleteOffsetsPartition(partition_index=0)
        topic = m.DeleteOffsetsRequest_DeleteOffsetsTopic(name="", topic_id=topic_id, partitions=[one])
        answer = client.call(m.DeleteOffsetsRequest(group_id=key, topics=[topic]), 0)
        return int(answer.topics[0].partitions[0].error_code)

    def committed() -> list[int]:
        wanted = [
            m.OffsetFetchRequest_OffsetFetchRequestTopic(name=lived.name, partition_indexes=[0])
            for lived in scene.topics.values()
        ]
        answer = client.call(m.OffsetFetchRequest(group_id=key, topics=wanted), 7)
        return [topic.partitions[0].committed_offset for topic in answer.topics]

    assert {remove(lived.dead) for lived in scene.topics.values()} == {UNKNOWN}
    assert committed() == [1, 1, 1]
    assert {remove(lived.living) for lived in scene.topics.values()} == {0}
    assert committed() == [-1, -1, -1]


@pytest.mark.checklist(235, 238, "U11", "D39")
def test_each_broker_moves_and_describes_replicas_of_living_ids(
    scene: Scene, asked: tuple[int, WireClient]
) -> None:
    broker, client = asked
    path = str(scene.cluster.brokers[broker].log_dir)

    def described(topic_id: Uuid) -> list[Uuid]:
        topic = m.DescribeLogDirsRequest_DescribableLogDirTopic(topic="", topic_id=topic_id, partitions=[0])
        answer = client.call(m.DescribeLogDirsRequest(topics=[topic]), 4)
        return [topic.topic_id for one in answer.results for topic in one.topics]

    def moved(topic_id: Uuid) -> int:
        topic = m.AlterReplicaLogDirsRequest_AlterReplicaLogDirTopic(name="", topic_id=topic_id, partitions=[0])
        directory = m.AlterReplicaLogDirsRequest_AlterReplicaLogDir(path=path, topics=[topic])
        (row,) = client.call(m.AlterReplicaLogDirsRequest(dirs=[directory]), 2).results
        return int(row.partitions[0].error_code)

    for lived in scene.topics.values():
        # DescribeLogDirs has no field for the error of a topic: it omits topics that do not exist.
        assert described(lived.dead) == []
        assert moved(lived.dead) == UNKNOWN
    own = scene.topics[broker]
    assert described(own.living) == [own.living]
    assert moved(own.living) == 0, "it is there already"
