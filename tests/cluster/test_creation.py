"""CreateTopics at any broker: once a broker reports that a topic exists, clients can use it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from pybroker.client import KafkaError, NewTopic, blocking
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.cluster.dies_told import DIED
from tests.support.cluster import ClusterBroker, running_cluster, until
from tests.support.replicas import controller, create, produce, produce_as_leader, read, same_logs, state, topic_id
from tests.topic_ids import kit
from tests.wire.client import WireClient


def test_a_topic_that_was_created_takes_records_at_its_leader_at_once(tmp_path: Path) -> None:
    """Brokers show a change after they have applied it, and accept records for the topics that they show. The response
    waits for both, whichever broker was asked."""
    with running_cluster(tmp_path, 2, module=("tests.cluster.shows_late",)) as cluster:
        for leader, asked in ((1, 2), (2, 1)):
            name, broker = f"led-by-{leader}", cluster.brokers[leader]
            assert create_at(cluster.brokers[asked], name, [leader, asked]) == ErrorCode.NONE
            assert produce(broker, name, "by name").error_code == ErrorCode.NONE
            with WireClient(broker.port) as client:
                by_id = kit.produce(client, topic_id(broker, name), kit.batch(b"by id"))
            assert by_id.error_code == ErrorCode.NONE



def test_a_topic_can_be_made_again_with_all_replicas_while_a_broker_is_down(tmp_path: Path) -> None:
    """It has three replicas, two of them in sync. The third one follows when its broker returns, which keeps no data of
    the earlier incarnation."""
    with running_cluster(tmp_path) as cluster:
        create(cluster, "again", [1, 2, 3])
        produce_as_leader(cluster.brokers[1], "again", "of the one before")
        same_logs(cluster, "again")
        cluster.brokers[3].kill()
        until(lambda: state(cluster, "again").isr == {1, 2})
        with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
            admin.delete_topics(["again"])
            wanted = NewTopic("again", 1, 3, config={"min.insync.replicas": "2"})
            made = admin.create_topics([wanted]).all()["again"].topic_id
            with pytest.raises(KafkaError, match="INVALID_REPLICATION_FACTOR"):
                admin.create_topics([NewTopic("too-many", 1, 4)])
            with pytest.raises(KafkaError, match="only brokers that are down"):
                admin.create_topics([NewTopic("nowhere", replica_assignments={0: [3]})])
        until(lambda: topic_id(cluster.brokers[1], "again") == made)
        before = state(cluster, "again")
        assert (set(before.replicas), before.isr) == ({1, 2, 3}, {1, 2})
        produce_as_leader(cluster.brokers[before.leader], "again", "new")
        cluster.brokers[3].start()
        same_logs(cluster, "again")
        until(lambda: topic_id(cluster.brokers[3], "again") == made)
        assert read(cluster, "again") == ["new"]



def test_the_only_broker_dies_before_it_has_made_the_log(tmp_path: Path) -> None:
    """The other brokers were down and do not know that nothing was written. The broker creates the log when it is back,
    although an empty log could be a lost one."""
    dies = tmp_path / "dies"
    with running_cluster(tmp_path, 2, module=("tests.cluster.dies_told", str(dies))) as cluster:
        create(cluster, "before", [1, 2])
        cluster.brokers[2].kill()
        until(lambda: state(cluster, "before").isr == {1})
        until(lambda: controller(cluster) == 1)
        dies.touch()
        with suppress(OSError):
            create_at(cluster.brokers[1], "young", [1, 2])
        until(lambda: cluster.brokers[1].ended() == DIED)
        dies.unlink()
        cluster.brokers[2].launch()
        if not cluster.on_quorum:  # with a quorum, it waits for the only voter
            cluster.brokers[2].await_answers()
        cluster.brokers[1].start()
        cluster.brokers[2].await_answers()
        until(lambda: state(cluster, "young").isr == {1, 2} and state(cluster, "young").leader > 0)
        produce_as_leader(cluster.brokers[state(cluster, "young").leader], "young", "first")
        same_logs(cluster, "young")


def create_at(broker: ClusterBroker, name: str, replicas: list[int]) -> int:
    """Create a topic with one partition through this broker; return the error code."""
    assignment = m.CreateTopicsRequest_CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)
    topic = m.CreateTopicsRequest_CreatableTopic(
        name=name, num_partitions=-1, replication_factor=-1, assignments=[assignment]
    )
    with WireClient(broker.port) as client:
        answer = client.call(m.CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
    code: int = answer.topics[0].error_code
    return code
