"""A client whose records only the leader has acknowledged (acks=1) sees them at once, although consumers get them only
after they are flushed."""

from __future__ import annotations

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.support.brokers import BrokerProcess

ROUNDS = 50


def _topic(broker: BrokerProcess, topic: str) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    return admin


def _writer(broker: BrokerProcess) -> ck.Producer:
    return ck.Producer({"bootstrap.servers": broker.bootstrap, "acks": 1, "linger.ms": 0})


def _write(producer: ck.Producer, topic: str) -> None:
    problems: list[ck.KafkaError] = []
    producer.produce(
        topic, b"v", partition=0, on_delivery=lambda problem, _: problems.append(problem) if problem else None
    )
    assert producer.flush(60) == 0
    assert problems == []


def test_the_end_counts_what_was_acknowledged(broker: BrokerProcess, topic: str) -> None:
    """ListOffsets includes them at once, by offset and by time; a fetch at the new end is no error."""
    _topic(broker, topic)
    producer = _writer(broker)
    consumer = ck.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": f"{topic}-group"})
    for number in range(1, ROUNDS + 1):
        _write(producer, topic)
        assert consumer.get_watermark_offsets(ck.TopicPartition(topic, 0), timeout=60) == (0, number)
    consumer.assign([ck.TopicPartition(topic, 0, ROUNDS)])
    for number in range(ROUNDS):
        _write(producer, topic)
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None
        assert message.offset() == ROUNDS + number
    consumer.close()


def test_what_was_acknowledged_can_be_deleted(broker: BrokerProcess, topic: str) -> None:
    """DeleteRecords up to the acknowledged offset is not out of range."""
    admin = _topic(broker, topic)
    producer = _writer(broker)
    for number in range(1, ROUNDS + 1):
        _write(producer, topic)
        for done in admin.delete_records([ck.TopicPartition(topic, 0, number)]).values():
            assert done.result(60).low_watermark == number
