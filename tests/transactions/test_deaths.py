"""The broker dies at each record that a transaction writes, and the restarted producer continues. Committed records
exist once, aborted ones do not, and no client waits for an ended transaction."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import KafkaException

from tests.groups.kit import WAIT_S, create_topic
from tests.support.dying_broker import DyingBroker
from tests.transactions.test_straight_path import await_read, committed, send_offsets, transactional, write

STEPS = [
    "EMPTY before",
    "EMPTY after",
    "ONGOING before",
    "ONGOING after",
    "OFFSETS before",
    "OFFSETS after",
    "PREPARE_COMMIT before",
    "PREPARE_COMMIT after",
    "PREPARE_ABORT before",
    "PREPARE_ABORT after",
    "MARKER before",
    "MARKER between",
    "COMPLETE_COMMIT before",
    "COMPLETE_COMMIT after",
    "COMPLETE_ABORT after",
]
GROUP = "group"

Target = tuple[str, int]
"""Topic and index of a partition."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DyingBroker]:
    broker = DyingBroker(
        "tests.transactions.dies_writing",
        tmp_path_factory.mktemp("deaths"),
        {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"},
    )
    broker.start()
    yield broker
    broker.kill()


def run(broker: DyingBroker, targets: list[Target], source: str, step: str, offset: int) -> bool:
    """Run a transaction; return whether it was committed."""
    producer = transactional(broker.bootstrap, "copy")
    producer.begin_transaction()
    try:
        for topic, partition in targets:
            write(producer, topic, step, partition=partition)
        send_offsets(producer, broker.bootstrap, GROUP, source, offset)
        if "ABORT" not in step:
            producer.commit_transaction(WAIT_S)
            return True
    except KafkaException as error:
        # A transaction that was open when the broker died may have to be aborted as a whole, never in part.
        if not error.args[0].txn_requires_abort():
            raise
    producer.abort_transaction(WAIT_S)
    return False


@pytest.mark.checklist("E7", "E9", "E11", "E12", "E13")
def test_the_broker_dies_at_each_record(broker: DyingBroker) -> None:
    first, second = create_topic(broker.bootstrap, 2), create_topic(broker.bootstrap, 1)
    source = create_topic(broker.bootstrap, 1)
    targets = [(first, 0), (first, 1), (second, 0)]
    expected: list[str] = []
    offset = -1001
    with ThreadPoolExecutor(1) as pool:
        for number, step in enumerate(STEPS):
            broker.where.write_text(step)
            commits = pool.submit(run, broker, targets, source, step, number)
            broker.comes_back()
            if commits.result(WAIT_S):
                expected.append(step)
                offset = number
            await_read(broker.bootstrap, first, expected)
            assert committed(broker.bootstrap, GROUP, source) == offset, step
    for topic, partition in targets:
        await_read(broker.bootstrap, topic, expected, partition)
    assert expected == [step for step in STEPS if "ABORT" not in step], "no commit was given up"
