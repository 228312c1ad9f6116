"""Produces and reads, and records every outcome: acknowledged offsets, and the reasons of refusals."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.support.brokers import BrokerProcess
from tests.support.delivered import offset_and_value

PATIENCE_S = 120.0
ANSWER_MS = 60_000


@dataclass
class Sent:
    """Outcomes of the records sent to one partition."""

    acknowledged: dict[int, bytes] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)


def create(broker: BrokerProcess, topic: str, partitions: int = 1, segment_bytes: int = 1 << 30) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    wanted = NewTopic(topic, partitions, 1, config={"segment.bytes": str(segment_bytes)})
    admin.create_topics([wanted], request_timeout=60)[topic].result(PATIENCE_S)


def send(broker: BrokerProcess, topic: str, partition: int, values: list[bytes], **settings: Any) -> Sent:
    """Send one record per request, with acks=all and without retries: the test sees each response of the broker."""
    sent = Sent()
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "acks": "all",
            "enable.idempotence": False,
            "retries": 0,
            "batch.num.messages": 1,
            "max.in.flight.requests.per.connection": 1,
            "message.timeout.ms": ANSWER_MS,
            "log_level": 0,
            **settings,
        }
    )

    def delivered(problem: KafkaError | None, message: Message) -> None:
        if problem is not None:
            sent.refused.append(problem.name())
        else:
            offset, value = offset_and_value(message)
            sent.acknowledged[offset] = value

    for value in values:
        producer.produce(topic, value, partition=partition, on_delivery=delivered)
        producer.poll(0)
    longer_ms = 2 * max(ANSWER_MS, settings.get("message.timeout.ms", 0))
    assert producer.flush(longer_ms / 1000) == 0, "neither acknowledged nor refused"
    return sent


def read(
    broker: BrokerProcess, topic: str, partition: int, start: int | None = None, stop: int | None = None
) -> dict[int, bytes]:
    """Return the partition's records from offset `start` to below `stop`, without gaps at both ends. None: the
    partition's end."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "log_level": 0,
        }
    )
    found: dict[int, bytes] = {}
    try:
        if start is None:
            start, _ = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=PATIENCE_S)
        consumer.assign([TopicPartition(topic, partition, start)])
        give_up = time.monotonic() + PATIENCE_S
        while time.monotonic() < give_up:
            message = consumer.poll(1.0)
            if message is None:
                continue
            problem = message.error()
            if problem is None:
                offset, value = offset_and_value(message)
                if stop is not None and offset >= stop:
                    return found
                found[offset] = value
                if stop is not None and offset == stop - 1:
                    return found
            elif problem.code() == KafkaError._PARTITION_EOF:
                return found
            elif not problem.retriable():
                raise AssertionError(f"{topic}-{partition}: {problem}")
        raise AssertionError(f"the end of {topic}-{partition} was not reached; {len(found)} records came")
    finally:
        consumer.close()


def missing(sent: dict[int, bytes], found: dict[int, bytes]) -> list[int]:
    """Return the offsets of acknowledged records that are missing or differ."""
    return [offset for offset, value in sent.items() if found.get(offset) != value]


def complaints(broker: BrokerProcess) -> list[str]:
    """Return the log lines with the reason why the process ended."""
    lines = broker.console.read_text(errors="replace").splitlines()
    assert not any(line.startswith("Traceback") for line in lines), broker.log_tail()
    return [line for line in lines if line.startswith("pybroker: ")]
