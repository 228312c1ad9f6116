"""Records are on every replica that is in sync, and no acknowledged record is lost with one of the replicas."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.client import NewTopic, TopicPartition, blocking
from pybroker.testing.cluster import Store
from tests.cluster.conftest import survives_two_losses
from tests.support.cluster import LIMIT_S, BrokerCluster, isr, running_cluster, until


def produce(cluster: BrokerCluster, topic: str, first: int, count: int, partitions: int) -> None:
    with blocking.Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"}) as producer:
        for number in range(first, first + count):
            producer.enqueue(topic, str(number).encode(), partition=number % partitions)
        producer.flush()


def read(cluster: BrokerCluster, topic: str, count: int) -> list[int]:
    found: list[int] = []
    settings = {"bootstrap.servers": cluster.bootstrap, "auto.offset.reset": "earliest"}
    with blocking.Consumer(settings) as consumer:
        consumer.assign([TopicPartition(topic, partition) for partition in range(3)])
        give_up = time.monotonic() + LIMIT_S
        while len(found) < count and time.monotonic() < give_up:
            found += [int(record.value) for record in consumer.poll(1.0)]
    return found


@pytest.fixture
def cluster(store: Store, tmp_path: Path) -> Iterator[BrokerCluster]:
    with running_cluster(tmp_path, survives_two_losses(store)) as running:
        yield running


@pytest.mark.checklist("R28")
def test_a_killed_broker_takes_nothing_with_it(cluster: BrokerCluster) -> None:
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        replicas = {index: [1, 2, 3] for index in range(3)}
        admin.create_topics(
            [NewTopic("copied", replica_assignments=replicas, config={"min.insync.replicas": "2"})]
        )
    produce(cluster, "copied", 0, 3_000, 3)
    until(lambda: isr(cluster, "copied") == [{1, 2, 3}] * 3)
    cluster.brokers[2].kill()
    produce(cluster, "copied", 3_000, 3_000, 3)
    assert sorted(read(cluster, "copied", 6_000)) == list(range(6_000))
    cluster.brokers[2].start()
    until(lambda: isr(cluster, "copied") == [{1, 2, 3}] * 3)
    cluster.brokers[1].stop()
    cluster.brokers[3].kill()
    until(lambda: isr(cluster, "copied") == [{2}] * 3)
    assert sorted(read(cluster, "copied", 6_000)) == list(range(6_000)), "one replica is all that is left"
