"""Records of internal topics, read with the code by which Kafka's coordinators load them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from tests.groups.kit import WAIT_S
from tests.support.java import compiled, java_command
from tests.support.maven import BROKER, jars

SOURCE = Path(__file__).with_name("StoredRecords.java")
TOPICS = {
    "__consumer_offsets": "group",
    "__share_group_state": "share",
    "__transaction_state": "transaction",
}
"""Internal topic → the coordinator that writes it."""
Raw = tuple[str, bytes, bytes | None]
"""Coordinator, key, value."""


def raw_records(bootstrap: str, topic: str) -> list[Raw]:
    """Return all records of an internal topic, in order within each partition."""
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": "reader",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 10,
        "isolation.level": "read_uncommitted",
    }
    consumer = Consumer(settings)
    partitions = consumer.list_topics(topic, WAIT_S).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
    found: list[Raw] = []
    ends = 0
    while ends < len(partitions):
        message = consumer.poll(WAIT_S)
        assert message is not None, f"{topic} is not read"
        if (error := message.error()) is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ends += 1
            continue
        key, value = message.key(), message.value()
        assert isinstance(key, bytes)
        assert value is None or isinstance(value, bytes)
        found.append((TOPICS[topic], key, value))
    consumer.close()
    return found


def as_kafka_reads(records: Iterable[Raw]) -> list[dict[str, Any]]:
    """Return each record as Kafka's coordinator reads it: see StoredRecords.java."""
    lines = [f"{kind} {key.hex()} {'-' if value is None else value.hex()}" for kind, key, value in records]
    done = subprocess.run(
        java_command(compiled(SOURCE, jars(BROKER)), "StoredRecords"),
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    read = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(read) == len(lines), done.stderr
    return read
