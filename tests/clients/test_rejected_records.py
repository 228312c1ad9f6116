"""A batch with some invalid records: the response names each of them, so that a client can send the others again."""

from __future__ import annotations

from collections import Counter
from typing import Any

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.support.brokers import BrokerProcess

KEYLESS = set(range(3, 100, 10))
# librdkafka's own code: another record of the batch caused the error.
INVALID_DIFFERENT_RECORD = -138


def _batch(producer: ck.Producer, topic: str, keyless: set[int]) -> dict[int, int]:
    """Send a hundred records as one batch; return the error code of each, 0 = none."""
    codes: dict[int, int] = {}

    def delivered(number: int) -> Any:
        def report(problem: ck.KafkaError | None, _: ck.Message) -> None:
            codes[number] = 0 if problem is None else problem.code()

        return report

    for number in range(100):
        key = None if number in keyless else b"k"
        producer.produce(topic, b"v", key, partition=0, on_delivery=delivered(number))
    assert producer.flush(60) == 0
    return codes


def test_librdkafka_hears_which_records_of_a_batch_have_no_key(broker: BrokerProcess, topic: str) -> None:
    """Ten records without a key in a compacted topic are INVALID_RECORD; the other records' error says that they were
    valid."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    new = NewTopic(topic, 1, -1, config={"cleanup.policy": "compact"})
    admin.create_topics([new])[topic].result(60)
    # The batch is sent when it is full, however slow the machine is.
    producer = ck.Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "linger.ms": 60_000,
            "batch.num.messages": 100,
            "compression.type": "lz4",
        }
    )
    codes = _batch(producer, topic, KEYLESS)
    assert {number for number, code in codes.items() if code == ck.KafkaError.INVALID_RECORD} == KEYLESS
    assert Counter(codes.values()) == {ck.KafkaError.INVALID_RECORD: 10, INVALID_DIFFERENT_RECORD: 90}
    assert set(_batch(producer, topic, set()).values()) == {0}
    consumer = ck.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": f"{topic}-group"})
    assert consumer.get_watermark_offsets(ck.TopicPartition(topic, 0), timeout=60) == (0, 100)
    consumer.close()
