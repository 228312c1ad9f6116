"""Share groups over brokers: a broker that leads partitions, groups and their states is killed, and the others continue
with its state."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pybroker.client import ElectionType, NewTopic, TopicPartition, blocking
from tests.groups.kit import fill, unique
from tests.share.kit import accepted, dead_letters, reader, seen, set_group
from tests.support.cluster import BrokerCluster, isr, leaders, running_cluster, until

PARTITIONS, EACH = 3, 20
ALL = PARTITIONS * EACH
STATES = "__share_group_state"
SETTINGS = {
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "3",
    "min.insync.replicas": "2",
}
READ_MS = 100_000
LIMIT_S = 120.0


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    with running_cluster(tmp_path_factory.mktemp("share"), 3, SETTINGS) as cluster:
        yield cluster


def test_another_broker_goes_on_where_a_killed_one_was(cluster: BrokerCluster) -> None:
    """Each of the three brokers leads one partition of the topic, of the groups' topic, and of the share states'
    topic."""
    group, topic = unique("share"), unique("read")
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 3)])
    set_group(cluster.brokers[1].port, group, {"share.auto.offset.reset": "earliest"})
    fill(cluster.bootstrap, topic, PARTITIONS, EACH, "accepted")
    first = seen(reader(cluster.bootstrap, group, topic, ALL, ms=READ_MS))
    assert len(accepted(first)) == ALL
    fill(cluster.bootstrap, topic, PARTITIONS, EACH, "released")
    released = seen(reader(cluster.bootstrap, group, topic, ALL, how="release", ms=READ_MS))
    deliveries: dict[str, int] = {}
    for record in released:
        deliveries[record.value] = record.deliveries
    for name in (topic, STATES):
        until(lambda name=name: all(len(one) == 3 for one in isr(cluster, name)))
        assert set(leaders(cluster, name)) == {1, 2, 3}
    cluster.brokers[1].kill()
    fill(cluster.bootstrap, topic, PARTITIONS, EACH, "after")
    last = seen(reader(cluster.bootstrap, group, topic, 2 * ALL, ms=READ_MS))
    assert {record.value for record in last} == {
        f"{prefix}{partition}:{index}"
        for prefix in ("released", "after")
        for partition in range(PARTITIONS)
        for index in range(EACH)
    }
    # Each record is delivered once, and the next leader knows the delivery counts.
    assert {record.value: record.deliveries for record in last if record.value.startswith("released")} == {
        value: count + 1 for value, count in deliveries.items()
    }
    assert len(last) == 2 * ALL


class Working:
    """A member in its own thread that accepts every record until it is stopped."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self.accepted: list[str] = []
        """The acknowledged records."""
        self.doubtful: list[str] = []
        """Records whose acknowledgement may be lost: they may be delivered again."""
        self._config = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
            "value.deserializer": bytes.decode,
        }
        self._topic = topic
        self._over = threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self._work = self._pool.submit(self._run)

    def _run(self) -> None:
        with blocking.ShareConsumer(self._config) as consumer:
            consumer.subscribe(self._topic)
            while not self._over.is_set():
                records = consumer.poll(0.2)
                for record in records:
                    consumer.acknowledge(record)
                told = consumer.commit() if records else {}
                for record in records:
                    heard = told[TopicPartition(self._topic, record.partition)] is None
                    (self.accepted if heard else self.doubtful).append(record.value)

    def stop(self) -> None:
        """Raise the exception that ended the thread, if any."""
        self._over.set()
        self._work.result(LIMIT_S)
        self._pool.shutdown()


def test_members_that_read_go_on_while_everything_moves(cluster: BrokerCluster) -> None:
    """Each broker is killed once, together with the partitions that it leads of the topic, the groups and their states.
    At the end, leaders move back."""
    group, topic = unique("share"), unique("read")
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 3)])
    set_group(cluster.brokers[1].port, group, {"share.auto.offset.reset": "earliest"})
    both = [Working(cluster.bootstrap, group, topic) for _ in range(2)]
    wanted: set[str] = set()

    def written(prefix: str) -> None:
        fill(cluster.bootstrap, topic, PARTITIONS, EACH, prefix)
        wanted.update(f"{prefix}{partition}:{index}" for partition in range(PARTITIONS) for index in range(EACH))

    def all_are_done() -> bool:
        return wanted <= {value for one in both for value in (*one.accepted, *one.doubtful)}

    try:
        written("before ")
        until(all_are_done)
        for name in (topic, STATES, "__consumer_offsets"):
            assert set(leaders(cluster, name)) == {1, 2, 3}
        for number in (1, 2, 3):
            written(f"under way {number} ")
            cluster.brokers[number].kill()
            written(f"without {number} ")
            until(all_are_done)
            cluster.brokers[number].start()
            for name in (topic, STATES, "__consumer_offsets"):
                until(lambda name=name: all(one == {1, 2, 3} for one in isr(cluster, name)))
        written("moving ")
        with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
            admin.elect_leaders(ElectionType.PREFERRED)
        written("after ")
        until(all_are_done)
    finally:
        for one in both:
            one.stop()
    accepted = [value for one in both for value in one.accepted]
    assert len(accepted) == len(set(accepted)), "what was accepted does not come again"
    assert set(accepted) | {value for one in both for value in one.doubtful} == wanted
    assert all(one.accepted for one in both)


def test_dead_letters_go_to_whoever_leads_the_queue(cluster: BrokerCluster) -> None:
    """Another broker leads each partition of the queue than the partition of the failed records; one of these brokers
    is killed."""
    group, topic, queue = unique("share"), unique("read"), unique("dlq.queue")
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        admin.create_topics(
            [
                NewTopic(topic, replica_assignments={0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}),
                NewTopic(
                    queue,
                    replica_assignments={0: [2, 3, 1], 1: [3, 1, 2], 2: [1, 2, 3]},
                    config={"errors.deadletterqueue.group.enable": "true"},
                ),
            ]
        )
    own = {"share.auto.offset.reset": "earliest", "errors.deadletterqueue.topic.name": queue}
    set_group(cluster.brokers[1].port, group, own)
    expected = set[tuple[str, int, int]]()
    for before in (0, EACH):
        fill(cluster.bootstrap, topic, PARTITIONS, EACH)
        odd = [at for at in range(before, before + EACH) if at % 2]
        expected.update((topic, partition, at) for partition in range(PARTITIONS) for at in odd)
        seen(reader(cluster.bootstrap, group, topic, ALL - PARTITIONS * len(odd), how="reject-odd", ms=READ_MS))
        found = dead_letters(cluster.bootstrap, queue, lambda letters: expected <= {one.of for one in letters})
        assert all(one.partition == one.of[1] for one in found)
        if before == 0:
            cluster.brokers[1].kill()
