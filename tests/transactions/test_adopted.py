"""Transactions that were open in Apache Kafka when its directory was adopted. Kafka has stored names of topics without
ids: they mean the topics that had the names then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.groups.kit import create_topic
from tests.support.brokers import BrokerProcess, KafkaProcess, PybrokerProcess
from tests.topic_ids.test_adopt import adopt
from tests.transactions.test_straight_path import await_read, read, transactional, write

TIMEOUT_MS = 10_000
"""The timeout that Kafka has stored for the transaction whose producer does not return."""
RETURNS, STAYS_AWAY, DONE = range(3)
"""The partitions that each producer has written to."""


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[tuple[BrokerProcess, BrokerProcess]]:
    """A running Apache Kafka, and pybroker, which the test starts with Kafka's directory after the adoption."""
    kafka = KafkaProcess(
        tmp_path / "kafka",
        {"transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1"},
    )
    pybroker = PybrokerProcess(tmp_path / "pybroker", {"log.dirs": str(kafka.data_dir)})
    kafka.start()
    try:
        yield kafka, pybroker
    finally:
        kafka.kill()
        pybroker.kill()


@pytest.mark.checklist("D35", "E10")
def test_what_was_open_ends_with_its_producer_or_in_time(brokers: tuple[BrokerProcess, BrokerProcess]) -> None:
    kafka, pybroker = brokers
    topic = create_topic(kafka.bootstrap, 3)
    returns = transactional(kafka.bootstrap, "returns")
    stays_away = transactional(kafka.bootstrap, "stays away", **{"transaction.timeout.ms": TIMEOUT_MS})
    for producer, partition in ((returns, DONE), (returns, RETURNS), (stays_away, STAYS_AWAY)):
        producer.begin_transaction()
        write(producer, topic, "open", partition=partition)
        if partition == DONE:
            producer.commit_transaction(60)
    assert read(kafka.bootstrap, topic, partition=RETURNS) == []
    kafka.stop()
    del returns, stays_away, producer
    adopted = adopt(kafka.data_dir)
    assert adopted.returncode == 0, adopted.stderr

    pybroker.start()
    assert read(pybroker.bootstrap, topic, partition=DONE) == ["open"]
    assert read(pybroker.bootstrap, topic, "read_uncommitted", RETURNS) == ["open"]
    again = transactional(pybroker.bootstrap, "returns")
    for partition in (RETURNS, STAYS_AWAY):
        again.begin_transaction()
        write(again, topic, "again", partition=partition)
        again.commit_transaction(60)
        await_read(pybroker.bootstrap, topic, ["again"], partition)
