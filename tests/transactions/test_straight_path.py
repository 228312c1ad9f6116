"""A transactional producer of librdkafka: committed records are visible, aborted ones are not, and offsets are
committed with the records, before and after a restart by a clean stop or a kill."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.conftest import StartBroker
from tests.groups.kit import WAIT_S, create_topic, unique, until


def transactional(bootstrap: str, transactional_id: str, **settings: object) -> Producer:
    """Return a producer that has fenced the earlier producer with its id."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id, **settings})
    producer.init_transactions(WAIT_S)
    return producer


def write(producer: Producer, topic: str, *values: str, partition: int = 0) -> None:
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(WAIT_S) == 0


def read(bootstrap: str, topic: str, isolation: str = "read_committed", partition: int = 0) -> list[str]:
    """Return the records that a consumer reads from the beginning to the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": unique("reader"),
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    values: list[str] = []
    try:
        while True:
            message = consumer.poll(WAIT_S)
            assert message is not None
            error = message.error()
            if error is None:
                values.append((message.value() or b"").decode())
            elif error.code() == KafkaError._PARTITION_EOF:
                return values
            else:
                raise KafkaException(error)
    finally:
        consumer.close()


def await_read(bootstrap: str, topic: str, expected: list[str], partition: int = 0) -> None:
    """Wait until a consumer of committed records reads these: markers are written after the response to the end of the
    transaction."""
    until(lambda: read(bootstrap, topic, partition=partition) == expected, f"{topic}-{partition} has {expected}")


def committed(bootstrap: str, group: str, topic: str) -> int:
    """Return the offset of partition 0 at which a consumer of the group starts; it requires stable offsets."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        (found,) = consumer.committed([TopicPartition(topic, 0)], WAIT_S)
        return found.offset
    finally:
        consumer.close()


def send_offsets(producer: Producer, bootstrap: str, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        producer.send_offsets_to_transaction(
            [TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata(), WAIT_S
        )
    finally:
        consumer.close()


@pytest.mark.checklist("E10", "E11", "E12")
def test_what_is_committed_is_seen_and_nothing_else(start_broker: StartBroker) -> None:
    broker = start_broker()
    topic, source, group = create_topic(broker.bootstrap, 2), create_topic(broker.bootstrap, 1), unique("group")
    producer = transactional(broker.bootstrap, "copy")
    for round_, commits in enumerate((True, False, True)):
        producer.begin_transaction()
        write(producer, topic, f"{round_}a", f"{round_}b")
        write(producer, topic, f"{round_}c", partition=1)
        send_offsets(producer, broker.bootstrap, group, source, 10 + round_)
        if commits:
            producer.commit_transaction(WAIT_S)
        else:
            producer.abort_transaction(WAIT_S)
        if round_ == 1:
            assert committed(broker.bootstrap, group, source) == 10, "the offsets of an abort do not count"
    expected = ["0a", "0b", "2a", "2b"], ["0c", "2c"], 12

    def seen() -> tuple[list[str], list[str], int]:
        b = broker.bootstrap
        return read(b, topic), read(b, topic, partition=1), committed(b, group, source)

    until(lambda: seen() == expected, "the markers of the last transaction are written")
    assert len(read(broker.bootstrap, topic, "read_uncommitted")) == 6
    # The transaction is open while the broker is killed: the producer continues, and no consumer sees the records
    # before its commit.
    producer.begin_transaction()
    write(producer, topic, "3a")
    send_offsets(producer, broker.bootstrap, group, source, 13)
    broker.kill()
    broker.start()
    assert read(broker.bootstrap, topic) == expected[0]
    write(producer, topic, "3b")
    producer.commit_transaction(WAIT_S)
    expected = ["0a", "0b", "2a", "2b", "3a", "3b"], ["0c", "2c"], 13
    until(lambda: seen() == expected, "the markers are written")
    broker.stop()
    broker.start()
    assert seen() == expected


@pytest.mark.checklist("E8")
def test_a_newer_producer_of_the_id_shuts_the_older_out(start_broker: StartBroker) -> None:
    broker = start_broker()
    topic = create_topic(broker.bootstrap, 1)
    old = transactional(broker.bootstrap, "copy")
    old.begin_transaction()
    write(old, topic, "old")
    new = transactional(broker.bootstrap, "copy")
    new.begin_transaction()
    write(new, topic, "new")
    with pytest.raises(KafkaException) as caught:
        old.commit_transaction(WAIT_S)
    assert caught.value.args[0].fatal()
    assert caught.value.args[0].code() == KafkaError._FENCED
    new.commit_transaction(WAIT_S)
    await_read(broker.bootstrap, topic, ["new"])


@pytest.mark.checklist("E9", "E10")
def test_a_transaction_that_takes_too_long_is_aborted(start_broker: StartBroker) -> None:
    broker = start_broker({"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"})
    topic = create_topic(broker.bootstrap, 1)
    slow = transactional(broker.bootstrap, "slow", **{"transaction.timeout.ms": 5_000})
    slow.begin_transaction()
    write(slow, topic, "lost")
    other = transactional(broker.bootstrap, "other")
    other.begin_transaction()
    write(other, topic, "kept")
    other.commit_transaction(WAIT_S)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = consumer.poll(WAIT_S)
    consumer.close()
    assert message is not None
    assert message.value() == b"kept", "the abort let everybody go on"
    with pytest.raises(KafkaException) as caught:
        slow.commit_transaction(WAIT_S)
    assert caught.value.args[0].fatal()
