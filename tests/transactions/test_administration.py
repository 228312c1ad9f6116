"""Transactions as administrators see and end them: `pybroker transactions`, Kafka's kafka-transactions and the admin
client, about the same transactions."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from pybroker.client import KafkaError, TopicPartition, blocking
from pybroker.protocol.error_codes import ErrorCode
from tests.groups.kit import WAIT_S, create_topic, delete_topic, unique, until
from tests.support.brokers import PybrokerProcess
from tests.support.kafka_tools import run_tool
from tests.transactions.test_straight_path import read, transactional, write

OPEN_MS = 600_000
"""How long a transaction stays open: longer than all commands of the test take."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PybrokerProcess]:
    broker = PybrokerProcess(tmp_path_factory.mktemp("administration"))
    broker.start()
    yield broker
    broker.kill()


def cli(broker: PybrokerProcess, *arguments: str, code: int = 0) -> str:
    command = [sys.executable, "-m", "pybroker", "transactions", *arguments, "--bootstrap-server", broker.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout if code == 0 else done.stderr


def told(broker: PybrokerProcess, *arguments: str) -> Any:
    return json.loads(cli(broker, *arguments, "--json"))


def tool(broker: PybrokerProcess, *arguments: str) -> list[dict[str, str]]:
    """Return the table that kafka-transactions prints."""
    shown = run_tool("kafka-transactions", ["--bootstrap-server", broker.bootstrap, *arguments])
    rows = [re.split(r"\s{2,}|\t", line.strip()) for line in shown.splitlines() if line.strip()]
    return [dict(zip(rows[0], row, strict=False)) for row in rows[1:]]


def opened(broker: PybrokerProcess, topic: str, *values: str) -> tuple[str, Producer]:
    """Return a transactional id, and its producer with an open transaction."""
    transactional_id = unique("id")
    producer = transactional(broker.bootstrap, transactional_id, **{"transaction.timeout.ms": OPEN_MS})
    producer.begin_transaction()
    write(producer, topic, *values)
    return transactional_id, producer


def test_what_is_open_is_shown(broker: PybrokerProcess) -> None:
    topic = create_topic(broker.bootstrap, 2)
    transactional_id, producer = opened(broker, topic, "a", "b")
    (shown,) = [one for one in told(broker, "list") if one["transactional_id"] == transactional_id]
    assert shown == {"transactional_id": transactional_id, "state": "Ongoing", "broker": 1} | {
        "producer_id": shown["producer_id"]
    }
    assert [one["transactional_id"] for one in told(broker, "list", "--state", "Ongoing")].count(transactional_id) == 1
    assert transactional_id not in cli(broker, "list", "--state", "Empty")
    assert transactional_id not in cli(broker, "list", "--open-for", "3600000")
    described = told(broker, "describe", transactional_id)
    assert described["partitions"] == [{"topic": topic, "partition": 0}]
    assert (described["state"], described["timeout_ms"]) == ("Ongoing", OPEN_MS)
    assert f"{topic}-0" in cli(broker, "describe", transactional_id)
    (known,) = told(broker, "describe-producers", topic, "--partition", "0")
    assert (known["producer_id"], known["last_sequence"], known["start_offset"]) == (shown["producer_id"], 1, 0)
    assert told(broker, "describe-producers", "--topic", topic) == [known]
    # Kafka's own tool prints the same.
    (row,) = [one for one in tool(broker, "list") if one["TransactionalId"] == transactional_id]
    assert (row["ProducerId"], row["TransactionState"]) == (str(shown["producer_id"]), "Ongoing")
    (row,) = tool(broker, "describe", "--transactional-id", transactional_id)
    assert (row["ProducerEpoch"], row["TransactionState"]) == (str(described["producer_epoch"]), "Ongoing")
    assert f"{topic}-0" in " ".join(row.values())
    (row,) = tool(broker, "describe-producers", "--topic", topic, "--partition", "0")
    assert (row["ProducerId"], row["LastSequence"]) == (str(shown["producer_id"]), "1")
    assert row["CurrentTransactionStartOffset"] == "0"
    producer.commit_transaction(WAIT_S)
    until(lambda: told(broker, "describe", transactional_id)["state"] == "CompleteCommit", "it has ended")
    assert told(broker, "describe", transactional_id)["partitions"] == []
    assert "TRANSACTIONAL_ID_NOT_FOUND" in cli(broker, "describe", "nobody", code=1)


def test_an_id_is_terminated(broker: PybrokerProcess) -> None:
    topic = create_topic(broker.bootstrap, 1)
    transactional_id, producer = opened(broker, topic, "lost")
    assert told(broker, "abort", transactional_id) == {"transactional_id": transactional_id, "aborted": True}
    assert read(broker.bootstrap, topic) == []
    with pytest.raises(KafkaException) as caught:
        producer.commit_transaction(WAIT_S)
    assert caught.value.args[0].fatal(), "its producer is fenced"
    assert "TRANSACTIONAL_ID_NOT_FOUND" in cli(broker, "abort", "nobody", code=1)
    assert not [one for one in told(broker, "list") if one["transactional_id"] == "nobody"]
    assert "Use either an ID" in cli(broker, "abort", "--topic", topic, code=2)


def test_what_hangs_is_found_and_aborted(broker: PybrokerProcess) -> None:
    """The coordinator forgets three open transactions; the test ends each of them in another way."""
    topics = [create_topic(broker.bootstrap, 1) for _ in range(3)]
    held = create_topic(broker.bootstrap, 1)
    _producers = [opened(broker, topic, "hangs") for topic in topics]
    assert told(broker, "find-hanging", "--idle", "0") == [], "their coordinator knows them"
    delete_topic(broker.bootstrap, "__transaction_state")
    _, holder = opened(broker, held, "held")
    for topic in topics:
        (row,) = told(broker, "find-hanging", "--topic", topic, "--idle", "0")
        assert (row["topic"], row["partition"], row["start_offset"]) == (topic, 0, 0)
        (row,) = tool(broker, "find-hanging", "--topic", topic, "--max-transaction-timeout", "0")
        assert row["Topic"] == topic
    assert [one["topic"] for one in told(broker, "find-hanging", "--idle", "0")] == sorted(topics)
    assert told(broker, "find-hanging") == [], "nothing has been idle for so long"
    for topic in topics:
        write(Producer({"bootstrap.servers": broker.bootstrap}), topic, "behind")
        assert read(broker.bootstrap, topic) == [], "it holds up everybody"
    where = ("--topic", topics[0], "--partition", "0")
    assert "began at offset 5" in cli(broker, "abort", *where, "--start-offset", "5", code=1)
    cli(broker, "abort", *where, "--start-offset", "0")
    where = ("--topic", topics[1], "--partition", "0")
    run_tool(
        "kafka-transactions", ["--bootstrap-server", broker.bootstrap, "abort", *where, "--start-offset", "0"]
    )
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        (hanging,) = admin.find_hanging_transactions([TopicPartition(topics[2], 0)], idle_ms=0)
        admin.abort_transaction(hanging)
        with pytest.raises(KafkaError) as caught:
            admin.describe_producers([TopicPartition("absent", 0)])
        assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for topic in topics:
        assert read(broker.bootstrap, topic) == ["behind"]
    assert told(broker, "find-hanging", "--idle", "0") == []
    holder.commit_transaction(WAIT_S)
    until(lambda: read(broker.bootstrap, held) == ["held"], "who is not hanging is not touched")
