"""A settings file for a cluster of one node: the start logs the changed settings, and all client requests work."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.configs.test_live import BROKER, SET, alter, describe
from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess

OF_A_CLUSTER = {
    "auto.create.topics.enable": "true",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
LIMIT_S = 120.0


def produced(broker: BrokerProcess, topic: str, **settings: Any) -> list[str | None]:
    """Return the error names of three records, None for acknowledged ones."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", **settings})
    errors: list[str | None] = []
    for value in (b"1", b"2", b"3"):
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error.name() if error else None))
        assert producer.flush(LIMIT_S) == 0
    return errors


def told(broker: BrokerProcess, pattern: str) -> list[str]:
    """Like `lines`, but wait for the first one."""
    give_up = time.monotonic() + LIMIT_S
    while not (found := lines(broker, pattern)) and time.monotonic() < give_up:
        time.sleep(0.02)
    return found


def lines(broker: BrokerProcess, pattern: str) -> list[str]:
    return [line for line in broker.console.read_text().splitlines() if re.search(pattern, line)]


def test_topics_are_made_and_written_and_groups_commit(start_broker: StartBroker) -> None:
    broker = start_broker(OF_A_CLUSTER)
    assert produced(broker, "made-by-itself") == [None, None, None]
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    consumer.commit(offsets=[TopicPartition("made-by-itself", 0, 2)], asynchronous=False)
    assert [p.offset for p in consumer.committed([TopicPartition("made-by-itself", 0)], LIMIT_S)] == [2]
    consumer.close()
    (warning,) = lines(broker, r"WARN .*default\.replication\.factor=3")
    assert "min.insync.replicas=2" in warning
    assert "the effective value is 1" in warning
    entries = describe(AdminClient({"bootstrap.servers": broker.bootstrap}), BROKER, "1")
    names = ("default.replication.factor", "min.insync.replicas", "offsets.topic.replication.factor")
    assert [entries[name].value for name in names] == ["1", "1", "1"]


def test_a_topic_that_asks_for_more_replicas_is_named_once_a_minute(start_broker: StartBroker) -> None:
    broker = start_broker()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for name in ("strict", "strict-too"):
        create(admin, name, {"min.insync.replicas": "2"})
        for _ in range(2):
            assert produced(broker, name, retries=0) == ["NOT_ENOUGH_REPLICAS"] * 3
        (line,) = told(broker, f" {name}-0: ")
        assert re.search(r"WARN .*1 in-sync replicas, but min\.insync\.replicas is 2", line)


def create(admin: AdminClient, name: str, config: Mapping[str, str]) -> None:
    for future in admin.create_topics([NewTopic(name, 1, 1, config=dict(config))]).values():
        future.result(LIMIT_S)


def test_more_replicas_than_brokers_are_refused_while_it_runs(start_broker: StartBroker) -> None:
    broker = start_broker()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    assert alter(admin, BROKER, "1", ("min.insync.replicas", SET, "2")) == KafkaError.INVALID_CONFIG
    create(admin, "t", {})
    assert produced(broker, "t") == [None, None, None]
