"""Replicas move to other brokers while clients write and read; whatever dies on the way, they arrive or stay."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator

import pytest

from pybroker.client import ErrorCode, KafkaError, NewTopic, PartitionReassignment, TopicPartition, blocking
from tests.support.cluster import LIMIT_S, BrokerCluster, running_cluster, until
from tests.support.kafka_tools import run_tool


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    """Four brokers."""
    with running_cluster(tmp_path_factory.mktemp("reassignment"), size=4) as running:
        yield running


@pytest.fixture
def admin(cluster: BrokerCluster) -> Iterator[blocking.AdminClient]:
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as made:
        yield made


def create(admin: blocking.AdminClient, name: str, *replicas: tuple[int, ...]) -> None:
    admin.create_topics([NewTopic(name, replica_assignments=dict(enumerate(replicas)))])


def produce(cluster: BrokerCluster, topic: str, values: range, partitions: int) -> None:
    settings = {"bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True}
    with blocking.Producer(settings) as producer:
        for value in values:
            producer.enqueue(topic, b"%d" % value, partition=value % partitions)
        producer.flush()


def read(cluster: BrokerCluster, topic: str, partitions: int, count: int) -> list[int]:
    found: list[int] = []
    settings = {"bootstrap.servers": cluster.bootstrap, "auto.offset.reset": "earliest"}
    with blocking.Consumer(settings) as consumer:
        consumer.assign([TopicPartition(topic, index) for index in range(partitions)])
        give_up = time.monotonic() + LIMIT_S
        while len(found) < count and time.monotonic() < give_up:
            found += [int(record.value) for record in consumer.poll(0.5)]
    return sorted(found)


def assigned(admin: blocking.AdminClient, topic: str) -> list[list[int]]:
    described = admin.describe_topics([topic]).all_topic_names()[topic]
    return [[node.id for node in one.replicas] for one in described.partitions]


def in_sync(admin: blocking.AdminClient, topic: str) -> list[set[int]]:
    described = admin.describe_topics([topic]).all_topic_names()[topic]
    return [{node.id for node in one.isr} for one in described.partitions]


def on_disk(cluster: BrokerCluster, topic: str) -> dict[int, set[int]]:
    """Broker → partitions of which it has a directory in service."""
    return {
        number: {int(one.name.rpartition("-")[2]) for one in broker.data_dir.glob(f"{topic}-*") if one.is_dir()}
        for number, broker in cluster.brokers.items()
    }


def under_way(admin: blocking.AdminClient, topic: str) -> dict[int, PartitionReassignment]:
    found = admin.list_partition_reassignments()
    return {where.partition: what for where, what in found.items() if where.topic == topic}


def test_kafkas_tool_moves_replicas_under_writes(cluster: BrokerCluster, admin: blocking.AdminClient) -> None:
    create(admin, "moved", (1, 2), (2, 1), (1, 2))
    produce(cluster, "moved", range(3_000), 3)
    wanted = [[3, 4], [4, 3], [3, 2]]
    plan = {
        "version": 1,
        "partitions": [
            {"topic": "moved", "partition": index, "replicas": replicas} for index, replicas in enumerate(wanted)
        ],
    }
    file = cluster.brokers[1].folder / "plan.json"
    file.write_text(json.dumps(plan))
    tool = ["--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(file)]
    said = run_tool("kafka-reassign-partitions", [*tool, "--execute"])
    assert "Successfully started partition reassignments for moved-0,moved-1,moved-2" in said
    produce(cluster, "moved", range(3_000, 6_000), 3)
    until(lambda: not admin.list_partition_reassignments())
    assert assigned(admin, "moved") == wanted
    until(lambda: on_disk(cluster, "moved") == {1: set(), 2: {2}, 3: {0, 1, 2}, 4: {0, 1}})
    assert [sorted(one) for one in in_sync(admin, "moved")] == [[3, 4], [3, 4], [2, 3]]
    assert read(cluster, "moved", 3, 6_000) == list(range(6_000))


@pytest.mark.checklist(5)
def test_a_broker_that_was_down_cleans_up_what_was_reassigned_away(
    cluster: BrokerCluster, admin: blocking.AdminClient
) -> None:
    create(admin, "away", (1, 2), (2, 3))
    produce(cluster, "away", range(100), 2)
    cluster.brokers[1].kill()
    admin.alter_partition_reassignments({TopicPartition("away", 0): [2, 3]})
    until(lambda: in_sync(admin, "away") == [{2, 3}] * 2 and not under_way(admin, "away"))
    assert on_disk(cluster, "away")[1] == {0}
    cluster.brokers[1].start()
    until(lambda: on_disk(cluster, "away") == {1: set(), 2: {0, 1}, 3: {0, 1}, 4: set()})
    # It gets the replica back, and finds what it had.
    admin.alter_partition_reassignments({TopicPartition("away", 0): [1, 2]})
    until(lambda: not under_way(admin, "away"))
    assert on_disk(cluster, "away")[1] == {0}
    assert read(cluster, "away", 2, 100) == list(range(100))


def test_what_is_under_way_outlives_brokers_and_controllers(
    cluster: BrokerCluster, admin: blocking.AdminClient
) -> None:
    """The broker that is to get replicas dies, then the controller: reassignments wait, are taken back, replaced, or
    end with a deletion, which wins."""
    create(admin, "kept", (1, 2), (2, 1), (1, 3))
    create(admin, "gone", (1, 2))
    produce(cluster, "kept", range(300), 3)
    paused = cluster.brokers[4]
    os.kill(paused.pid, signal.SIGSTOP)
    kept = [TopicPartition("kept", index) for index in range(3)]
    admin.alter_partition_reassignments(
        {kept[0]: [4, 2], kept[1]: [4, 1], kept[2]: [4, 3], TopicPartition("gone", 0): [4, 2]}
    )
    paused.kill()
    assert under_way(admin, "kept") == {
        0: PartitionReassignment((4, 2, 1), (4,), (1,)),
        1: PartitionReassignment((4, 1, 2), (4,), (2,)),
        2: PartitionReassignment((4, 3, 1), (4,), (1,)),
    }
    assert assigned(admin, "kept")[0] == [4, 2, 1]
    admin.delete_topics(["gone"])
    create(admin, "gone", (2, 3))
    admin.alter_partition_reassignments({kept[1]: None, kept[2]: [3, 2]})
    with pytest.raises(KafkaError) as refused:
        admin.alter_partition_reassignments({kept[1]: None})
    assert refused.value.code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    until(lambda: set(under_way(admin, "kept")) == {0})
    controller = admin.describe_cluster().controller
    assert controller is not None
    cluster.brokers[controller.id].kill()
    produce(cluster, "kept", range(300, 600), 3)
    cluster.brokers[controller.id].start()
    until(lambda: under_way(admin, "kept") == {0: PartitionReassignment((4, 2, 1), (4,), (1,))})
    paused.start()
    until(lambda: not admin.list_partition_reassignments())
    assert assigned(admin, "kept") == [[4, 2], [1, 2], [3, 2]]
    until(lambda: on_disk(cluster, "kept") == {1: {1}, 2: {0, 1, 2}, 3: {2}, 4: {0}})
    until(lambda: in_sync(admin, "kept") == [{2, 4}, {1, 2}, {2, 3}])
    assert read(cluster, "kept", 3, 600) == list(range(600))
    assert on_disk(cluster, "gone") == {1: set(), 2: {0}, 3: {0}, 4: set()}
