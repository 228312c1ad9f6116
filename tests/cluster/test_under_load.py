"""Producers and groups run while brokers are killed one after another. Each record exists once, and the group
continues."""

from __future__ import annotations

import threading
import time
from collections import Counter

import pytest

from pybroker.client import NewTopic, TopicPartition, blocking
from tests.support.cluster import LIMIT_S, BrokerCluster, isr, until

PARTITIONS = 4


class Writer(threading.Thread):
    """Write numbers until stopped; the producer is idempotent."""

    def __init__(self, cluster: BrokerCluster, topic: str) -> None:
        super().__init__(daemon=True)
        self._servers = cluster.bootstrap
        self._topic = topic
        self.enough = threading.Event()
        self.written = 0
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            settings = {"bootstrap.servers": self._servers, "acks": "all", "delivery.timeout.ms": 120_000}
            with blocking.Producer(settings) as producer:
                while not self.enough.is_set():
                    producer.send(self._topic, str(self.written).encode(), partition=self.written % PARTITIONS)
                    self.written += 1
        except BaseException as problem:
            self.problem = problem


@pytest.mark.checklist("FD1")
def test_every_record_once_while_leaders_are_killed(cluster: BrokerCluster) -> None:
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        admin.create_topics([NewTopic("once", PARTITIONS, 3, config={"min.insync.replicas": "2"})])
    writer = Writer(cluster, "once")
    writer.start()
    for broker in cluster.brokers.values():
        before = writer.written
        until(lambda before=before: writer.written > before + 50 or writer.problem)
        broker.kill()
        killed = writer.written
        until(lambda killed=killed: writer.written > killed + 50 or writer.problem)
        broker.start()
        until(lambda: isr(cluster, "once") == [{1, 2, 3}] * PARTITIONS)
    writer.enough.set()
    writer.join(LIMIT_S)
    assert writer.problem is None
    found: Counter[int] = Counter()
    with blocking.Consumer({"bootstrap.servers": cluster.bootstrap, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition("once", index) for index in range(PARTITIONS)])
        give_up = time.monotonic() + LIMIT_S
        while len(found) < writer.written and time.monotonic() < give_up:
            found.update(int(record.value) for record in consumer.poll(1.0))
    assert found == Counter(range(writer.written))


def test_a_group_goes_on_when_its_coordinator_is_killed(cluster: BrokerCluster) -> None:
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        admin.create_topics([NewTopic("grouped", PARTITIONS, 3)])
    with blocking.Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"}) as producer:
        for number in range(200):
            producer.enqueue("grouped", str(number).encode(), partition=number % PARTITIONS)
        producer.flush()
        settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
        found: Counter[int] = Counter()
        with blocking.Consumer(settings) as consumer:
            consumer.subscribe(["grouped"])
            until(lambda: found.update(int(one.value) for one in consumer.poll(1.0)) or len(found) == 200)
            consumer.commit()
            with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
                coordinator = admin.describe_groups(["g"]).all()["g"].coordinator
            cluster.brokers[coordinator].kill()
            for number in range(200, 400):
                producer.enqueue("grouped", str(number).encode(), partition=number % PARTITIONS)
            producer.flush()
            until(lambda: found.update(int(one.value) for one in consumer.poll(1.0)) or len(found) == 400)
            consumer.commit()
    # The group did not read records again that it had committed before the kill.
    assert found == Counter(range(400))
