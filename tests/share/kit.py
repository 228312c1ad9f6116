"""Members of share groups: Kafka's own consumer."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition

from pybroker.protocol import messages as m
from tests.support.java import compiled, java_command
from tests.support.maven import CLIENTS, jars
from tests.wire.client import WireClient

SOURCE = Path(__file__).parent / "java" / "ShareReader.java"
WAIT_S = 120
GROUP_RESOURCE = 32


class Seen(NamedTuple):
    """A record as a member received it."""

    what: str
    partition: int
    offset: int
    deliveries: int
    value: str


def reader(
    bootstrap: str, group: str, topic: str, count: int, *, how: str = "accept", ms: int = 60_000, **config: str
) -> subprocess.Popen[str]:
    """Start a member in its own process. `how`: see ShareReader.java."""
    libraries = jars(CLIENTS)
    settings = [f"{name.replace('_', '.')}={value}" for name, value in config.items()]
    command = java_command(
        compiled(SOURCE, libraries),
        "ShareReader",
        [bootstrap, group, topic, str(count), str(ms), how, *settings],
    )
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def seen(process: subprocess.Popen[str]) -> list[Seen]:
    """All events of a member, once it has ended."""
    output, _ = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0, output
    lines = [line.split(" ", 4) for line in output.splitlines()]
    assert all(line[0] in ("ACCEPT", "RELEASE", "REJECT", "RENEW") for line in lines), output
    return [Seen(line[0], int(line[1]), int(line[2]), int(line[3]), line[4]) for line in lines]


def accepted(records: list[Seen]) -> Counter[str]:
    """The number of times that each value was accepted."""
    return Counter(record.value for record in records if record.what == "ACCEPT")


class DeadLetter(NamedTuple):
    """A record of a dead letter queue. `told`: the record's headers."""

    partition: int
    key: bytes | None
    value: bytes | None
    told: dict[str, str]

    @property
    def of(self) -> tuple[str, int, int]:
        """Return (topic, partition, offset) of the record that failed."""
        there = {name: self.told[f"__dlq.errors.{name}"] for name in ("topic", "partition", "offset")}
        return there["topic"], int(there["partition"]), int(there["offset"])


def dead_letters(bootstrap: str, queue: str, enough: Callable[[list[DeadLetter]], bool]) -> list[DeadLetter]:
    """Return the records of a queue once it has enough. Raise AssertionError if it never has."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "dead letters", "enable.auto.commit": False})
    letters: list[DeadLetter] = []
    end = time.monotonic() + WAIT_S
    try:
        while not (partitions := consumer.list_topics(queue, WAIT_S).topics[queue].partitions):
            assert time.monotonic() < end, f"there is no {queue}"
        consumer.assign([TopicPartition(queue, partition, 0) for partition in partitions])
        while not enough(letters):
            assert time.monotonic() < end, letters
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                told = {name: value.decode() for name, value in message.headers() or ()}
                partition = message.partition()
                assert partition is not None
                letters.append(DeadLetter(partition, message.key(), message.value(), told))
    finally:
        consumer.close()
    return letters


def set_group(port: int, group: str, settings: Mapping[str, str]) -> None:
    """Set settings of a group."""
    resource = m.IncrementalAlterConfigsRequest_AlterConfigsResource(
        resource_type=GROUP_RESOURCE,
        resource_name=group,
        configs=[
            m.IncrementalAlterConfigsRequest_AlterableConfig(name=name, config_operation=0, value=value)
            for name, value in settings.items()
        ],
    )
    with WireClient(port) as client:
        answer = client.call(m.IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert [one.error_code for one in answer.responses] == [0], answer
