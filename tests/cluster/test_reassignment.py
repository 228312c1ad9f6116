"""Replicas move to other brokers while clients write and read. If a broker dies meanwhile, the moves complete, or the
replicas stay."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pytest

from pybroker.client import (
    AlterConfigOp,
    ConfigResource,
    ConfigResourceType,
    ErrorCode,
    KafkaError,
    NewTopic,
    PartitionReassignment,
    TopicPartition,
    blocking,
)
from pybroker.testing.child_processes import pause
from pybroker.testing.cluster import Store
from tests.support.cluster import LIMIT_S, BrokerCluster, described, running_cluster, until
from tests.support.cluster_state import ClusterState, state_of
from tests.support.kafka_tools import run_tool
from tests.support.partition_states import StateUnknownError


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[BrokerCluster]:
    """Four brokers."""
    with running_cluster(tmp_path_factory.mktemp("reassignment"), size=4, store=store) as running:
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
    return [[node.id for node in one.replicas] for one in described(admin, topic).partitions]


def in_sync(admin: blocking.AdminClient, topic: str) -> list[set[int]]:
    return [{node.id for node in one.isr} for one in described(admin, topic).partitions]


def on_disk(cluster: BrokerCluster, topic: str) -> dict[int, set[int]]:
    """Return broker → partitions with a directory in service."""
    return {
        number: {int(one.name.rpartition("-")[2]) for one in broker.data_dir.glob(f"{topic}-*") if one.is_dir()}
        for number, broker in cluster.brokers.items()
    }


def planned(cluster: BrokerCluster, topic: str, wanted: Sequence[Sequence[int]]) -> list[str]:
    """Return the arguments of Kafka's tool."""
    rows = [{"topic": topic, "partition": index, "replicas": list(one)} for index, one in enumerate(wanted)]
    file = cluster.brokers[1].folder / f"{topic}.json"
    file.write_text(json.dumps({"version": 1, "partitions": rows}))
    return ["--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(file)]


def moves(cluster: BrokerCluster, topic: str) -> bool:
    """Return whether the metadata has a move that has not ended."""
    with state_of(cluster) as state:
        return any(one.moves for (name, _), one in state.partitions().items() if name == topic)


def under_way(admin: blocking.AdminClient, topic: str) -> dict[int, PartitionReassignment]:
    found = admin.list_partition_reassignments()
    return {where.partition: what for where, what in found.items() if where.topic == topic}


def test_kafkas_tool_moves_replicas_under_writes(cluster: BrokerCluster, admin: blocking.AdminClient) -> None:
    create(admin, "moved", (1, 2), (2, 1), (1, 2))
    produce(cluster, "moved", range(3_000), 3)
    wanted = [[3, 4], [4, 3], [3, 2]]
    tool = planned(cluster, "moved", wanted)
    said = run_tool("kafka-reassign-partitions", [*tool, "--execute"])
    assert "Successfully started partition reassignments for moved-0,moved-1,moved-2" in said
    produce(cluster, "moved", range(3_000, 6_000), 3)
    until(lambda: not admin.list_partition_reassignments())
    until(lambda: assigned(admin, "moved") == wanted)
    assert run_tool("kafka-reassign-partitions", [*tool, "--verify"]).count("is completed.") == 3
    until(lambda: on_disk(cluster, "moved") == {1: set(), 2: {2}, 3: {0, 1, 2}, 4: {0, 1}})
    until(lambda: in_sync(admin, "moved") == [{3, 4}, {3, 4}, {2, 3}])
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
    # The broker gets the replica back and finds its old data.
    admin.alter_partition_reassignments({TopicPartition("away", 0): [1, 2]})
    until(lambda: not under_way(admin, "away"))
    until(lambda: on_disk(cluster, "away")[1] == {0})
    assert read(cluster, "away", 2, 100) == list(range(100))


@pytest.mark.checklist(42, 43, "A32", "FD14")
def test_what_is_under_way_outlives_brokers_and_controllers(
    cluster: BrokerCluster, admin: blocking.AdminClient
) -> None:
    """The target broker dies, then the controller. Reassignments wait, are cancelled, are replaced, or end with a
    deletion, which takes precedence."""
    controller = admin.describe_cluster().controller
    assert controller is not None
    # The target broker is not the controller: the controller has to decide while the target broker is paused.
    one, two, three, new = sorted(cluster.brokers, key=lambda number: (number != controller.id, number))
    create(admin, "kept", (one, two), (two, one), (one, three))
    create(admin, "gone", (one, two))
    produce(cluster, "kept", range(300), 3)
    paused = cluster.brokers[new]
    pause(paused.pid)
    kept = [TopicPartition("kept", index) for index in range(3)]
    admin.alter_partition_reassignments(
        {kept[0]: [new, two], kept[1]: [new, one], kept[2]: [new, three], TopicPartition("gone", 0): [new, two]}
    )
    paused.kill()
    assert under_way(admin, "kept") == {
        0: PartitionReassignment((new, two, one), (new,), (one,)),
        1: PartitionReassignment((new, one, two), (new,), (two,)),
        2: PartitionReassignment((new, three, one), (new,), (one,)),
    }
    until(lambda: assigned(admin, "kept")[0] == [new, two, one])
    assert moves(cluster, "kept")
    admin.delete_topics(["gone"])
    create(admin, "gone", (two, three))
    admin.alter_partition_reassignments({kept[1]: None, kept[2]: [three, two]})
    with pytest.raises(KafkaError) as refused:
        admin.alter_partition_reassignments({kept[1]: None})
    assert refused.value.code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    until(lambda: set(under_way(admin, "kept")) == {0})
    cluster.brokers[one].kill()
    produce(cluster, "kept", range(300, 600), 3)
    cluster.brokers[one].start()
    until(lambda: under_way(admin, "kept") == {0: PartitionReassignment((new, two, one), (new,), (one,))})
    paused.start()
    until(lambda: not admin.list_partition_reassignments())
    until(lambda: assigned(admin, "kept") == [[new, two], [one, two], [three, two]])
    until(lambda: on_disk(cluster, "kept") == {one: {1}, two: {0, 1, 2}, three: {2}, new: {0}})
    until(lambda: in_sync(admin, "kept") == [{two, new}, {one, two}, {two, three}])
    assert read(cluster, "kept", 3, 600) == list(range(600))
    until(lambda: not moves(cluster, "kept"))
    until(lambda: on_disk(cluster, "gone") == {one: set(), two: {0}, three: {0}, new: set()})


@pytest.mark.checklist("B1", "FD14")
@pytest.mark.parametrize("moment", ["begun", "ended"])
def test_the_controller_dies_when_it_has_written(
    cluster: BrokerCluster, admin: blocking.AdminClient, moment: str
) -> None:
    """No broker, or only some, got the order. The next controller sends it to all, including brokers that remove
    replicas."""
    controller = admin.describe_cluster().controller
    assert controller is not None
    one, two, three = (number for number in cluster.brokers if number != controller.id)
    create(admin, moment, (one, two), (one, two))
    produce(cluster, moment, range(200), 2)
    pid, late, dead = cluster.brokers[controller.id].pid, cluster.brokers[three].pid, threading.Event()

    def written(state: ClusterState) -> bool:
        rows = [row.replicas for (topic, _), row in state.partitions().items() if topic == moment]
        return all(three in replicas and (one in replicas) == (moment == "begun") for replicas in rows)

    def kill_when_written() -> None:
        with state_of(cluster) as state:
            while not dead.is_set():
                with suppress(StateUnknownError):
                    if written(state):
                        os.kill(pid, signal.SIGKILL)
                        dead.set()
                        os.kill(late, signal.SIGCONT)

    if moment == "begun":
        # Copying starts only after the test has seen this state, however late that is.
        pause(late)
    try:
        threading.Thread(target=kill_when_written, daemon=True).start()
        admin.alter_partition_reassignments({TopicPartition(moment, index): [three, two] for index in range(2)})
        until(dead.is_set)
    finally:
        os.kill(late, signal.SIGCONT)
    cluster.brokers[controller.id].kill()
    produce(cluster, moment, range(200, 400), 2)
    until(lambda: in_sync(admin, moment) == [{two, three}] * 2)
    until(lambda: on_disk(cluster, moment) == {one: set(), two: {0, 1}, three: {0, 1}, controller.id: set()})
    assert read(cluster, moment, 2, 400) == list(range(400))
    cluster.brokers[controller.id].start()
    until(lambda: len(admin.describe_cluster().nodes) == 4)


@pytest.mark.slow
def test_kafkas_tool_lists_and_takes_back(cluster: BrokerCluster, admin: blocking.AdminClient) -> None:
    create(admin, "back", (1, 2))
    with blocking.Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"}) as producer:
        for _ in range(2_000):
            producer.enqueue("back", os.urandom(1000).hex().encode(), partition=0)
    tool = planned(cluster, "back", [[3, 2]])
    run_tool("kafka-reassign-partitions", [*tool, "--execute", "--throttle", "1000"])
    listed = run_tool("kafka-reassign-partitions", ["--bootstrap-server", cluster.bootstrap, "--list"])
    assert "back-0: replicas: 3,2,1. adding: 3. removing: 1." in listed
    run_tool("kafka-reassign-partitions", [*tool, "--cancel"])
    until(lambda: assigned(admin, "back") == [[2, 1]])
    assert not under_way(admin, "back")
    until(lambda: on_disk(cluster, "back") == {1: {0}, 2: {0}, 3: set(), 4: set()})
    assert in_sync(admin, "back") == [{1, 2}]


def test_what_is_copied_is_throttled_and_what_is_in_sync_is_not(
    cluster: BrokerCluster, admin: blocking.AdminClient
) -> None:
    """Without a throttle, two brokers would copy 4 MB each at once; at 50 kB a second this takes more than a minute."""
    create(admin, "slow", (1, 2))
    payload = os.urandom(1000).hex().encode()
    with blocking.Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"}) as producer:
        for _ in range(2_000):
            producer.enqueue("slow", payload, partition=0)
    tool = planned(cluster, "slow", [[3, 4]])
    begun = time.monotonic()
    run_tool("kafka-reassign-partitions", [*tool, "--execute", "--throttle", "50000"])
    with blocking.Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"}) as producer:
        for _ in range(500):
            producer.enqueue("slow", payload, partition=0)
    assert under_way(admin, "slow") == {0: PartitionReassignment((3, 4, 1, 2), (3, 4), (1, 2))}
    copied = sum(file.stat().st_size for file in cluster.brokers[3].data_dir.glob("slow-0/*.log"))
    # A second's worth is sent at once, and one response can exceed it.
    assert copied < 2_500_000 + 50_000 * (time.monotonic() - begun)
    topic = ConfigResource(ConfigResourceType.TOPIC, "slow")
    throttled = admin.describe_configs([topic]).all()[topic]
    assert throttled["leader.replication.throttled.replicas"].value == "0:1,0:2"
    assert throttled["follower.replication.throttled.replicas"].value == "0:3,0:4"
    brokers = [ConfigResource(ConfigResourceType.BROKER, str(number)) for number in cluster.brokers]
    rates = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
    admin.incremental_alter_configs({one: [AlterConfigOp(rate, "100000000") for rate in rates] for one in brokers})
    until(lambda: not under_way(admin, "slow"))
    run_tool("kafka-reassign-partitions", [*tool, "--verify"])
    # This broker may apply the change later than the one to which the tool has sent its request.
    until(lambda: admin.describe_configs([topic]).all()[topic]["leader.replication.throttled.replicas"].value == "")

    def unthrottled() -> bool:
        found = admin.describe_configs(brokers).all().values()
        return {values[rate].value for values in found for rate in rates} == {"9223372036854775807"}

    until(unthrottled)
