"""confluent-kafka's part: topics, their ids, record counts, and reading them back."""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from examples.roundtrip.texts import Copy

TIMEOUT_S = 30.0
IDLE_TIMEOUT_S = 60.0
QUIET: dict[str, str | int] = {"log_level": 0}
"""Hide errors about a broker that is down: the client uses the others."""


def create(bootstrap: str, names: list[str], partitions: int, replicas: int = 1) -> dict[str, str]:
    """Create the topics and return their ids by name."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    created = admin.create_topics([NewTopic(name, partitions, replicas) for name in names])
    for done in created.values():
        done.result(TIMEOUT_S)
    described = admin.describe_topics(TopicCollection(names), request_timeout=TIMEOUT_S)
    # librdkafka writes ids in standard base64; Kafka, like pybroker, in the URL-safe form.
    to_url_safe = str.maketrans("+/", "-_")
    return {name: str(each.result(TIMEOUT_S).topic_id).translate(to_url_safe) for name, each in described.items()}


def delete(bootstrap: str, topic: str) -> None:
    """Delete the topic; its name is free on return."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    admin.delete_topics([topic])[topic].result(TIMEOUT_S)


def leader(bootstrap: str, topic: str, partition: int) -> int:
    """Return the id of the leader."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    found = admin.list_topics(topic, TIMEOUT_S)
    return int(found.topics[topic].partitions[partition].leader)


def fill(bootstrap: str, topic: str, records: int) -> None:
    """Write filler records."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **QUIET})
    for number in range(records):
        producer.produce(topic, b"old record %d" % number, str(number).encode())
    if producer.flush(TIMEOUT_S):
        raise KafkaException(f"{topic} does not accept records")


def _consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "pybroker-roundtrip",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": False,
            "fetch.queue.backoff.ms": 5,
            **QUIET,
        }
    )


def written(bootstrap: str, topic: str, partitions: int) -> int:
    """Return the number of records in the topic; 0 while it is unknown."""
    consumer = _consumer(bootstrap)
    try:
        ends = [consumer.get_watermark_offsets(TopicPartition(topic, number), 5) for number in range(partitions)]
        return sum(end[1] for end in ends if end)
    except KafkaException:
        return 0
    finally:
        consumer.close()


def read_back(bootstrap: str, topic: str, partitions: int, count: int, progress: Callable[[int], None]) -> Copy:
    """Read all records from the start, partition by partition in order, even if there are more than `count`."""
    consumer = _consumer(bootstrap)
    copy = Copy()
    try:
        ends = {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), TIMEOUT_S)[1]
            for number in range(partitions)
        }
        total = max(count, sum(ends.values()))
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        give_up = time.monotonic() + IDLE_TIMEOUT_S
        while copy.digest.records < total and time.monotonic() < give_up:
            messages = consumer.consume(5000, 1.0)
            for message in messages:
                problem = message.error()
                if problem is not None:
                    raise KafkaException(problem)
                copy.add(message.key() or b"", message.value() or b"")
            if messages:
                give_up = time.monotonic() + IDLE_TIMEOUT_S
                progress(copy.digest.records)
    finally:
        consumer.close()
    return copy
