"""Elections: by request, by the controller, and never of a replica outside the ISR unless a setting allows it."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest

from pybroker.client import (
    AlterConfigOp,
    ConfigResource,
    ConfigResourceType,
    ElectionType,
    KafkaError,
    NewTopic,
    TopicPartition,
    blocking,
)
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from pybroker.testing.cluster import Store
from tests.cluster.conftest import survives_two_losses
from tests.support.cluster import LIMIT_S, BrokerCluster, isr, leaders, running_cluster, until
from tests.support.kafka_tools import run_tool

UNCLEAN = "unclean.leader.election.enable"
LATE = ConfigResource(ConfigResourceType.TOPIC, "late")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[BrokerCluster]:
    """A cluster in which leaders move only when a test makes them move."""
    settings = {"auto.leader.rebalance.enable": "false", "replica.lag.time.max.ms": "4000"}
    size = survives_two_losses(store)
    with running_cluster(tmp_path_factory.mktemp("elections"), size, settings, store=store) as running:
        yield running


def create(cluster: BrokerCluster, name: str, *replicas: tuple[int, ...], **config: str) -> None:
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        wanted = NewTopic(
            name, replica_assignments=dict(enumerate(replicas)), config={"min.insync.replicas": "1", **config}
        )
        admin.create_topics([wanted])


def elect(cluster: BrokerCluster, kind: ElectionType, *partitions: TopicPartition) -> list[int]:
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        found = admin.elect_leaders(kind, partitions or None)
        return [0 if found[one] is None else error_code(found[one]) for one in partitions or sorted(found)]


def error_code(error: KafkaError | None) -> int:
    assert error is not None
    return error.code


def produce(cluster: BrokerCluster, topic: str, values: range) -> None:
    with blocking.Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"}) as producer:
        for value in values:
            producer.enqueue(topic, str(value).encode(), partition=0)
        producer.flush()


def read(cluster: BrokerCluster, topic: str, count: int) -> list[int]:
    found: list[int] = []
    settings = {"bootstrap.servers": cluster.bootstrap, "auto.offset.reset": "earliest"}
    with blocking.Consumer(settings) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        give_up = time.monotonic() + LIMIT_S
        while len(found) < count and time.monotonic() < give_up:
            found += [int(record.value) for record in consumer.poll(0.5)]
    return found


def in_sync(cluster: BrokerCluster, topic: str, brokers: set[int]) -> None:
    until(lambda: set(map(frozenset, isr(cluster, topic))) == {frozenset(brokers)})


def said(cluster: BrokerCluster, *words: str) -> bool:
    """Return whether a broker's log has a line with all of these words."""
    lines = (line for broker in cluster.brokers.values() for line in broker.console.read_text().splitlines())
    return any(all(word in line for word in words) for line in lines)


@pytest.mark.checklist("FD19")
def test_preferred_leaders_are_elected_by_request(cluster: BrokerCluster) -> None:
    create(cluster, "asked", (1, 2, 3), (2, 3, 1))
    # A controlled shutdown that is interrupted by a kill may still move leaders.
    stopping = cluster.brokers[1]
    produce(cluster, "asked", range(100))
    assert stopping._child is not None
    stopping._child.send_signal(signal.SIGTERM)
    stopping.kill()
    until(lambda: leaders(cluster, "asked")[0] in (2, 3))
    where = TopicPartition("asked", 0)
    assert elect(cluster, ElectionType.PREFERRED, where) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
    stopping.start()
    in_sync(cluster, "asked", {1, 2, 3})
    assert read(cluster, "asked", 100) == list(range(100))
    assert leaders(cluster, "asked")[0] != 1, "nothing moves unasked"
    tool = run_tool(
        "kafka-leader-election",
        ["--bootstrap-server", cluster.bootstrap, "--election-type", "preferred", "--all-topic-partitions"],
    )
    assert "Successfully completed leader election (PREFERRED) for partitions asked-0" in tool
    until(lambda: leaders(cluster, "asked") == [1, 2])
    assert elect(cluster, ElectionType.PREFERRED, where, TopicPartition("asked", 7)) == [
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert elect(cluster, ElectionType.UNCLEAN, where) == [ErrorCode.ELECTION_NOT_NEEDED]
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        refused = admin.send(m.ElectLeadersRequest(election_type=7, topic_partitions=None))
        assert refused.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.checklist("FD13")
def test_an_unclean_election_has_to_be_allowed_and_is_told(cluster: BrokerCluster) -> None:
    """Records that only the lost replica had are gone. Consumers detect this by the leader epoch, operators in the
    log."""
    create(cluster, "strict", (1, 2))
    create(cluster, "willing", (1, 2), **{UNCLEAN: "true"})
    create(cluster, "late", (1, 2))
    for topic in ("strict", "willing", "late"):
        produce(cluster, topic, range(10))
    cluster.brokers[2].kill()
    for topic in ("strict", "willing", "late"):
        in_sync(cluster, topic, {1})
        produce(cluster, topic, range(10, 15))
    cluster.brokers[1].kill()
    until(lambda: leaders(cluster, "strict") == [None])
    cluster.brokers[2].start()
    until(lambda: leaders(cluster, "willing") == [2])
    until(lambda: said(cluster, "willing-0", "not in sync", "lost"))
    assert leaders(cluster, "strict") == [None]
    where = TopicPartition("strict", 0)
    assert elect(cluster, ElectionType.PREFERRED, where) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
    assert leaders(cluster, "late") == [None]
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        admin.incremental_alter_configs({LATE: [AlterConfigOp(UNCLEAN, "true")]})
    until(lambda: leaders(cluster, "late") == [2])
    named = ["--topic", "strict", "--partition", "0"]
    tool = run_tool(
        "kafka-leader-election", ["--bootstrap-server", cluster.bootstrap, "--election-type", "unclean", *named]
    )
    assert "Successfully completed leader election (UNCLEAN) for partitions strict-0" in tool
    until(lambda: leaders(cluster, "strict") == [2])
    until(lambda: said(cluster, "strict-0", "not in sync", "lost"))
    produce(cluster, "strict", range(100, 103))
    # Consumers that had read further notice that those records are gone.
    epoch = m.OffsetForLeaderEpochRequest_OffsetForLeaderPartition(partition=0, leader_epoch=1, current_leader_epoch=-1)
    asked = m.OffsetForLeaderEpochRequest(
        topics=[m.OffsetForLeaderEpochRequest_OffsetForLeaderTopic(topic="strict", partitions=[epoch])]
    )
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        (topic_end,) = admin.send(asked, node=2).topics
    assert topic_end.partitions[0].end_offset == 10
    cluster.brokers[1].start()
    for topic in ("strict", "willing", "late"):
        in_sync(cluster, topic, {1, 2})
    assert read(cluster, "strict", 13) == [*range(10), 100, 101, 102]
    assert elect(cluster, ElectionType.PREFERRED, where) == [0]
    assert read(cluster, "strict", 13) == [*range(10), 100, 101, 102], "the replicas are the same"


def test_preferred_leaders_come_back_by_themselves(cluster: BrokerCluster) -> None:
    """The controller checks periodically, because it may elect unclean leaders."""
    create(cluster, "back", (1, 2, 3), (2, 3, 1), (1, 3, 2))
    for number, looking in cluster.brokers.items():
        if number > 2:
            looking.settings |= {"auto.leader.rebalance.enable": "true", "leader.imbalance.check.interval.seconds": "1"}
            looking.restart()
    in_sync(cluster, "back", {1, 2, 3})
    for number in (1, 2):
        cluster.brokers[number].kill()
    until(lambda: leaders(cluster, "back") == [3, 3, 3])
    for number in (1, 2):
        cluster.brokers[number].start()
    until(lambda: leaders(cluster, "back") == [1, 2, 1])
