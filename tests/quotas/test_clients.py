"""Effects of quotas on clients: Kafka's own producer, with quotas set by Kafka's tool, and librdkafka."""

from __future__ import annotations

import re
import uuid

import confluent_kafka as confluent
import pytest

from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess
from tests.support.kafka_tools import run_tool
from tests.topic_ids.lives import Lives

RATE = 50_000
RECORDS, RECORD_BYTES = 150, 1_000
"""The records of three seconds at this rate."""


@pytest.fixture
def short(start_broker: StartBroker) -> BrokerProcess:
    """A broker that accepts one second's bytes at once, instead of ten seconds'."""
    return start_broker({"quota.window.num": "2", "quota.window.size.seconds": "1"})


def topic(broker: BrokerProcess) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    Lives(broker.port).create(name)
    return name


def limit(broker: BrokerProcess, client_id: str) -> None:
    """Set quotas with Kafka's tool, like an operator."""
    config = f"producer_byte_rate={RATE},consumer_byte_rate={RATE}"
    who = ["--entity-type", "clients", "--entity-name", client_id]
    run_tool("kafka-configs", ["--bootstrap-server", broker.bootstrap, "--alter", *who, "--add-config", config])


def figure(said: str, name: str) -> float:
    """Return a metric that `--print-metrics` printed."""
    found = re.search(rf"{re.escape(name)}:\{{[^}}]*\}}\s*:\s*(\S+)", said)
    assert found is not None, said
    return float(found[1])


def test_kafkas_own_producer(short: BrokerProcess) -> None:
    name = topic(short)
    limit(short, "perf")

    def produce(client_id: str) -> str:
        return run_tool(
            "kafka-producer-perf-test",
            [
                *("--topic", name, "--num-records", str(RECORDS), "--record-size", str(RECORD_BYTES)),
                *("--throughput", "-1", "--print-metrics", "--producer-props"),
                *(f"bootstrap.servers={short.bootstrap}", f"client.id={client_id}", "batch.size=16384"),
            ],
        )

    metric = "producer-metrics:produce-throttle-time-max"
    assert figure(produce("perf"), metric) > 0
    assert figure(produce("free"), metric) == 0


def throttled(broker: BrokerProcess, client_id: str, name: str) -> tuple[list[float], list[float]]:
    """Return the throttle times in seconds of a producer and a consumer, one for each response."""
    told: tuple[list[float], list[float]] = ([], [])
    common = {"bootstrap.servers": broker.bootstrap, "client.id": client_id}
    producer = confluent.Producer(
        {**common, "batch.size": 16_384, "throttle_cb": lambda event: told[0].append(event.throttle_time)}
    )
    for _ in range(RECORDS):
        producer.produce(name, bytes(RECORD_BYTES), partition=0)
    assert producer.flush(120) == 0
    producer.poll(0)
    consumer = confluent.Consumer(
        {
            **common,
            "group.id": client_id,
            "fetch.message.max.bytes": 16_384,
            "throttle_cb": lambda event: told[1].append(event.throttle_time),
        }
    )
    consumer.assign([confluent.TopicPartition(name, 0, 0)])
    read = 0
    while read < RECORDS:
        found = consumer.consume(RECORDS, 60)
        assert found, "nothing came for a minute"
        read += len(found)
    consumer.poll(0)
    consumer.close()
    return told


def test_librdkafka(short: BrokerProcess) -> None:
    """No record is lost, and the application learns the throttle time."""
    limit(short, "slow")
    produced, consumed = throttled(short, "slow", topic(short))
    assert max(produced, default=0) > 0
    assert max(consumed, default=0) > 0
    assert throttled(short, "fast", topic(short)) == ([], [])
