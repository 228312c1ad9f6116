"""Every client family that has transactions runs three of them with records in two partitions; the second one is
aborted. If the family supports it, the transactions include offsets of a group."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.structs import TopicPartition as AioPartition
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaProducer
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as PythonPartition

from pybroker.client import blocking
from pybroker.protocol import messages as m
from tests.conftest import StartBroker
from tests.groups.kit import WAIT_S, create_topic
from tests.support.go import built
from tests.support.java import compiled, java_command
from tests.support.maven import CLIENTS, jars
from tests.support.node import KAFKAJS, NODE, installed
from tests.transactions.test_straight_path import await_read, committed, read
from tests.wire.client import WireClient

HERE = Path(__file__).parent
GIVE_UP_S = 200.0
"""A time limit that only failures reach; it is longer than the retries of any family."""


def java(bootstrap: str, topic: str) -> None:
    classes = compiled(HERE / "java" / "Transactions.java", jars(CLIENTS))
    command = java_command(classes, "Transactions", [bootstrap, topic])
    done = subprocess.run(command, capture_output=True, text=True, timeout=GIVE_UP_S, check=False)
    assert done.stdout.strip() == "done", done.stdout + done.stderr[-3000:]


def librdkafka(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t"})
    member = Consumer({"bootstrap.servers": bootstrap, "group.id": "group"})
    producer.init_transactions(WAIT_S)
    for round_ in range(3):
        producer.begin_transaction()
        producer.produce(topic, f"{round_}a", partition=0)
        producer.produce(topic, f"{round_}b", partition=1)
        assert producer.flush(WAIT_S) == 0
        offsets = [TopicPartition(topic, 0, 10 + round_)]
        producer.send_offsets_to_transaction(offsets, member.consumer_group_metadata(), WAIT_S)
        (producer.abort_transaction if round_ == 1 else producer.commit_transaction)(WAIT_S)
    member.close()


def kafka_python(bootstrap: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id="t")
    try:
        producer.init_transactions()
        for round_ in range(3):
            producer.begin_transaction()
            producer.send(topic, f"{round_}a".encode(), partition=0)
            producer.send(topic, f"{round_}b".encode(), partition=1)
            producer.flush(WAIT_S)
            producer.send_offsets_to_transaction(
                {PythonPartition(topic, 0): OffsetAndMetadata(10 + round_, "", -1)}, "group"
            )
            (producer.abort_transaction if round_ == 1 else producer.commit_transaction)()
    finally:
        producer.close(timeout=WAIT_S)


def aiokafka(bootstrap: str, topic: str) -> None:
    async def run() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="t")
        await producer.start()
        try:
            for round_ in range(3):
                await producer.begin_transaction()
                await producer.send_and_wait(topic, f"{round_}a".encode(), partition=0)
                await producer.send_and_wait(topic, f"{round_}b".encode(), partition=1)
                await producer.send_offsets_to_transaction({AioPartition(topic, 0): 10 + round_}, "group")
                await (producer.abort_transaction if round_ == 1 else producer.commit_transaction)()
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(run(), GIVE_UP_S))


def go(family: str) -> Callable[[str, str], None]:
    def run(bootstrap: str, topic: str) -> None:
        command = [str(built(HERE / "go")), family, bootstrap, topic]
        done = subprocess.run(command, capture_output=True, text=True, timeout=GIVE_UP_S, check=False)
        assert done.stdout.strip() == "done", done.stdout + done.stderr[-3000:]

    return run


def kafkajs(bootstrap: str, topic: str) -> None:
    command = [str(NODE), str(installed(HERE / "kafkajs" / "transactions.js", KAFKAJS)), bootstrap, topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=GIVE_UP_S, check=False)
    assert done.stdout.strip() == "done", done.stdout + done.stderr[-3000:]


FAMILIES: dict[str, tuple[Callable[[str, str], None], int, int]] = {
    "java": (java, 12, 4),
    "librdkafka": (librdkafka, 12, 0),
    "kafka-python": (kafka_python, 12, 0),
    "aiokafka": (aiokafka, 12, 0),
    "franz-go": (go("franz"), -1001, 3),
    "sarama": (go("sarama"), 12, 0),
    "kafkajs": (kafkajs, 12, 0),
}
"""Family → the function that runs its three transactions, the offset that its group has committed afterwards, and its
producer's last epoch. With version 2 each transaction has its own epoch; Java's second producer adds one more."""


def producer_epoch(bootstrap: str) -> int:
    with blocking.AdminClient({"bootstrap.servers": bootstrap}) as admin:
        return admin.describe_transactions(["t"]).all()["t"].producer_epoch


@pytest.mark.checklist("E10", "E11")
@pytest.mark.parametrize("family", FAMILIES)
def test_what_a_family_commits_is_seen(start_broker: StartBroker, family: str) -> None:
    broker = start_broker()
    topic = create_topic(broker.bootstrap, 2)
    run, offset, epoch = FAMILIES[family]
    run(broker.bootstrap, topic)
    await_read(broker.bootstrap, topic, ["0a", "2a"])
    await_read(broker.bootstrap, topic, ["0b", "2b"], partition=1)
    assert read(broker.bootstrap, topic, "read_uncommitted") == ["0a", "1a", "2a"]
    assert committed(broker.bootstrap, "group", topic) == offset
    assert producer_epoch(broker.bootstrap) == epoch


@pytest.mark.parametrize("family", ["java", "franz-go"])
def test_without_version_2_they_use_version_1(start_broker: StartBroker, family: str) -> None:
    broker = start_broker()
    update = m.UpdateFeaturesRequest(
        timeout_ms=60_000,
        feature_updates=[
            m.UpdateFeaturesRequest_FeatureUpdateKey(
                feature="transaction.version", max_version_level=0, upgrade_type=2
            )
        ],
    )
    with WireClient(broker.port) as client:
        assert client.call(update, 2).error_code == 0
    topic = create_topic(broker.bootstrap, 2)
    FAMILIES[family][0](broker.bootstrap, topic)
    await_read(broker.bootstrap, topic, ["0a", "2a"])
    assert producer_epoch(broker.bootstrap) == (1 if family == "java" else 0)
