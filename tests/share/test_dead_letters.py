"""Dead letter queues of share groups (KIP-1191): records that a group rejects or receives too often go to its queue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer

from pybroker.client import AcknowledgeType, NewTopic, TopicPartition
from pybroker.client.blocking import AdminClient, ShareConsumer
from tests.groups.kit import unique, until
from tests.share.kit import DeadLetter, dead_letters, reader, seen, set_group
from tests.support.brokers import BrokerProcess, KafkaProcess, PybrokerProcess

ENABLED = {"errors.deadletterqueue.group.enable": "true"}
QUEUE, COPY = "errors.deadletterqueue.topic.name", "errors.deadletterqueue.copy.record.enable"
SETTINGS = {
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "errors.deadletterqueue.auto.create.topics.enable": "true",
}
PARTITIONS, EACH = 2, 3


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PybrokerProcess]:
    broker = PybrokerProcess(Path(tmp_path_factory.mktemp("letters")), SETTINGS)
    broker.start()
    yield broker
    broker.end()


def source(broker: BrokerProcess) -> str:
    """A topic with records whose key, value and header match each other."""
    topic = unique("source")
    make(broker, topic, PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
    for partition in range(PARTITIONS):
        for index in range(EACH):
            what = f"{partition}:{index}"
            producer.produce(topic, f"v{what}", f"k{what}", partition, headers={"of": f"h{what}"})
    assert producer.flush(60) == 0
    return topic


def make(broker: BrokerProcess, topic: str, partitions: int, config: Mapping[str, str] = {}) -> None:
    with AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        admin.create_topics([NewTopic(topic, partitions, 1, config=config or {})])


def read(broker: BrokerProcess, topic: str, queue: str, how: str = "reject-odd", **settings: str) -> str:
    """Let a group read all available records; return its name."""
    group = unique("letters")
    own = {name.replace("_", "."): value for name, value in settings.items()}
    set_group(broker.port, group, {"share.auto.offset.reset": "earliest", QUEUE: queue, **own})
    count = PARTITIONS * EACH * (2 if how == "release" else 1) - (PARTITIONS if how == "reject-odd" else 0)
    seen(reader(broker.bootstrap, group, topic, count, how=how))
    return group


def told(group: str, of: tuple[str, int, int], count: int, why: str) -> dict[str, str]:
    """Return Kafka's context headers for (topic, partition, offset)."""
    topic, partition, offset = of
    return {
        "__dlq.errors.topic": topic,
        "__dlq.errors.partition": str(partition),
        "__dlq.errors.offset": str(offset),
        "__dlq.errors.group": group,
        "__dlq.errors.delivery.count": str(count),
        "__dlq.errors.message": why,
    }


REJECTED = "Offset rejected by client."
TOO_OFTEN = "Offset delivery count exceeded the threshold."


@pytest.mark.parametrize("kind", [PybrokerProcess, KafkaProcess])
def test_letters_are_what_apache_kafka_writes(kind: type[BrokerProcess], tmp_path: Path) -> None:
    """The letters are equal in partition, key, value and headers, with one difference: pybroker's copy of a record has
    the record's own headers as well."""
    broker = kind(tmp_path / "broker", SETTINGS)
    broker.start()
    try:
        topic, queue = source(broker), unique("dlq.one")
        make(broker, queue, 3, ENABLED)
        bare = read(broker, topic, queue)
        expected = [DeadLetter(p, None, None, told(bare, (topic, p, 1), 1, REJECTED)) for p in range(PARTITIONS)]
        assert sorted(dead_letters(broker.bootstrap, queue, lambda found: len(found) == PARTITIONS)) == expected

        copied = unique("dlq.copies")
        group = read(broker, topic, copied, **{COPY: "true"})
        own = kind is PybrokerProcess
        assert sorted(
            dead_letters(broker.bootstrap, copied, lambda found: len(found) == PARTITIONS), key=lambda one: one.of
        ) == [
            DeadLetter(
                0,
                f"k{p}:1".encode(),
                f"v{p}:1".encode(),
                ({"of": f"h{p}:1"} if own else {}) | told(group, (topic, p, 1), 1, REJECTED),
            )
            for p in range(PARTITIONS)
        ], "the queue was made with one partition"

        often = unique("dlq.often")
        group = read(broker, topic, often, "release", **{"share.delivery.count.limit": "2"})
        letters = dead_letters(broker.bootstrap, often, lambda found: len(found) == PARTITIONS * EACH)
        assert sorted(letters, key=lambda one: one.of) == [
            DeadLetter(0, None, None, told(group, (topic, p, offset), 2, TOO_OFTEN))
            for p in range(PARTITIONS)
            for offset in range(EACH)
        ]
    finally:
        broker.end()


def done(broker: BrokerProcess, group: str, topic: str) -> bool:
    """Return whether the group has no unfinished records."""
    with AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        there = admin.list_share_group_offsets(group)
    states = [there.get(TopicPartition(topic, partition)) for partition in range(PARTITIONS)]
    return all(state is not None and state.start_offset == EACH for state in states)


def test_what_cannot_be_a_queue_is_named_and_holds_nobody_up(broker: PybrokerProcess) -> None:
    topic, closed, other = source(broker), unique("dlq.closed"), unique("other")
    make(broker, closed, 1)
    make(broker, other, 1, ENABLED)
    for queue, why in (
        (closed, f"errors.deadletterqueue.group.enable of topic {closed} is false"),
        (other, f"{other} does not begin with errors.deadletterqueue.topic.name.prefix=dlq."),
        ("dlq.no name", "Topic name 'dlq.no name' is invalid"),
    ):
        group = read(broker, topic, queue)
        until(lambda group=group: done(broker, group, topic), f"{group} goes on")  # type: ignore[misc]
        log = broker.console.read_text()
        assert f"group {group}: archived offsets 1 to 1 of {topic}-1 without a copy in its dead letter queue" in log
        assert why in log


def test_a_copy_that_is_too_large_tells_where_the_record_is(broker: PybrokerProcess) -> None:
    topic, queue = unique("source"), unique("dlq.small")
    make(broker, topic, 1)
    make(broker, queue, 1, {**ENABLED, "max.message.bytes": "600"})
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for size in (10, 1000, 10):
        producer.produce(topic, b"x" * size)
    producer.flush(60)
    group = unique("letters")
    set_group(broker.port, group, {"share.auto.offset.reset": "earliest", QUEUE: queue, COPY: "true"})
    member = {
        "bootstrap.servers": broker.bootstrap, "group.id": group, "share.acknowledgement.mode": "explicit",
    }  # fmt: skip
    with ShareConsumer(member) as consumer:
        consumer.subscribe(topic)
        rejected = 0
        while rejected < 3:
            for record in consumer.poll(1):
                consumer.acknowledge(record, AcknowledgeType.REJECT)
                rejected += 1
        consumer.commit()
    letters = dead_letters(broker.bootstrap, queue, lambda found: len(found) == 3)
    assert [(one.of[2], one.value) for one in letters] == [(0, b"x" * 10), (1, None), (2, b"x" * 10)]


@pytest.mark.parametrize(
    ("enabled", "answer"), [(None, "done"), ("true", "done"), ("false", "InvalidRecordStateException")]
)
def test_locks_are_renewed_unless_the_group_forbids_it(
    broker: PybrokerProcess, enabled: str | None, answer: str
) -> None:
    topic, group = source(broker), unique("renew")
    own = {"share.auto.offset.reset": "earliest"}
    if enabled is not None:
        own["share.renew.acknowledge.enable"] = enabled
    set_group(broker.port, group, own)
    records = seen(reader(broker.bootstrap, group, topic, PARTITIONS * EACH, how="renew"))
    assert {record.value for record in records if record.what == "RENEW"} == {answer}
