"""Placement of replicas: over racks, on requested brokers, and on the disks of a broker."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from pybroker.client import (
    AlterConfigOp,
    ConfigResource,
    ConfigResourceType,
    ErrorCode,
    KafkaError,
    NewPartitions,
    NewTopic,
    OpType,
    TopicPartition,
    blocking,
)
from pybroker.testing.cluster import Store
from tests.support.cluster import BrokerCluster, ClusterBroker, described, running_cluster, until
from tests.support.kafka_tools import run_tool

RACKS = {1: "a", 2: "a", 3: "b", 4: "b"}


def furnish(broker: ClusterBroker) -> None:
    """Give a broker two disks and its rack."""
    disks = ",".join(str(broker.folder / name) for name in ("one", "two"))
    broker.settings |= {"broker.rack": RACKS[broker.broker_id], "log.dirs": disks}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[BrokerCluster]:
    """Four brokers in two racks."""
    with running_cluster(tmp_path_factory.mktemp("placement"), size=4, prepare=furnish, store=store) as running:
        yield running


@pytest.fixture
def admin(cluster: BrokerCluster) -> Iterator[blocking.AdminClient]:
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as made:
        yield made


def assigned(admin: blocking.AdminClient, topic: str) -> list[tuple[int, ...]]:
    return [tuple(node.id for node in one.replicas) for one in described(admin, topic).partitions]


def test_replicas_are_spread_over_racks(admin: blocking.AdminClient) -> None:
    until(lambda: {node.id: node.rack for node in admin.describe_cluster().nodes} == RACKS)
    admin.create_topics([NewTopic("racked", 8, 2)])
    admin.create_partitions({"racked": 12})
    until(lambda: len(assigned(admin, "racked")) == 12)
    placed = assigned(admin, "racked")
    assert all({RACKS[broker] for broker in replicas} == {"a", "b"} for replicas in placed)
    assert {replicas[0] for replicas in placed} == {1, 2, 3, 4}


def test_new_partitions_go_where_they_are_wanted(cluster: BrokerCluster, admin: blocking.AdminClient) -> None:
    admin.create_topics([NewTopic("wanted", replica_assignments={0: (1, 2)})])
    admin.create_partitions({"wanted": NewPartitions(3, [[4, 3], [2, 3]])})
    until(lambda: assigned(admin, "wanted") == [(1, 2), (4, 3), (2, 3)])
    with blocking.Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"}) as producer:
        for partition in range(3):
            producer.send("wanted", b"x", partition=partition)
    for wrong in ([[1, 9]], [[1, 1]], [[1]], [[1, 2], [1, 2]]):
        with pytest.raises(KafkaError) as refused:
            admin.create_partitions({"wanted": NewPartitions(4, wrong)})
        assert refused.value.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def disks(admin: blocking.AdminClient, topic: str) -> dict[int, tuple[str, ...]]:
    """Return broker → disks with the topic's first partition; a copy in progress has a "+"."""
    return {
        broker: tuple(
            sorted(
                Path(path).name + ("+" if replica.is_future else "")
                for path, directory in directories.items()
                for where, replica in directory.replicas.items()
                if where == TopicPartition(topic, 0)
            )
        )
        for broker, directories in admin.describe_log_dirs().items()
    }


def test_each_broker_tells_and_moves_what_its_own_disks_have(
    cluster: BrokerCluster, admin: blocking.AdminClient
) -> None:
    admin.create_topics([NewTopic("disks", replica_assignments={0: (1, 3)}, config={"min.insync.replicas": "2"})])
    with blocking.Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"}) as producer:
        for number in range(1_000):
            producer.enqueue("disks", b"%04d" % number * 1000, partition=0)
    before = disks(admin, "disks")
    assert {broker: len(found) for broker, found in before.items()} == {1: 1, 2: 0, 3: 1, 4: 0}
    # Kafka's tool sends the request to each broker.
    said = run_tool("kafka-log-dirs", ["--bootstrap-server", cluster.bootstrap, "--describe", "--topic-list", "disks"])
    told = json.loads(next(line for line in said.splitlines() if line.startswith("{")))
    found = {
        one["broker"]: sum(len(directory["partitions"]) for directory in one["logDirs"]) for one in told["brokers"]
    }
    assert found == {1: 1, 2: 0, 3: 1, 4: 0}
    # A throttled copy can be observed; a changed rate takes effect at once.
    rate = "replica.alter.log.dirs.io.max.bytes.per.second"
    leader = ConfigResource(ConfigResourceType.BROKER, "1")
    admin.incremental_alter_configs({leader: [AlterConfigOp(rate, "1000")]})
    where = TopicPartition("disks", 0)
    other = {broker: "two" if found == ("one",) else "one" for broker, found in before.items() if found}
    # Only the broker itself confirms the new rate; before that, the replica must not move.
    until(lambda: admin.describe_configs([leader]).all()[leader][rate].value == "1000")
    admin.alter_replica_log_dirs(
        {(where, broker): str(cluster.brokers[broker].folder / name) for broker, name in other.items()}
    )
    # The follower's replica moves at once, the leader's when its throttle allows it.
    until(lambda: disks(admin, "disks")[3] == (other[3],))
    until(lambda: disks(admin, "disks")[1] == tuple(sorted((*before[1], other[1] + "+"))))
    admin.incremental_alter_configs({leader: [AlterConfigOp(rate, None, OpType.DELETE)]})
    until(lambda: disks(admin, "disks")[1] == (other[1],))
    with blocking.Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"}) as producer:
        producer.send("disks", b"after", partition=0)


def test_kafkas_tools_say_and_change_what_each_broker_has(cluster: BrokerCluster, admin: blocking.AdminClient) -> None:
    """The tools are kafka-topics and kafka-configs. The tests of other subjects use the rest of Kafka's tools."""

    def tool(name: str, *arguments: str) -> str:
        return run_tool(name, ["--bootstrap-server", cluster.bootstrap, *arguments])

    tool("kafka-topics", "--create", "--topic", "tooled", "--replica-assignment", "1:3,4:2,2:4")
    assert assigned(admin, "tooled") == [(1, 3), (4, 2), (2, 4)]
    cluster.brokers[4].kill()
    until(lambda: [one.leader for one in shown_by(admin, "tooled")] == [1, 2, 2])

    def under_replicated() -> list[tuple[str, ...]]:
        shown = tool("kafka-topics", "--describe", "--under-replicated-partitions", "--topic", "tooled")
        return re.findall(r"Partition: (\d+)\s+Leader: (\d+)\s+Replicas: (\S+)\s+Isr: (\S+)", shown)

    # The broker to which the tool sends its request may apply the change later than others.
    until(lambda: under_replicated() == [("1", "2", "4,2", "2"), ("2", "2", "2,4", "2")])
    cluster.brokers[4].start()
    until(lambda: [one.isr for one in shown_by(admin, "tooled")] == [{1, 3}, {2, 4}, {2, 4}])
    third = ("--entity-type", "brokers", "--entity-name", "3")
    tool("kafka-configs", "--alter", *third, "--add-config", "log.cleaner.threads=2")
    assert "log.cleaner.threads=2 sensitive=false" in tool("kafka-configs", "--describe", *third)
    settings = admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, str(n)) for n in (2, 3)]).all()
    found = {int(broker.name): values["log.cleaner.threads"].value for broker, values in settings.items()}
    assert found == {2: "1", 3: "2"}


class ShownPartition(NamedTuple):
    """A partition as the tool prints it."""

    leader: int | None
    isr: set[int]


def shown_by(admin: blocking.AdminClient, topic: str) -> list[ShownPartition]:
    partitions = described(admin, topic).partitions
    return [ShownPartition(one.leader and one.leader.id, {node.id for node in one.isr}) for one in partitions]
