"""kill -9 during acks=all production: no acknowledged record is missing, duplicated or reordered."""

from __future__ import annotations

import random
import time

import pytest

from tests.clients.acknowledged import Writer, violations
from tests.clients.api import Received
from tests.clients.confluent import Confluent
from tests.clients.expectations import by_partition
from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess

PARTITIONS = 3
ACKNOWLEDGED_PER_CYCLE = 2000
PATIENCE_S = 120.0


def _wait_for_progress(broker: BrokerProcess, writers: list[Writer], more: int) -> None:
    """Wait until every writer has `more` further acknowledgements: a cycle without any would prove nothing."""
    goals = [writer.count + more for writer in writers]
    give_up = time.monotonic() + PATIENCE_S
    while any(writer.count < goal for writer, goal in zip(writers, goals, strict=True)):
        assert time.monotonic() < give_up, f"writers do not get on: {[w.count for w in writers]}\n{broker.log_tail()}"
        time.sleep(0.01)


def _cycles(broker: BrokerProcess, count: int, seed: int) -> None:
    reader = Confluent(broker.bootstrap)
    topics = ["kill-plain", "kill-lz4"]
    for topic in topics:
        reader.create_topic(topic, PARTITIONS)
    writers = [
        Writer(broker.bootstrap, topic, PARTITIONS, f"w{index}", compression)
        for index, (topic, compression) in enumerate(zip(topics, ("none", "lz4"), strict=True))
    ]
    chance = random.Random(seed)
    for _ in range(count):
        _wait_for_progress(broker, writers, chance.randrange(100, ACKNOWLEDGED_PER_CYCLE))
        time.sleep(chance.random() * 0.05)  # do not always kill just after an acknowledgement
        broker.restart(crash=True)
    _wait_for_progress(broker, writers, 100)
    for history in [writer.finish() for writer in writers]:
        assert len(history.acknowledged) >= 100 * count
        found = _read_everything(reader, history.topic)
        wrong = violations(found, [history])
        assert not wrong, f"seed {seed}: {len(wrong)} violations, first {wrong[:10]}"
    broker.stop()


def _read_everything(reader: Confluent, topic: str) -> list[Received]:
    """Read each partition to its end, in the order of its offsets."""
    ends = reader.end_offsets(topic, PARTITIONS)
    found = reader.read(topic, PARTITIONS, sum(ends.values()))
    parts = by_partition(found)
    assert {partition: len(rows) for partition, rows in parts.items()} == ends
    return [row for partition in sorted(parts) for row in parts[partition]]


def test_five_kills_lose_nothing(start_broker: StartBroker) -> None:
    """There are five cycles in the normal suite."""
    _cycles(start_broker(), 5, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 7))
def test_sixty_kills_lose_nothing(start_broker: StartBroker, seed: int) -> None:
    """There are five runs of twelve cycles. Every other run has small segments, so that kills also meet rolls."""
    settings = {"log.segment.bytes": "1048576"} if seed % 2 else {}
    _cycles(start_broker(settings), 12, seed)
