"""Records that fail again and again: their batch is delivered in halves, then quarters and so on, and each record alone
for the last time. One bad record then does not fail the others. Each response equals that of Apache Kafka."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from pybroker.client import AcknowledgeType, NewTopic
from pybroker.client.blocking import AdminClient, ShareConsumer
from tests.groups.kit import unique
from tests.share.kit import WAIT_S, set_group
from tests.support.brokers import BrokerProcess, KafkaProcess, PybrokerProcess

RECORDS = 8
SETTINGS = {
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.share.min.delivery.count.limit": "2",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = PybrokerProcess(Path(tmp_path_factory.mktemp("ours")), SETTINGS)
    broker.start()
    yield broker
    broker.end()


def source(broker: BrokerProcess) -> str:
    """A topic with one batch."""
    topic = unique("source")
    with AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)]).all()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", "linger.ms": 500})
    for number in range(RECORDS):
        producer.produce(topic, str(number))
    assert producer.flush(WAIT_S) == 0
    return topic


def answers(broker: BrokerProcess, topic: str, limit: int, bad: int | None = None) -> list[tuple[int, ...]]:
    """Return the offsets of each response to a member that releases everything until no record is left. `bad`: a record
    that makes all records of its response fail."""
    group = unique("group")
    set_group(broker.port, group, {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": str(limit)})
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": group,
        "share.acknowledgement.mode": "explicit",
    }
    found: list[tuple[int, ...]] = []
    left = dict.fromkeys(range(RECORDS), limit)
    with ShareConsumer(settings) as consumer:
        consumer.subscribe(topic)
        give_up = time.monotonic() + WAIT_S
        while left:
            assert time.monotonic() < give_up, found
            records = consumer.poll(1.0)
            offsets = tuple(record.offset for record in records)
            spoilt = bad is None or bad in offsets
            for record in records:
                assert consumer.delivery_count(record) == limit - left[record.offset] + 1
                consumer.acknowledge(record, AcknowledgeType.RELEASE if spoilt else AcknowledgeType.ACCEPT)
                left[record.offset] -= 1
                if not (spoilt and left[record.offset]):
                    del left[record.offset]
            if records:
                found.append(offsets)
                consumer.commit()
    return found


WHOLE, ALONE = tuple(range(RECORDS)), [(offset,) for offset in range(RECORDS)]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (2, [WHOLE, WHOLE]),
        (3, [WHOLE, WHOLE, *ALONE]),
        (5, [WHOLE, WHOLE, WHOLE, WHOLE[:4], *ALONE[:4], WHOLE[4:], *ALONE[4:]]),
    ],
)
def test_a_batch_falls_to_pieces(broker: BrokerProcess, limit: int, expected: list[tuple[int, ...]]) -> None:
    assert answers(broker, source(broker), limit) == expected


def test_one_bad_record_takes_none_with_it(broker: BrokerProcess) -> None:
    """All records delivered with it are released; when it is delivered alone, the others are accepted."""
    found = answers(broker, source(broker), 5, bad=5)
    assert found == [WHOLE, WHOLE, WHOLE, WHOLE[:4], WHOLE[4:], (4,), (5,), (6,), (7,)]


def test_state_that_was_stored_falls_to_pieces_as_well(broker: BrokerProcess) -> None:
    topic, limit = source(broker), 5
    group = unique("group")
    set_group(broker.port, group, {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": str(limit)})
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": group, "share.acknowledgement.mode": "explicit"}

    def once() -> tuple[int, ...]:
        with ShareConsumer(settings) as consumer:
            consumer.subscribe(topic)
            give_up = time.monotonic() + WAIT_S
            while not (records := consumer.poll(1.0)):
                assert time.monotonic() < give_up
            for record in records:
                consumer.acknowledge(record, AcknowledgeType.RELEASE)
            consumer.commit()
            return tuple(record.offset for record in records)

    assert [once() for _ in range(3)] == [WHOLE] * 3
    broker.restart(crash=True)
    assert once() == WHOLE[:4]
    assert once() == (0,)


@pytest.mark.slow
def test_apache_kafka_gives_the_same(broker: BrokerProcess, tmp_path: Path) -> None:
    kafka = KafkaProcess(tmp_path, SETTINGS)
    kafka.start()
    try:
        theirs, ours = source(kafka), source(broker)
        for limit in (2, 3, 4, 5, 7, 10):
            assert answers(broker, ours, limit) == answers(kafka, theirs, limit), limit
        assert answers(broker, ours, 5, bad=5) == answers(kafka, theirs, 5, bad=5)
    finally:
        kafka.kill()
