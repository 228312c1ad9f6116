"""The blocking clients, for programs without asyncio."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from pybroker.client import (
    KafkaError,
    NewTopic,
    RebalanceListener,
    RecordMetadata,
    RecordTooLargeError,
    TopicCollection,
    TopicPartition,
    UnknownTopicError,
)
from pybroker.client.blocking import AdminClient, Consumer, Producer, run
from pybroker.protocol.error_codes import ErrorCode


def test_topics(bootstrap: str, name: str) -> None:
    with AdminClient({"bootstrap.servers": bootstrap}) as admin:
        created = admin.create_topics([NewTopic(name, 2, 1)])
        topic_id = created.topic_id(name)
        give_up = time.monotonic() + 120
        while name not in admin.list_topics():  # Apache Kafka answers a little earlier
            assert time.monotonic() < give_up
        assert created.all()[name].topic_id == topic_id
        assert admin.describe_topics(TopicCollection.of_topic_ids([topic_id])).all_topic_ids()[topic_id].name == name
        with pytest.raises(KafkaError) as exists:
            admin.create_topics([NewTopic(name)])
        assert exists.value.code == ErrorCode.TOPIC_ALREADY_EXISTS
        with pytest.warns(DeprecationWarning, match="topic_name_values"):
            assert admin.describe_topics([name]).values()
        assert admin.list_topics()[name].topic_id == topic_id
        admin.delete_topics(TopicCollection.of_topic_ids([topic_id])).all()
        assert admin.describe_cluster().cluster_id == admin.cluster.id
    with AdminClient({"bootstrap.servers": bootstrap}, raise_errors=False) as admin:
        values = admin.delete_topics([f"{name}-never"]).topic_name_values()
        assert values is not None
        assert isinstance(values[f"{name}-never"].exception(), KafkaError)


def test_records(bootstrap: str, name: str) -> None:
    with AdminClient({"bootstrap.servers": bootstrap}) as admin:
        admin.create_topics([NewTopic(name, 1, 1)])
    where = TopicPartition(name, 0)
    with Producer({"bootstrap.servers": bootstrap}) as producer:
        assert producer.send(name, "0").offset == 0
        assert producer.enqueue(name, "1").result().offset == 1
        producer.send_many(name, [str(each).encode() for each in range(2, 100)])
        producer.flush()
        assert producer.metrics()["record-send-total"] == 100
        assert len(producer.partitions_for(name)) == 1
    seen: list[tuple[str, int]] = []

    class Listener(RebalanceListener):
        def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
            seen.append((threading.current_thread().name, consumer.position(where)))

    config = {"bootstrap.servers": bootstrap, "group.id": name, "auto.offset.reset": "earliest"}
    with Consumer(config) as consumer:
        consumer.subscribe([name], listener=Listener())
        for record in consumer:
            if record.offset == 9:
                break
        # Only records that the caller has received are committed, although more were fetched.
        consumer.commit()
        assert consumer.committed([where])[where].offset == 10
        assert consumer.poll(60.0, max_records=1)[0].offset == 10
        consumer.seek(where, 98)
        assert [record.offset for record in consumer.poll(60.0)] == [98, 99]
        assert consumer.end_offsets([where]) == {where: 100}
        assert (consumer.assignment(), consumer.subscription()) == (frozenset({where}), frozenset({name}))
    assert seen[0][1] == 0
    assert seen[0][0] != "pybroker-client"


def test_what_is_enqueued_keeps_its_order_and_its_delivery(bootstrap: str, name: str) -> None:
    """Plain values are batched together, all others are sent one by one. Neither overtakes the other, and `send`
    overtakes neither."""
    count = 3_000
    with AdminClient({"bootstrap.servers": bootstrap}) as admin:
        admin.create_topics([NewTopic(name, 1, 1)])
    told: list[int] = []
    with Producer({"bootstrap.servers": bootstrap, "batch.size": 2_000}) as producer:

        def delivered(metadata: RecordMetadata | None, error: Exception | None) -> None:
            assert error is None
            assert metadata is not None
            told.append(metadata.offset)

        deliveries = []
        for index in range(count):
            text = str(index)
            given: dict[str, Any] = {}
            if index % 7 == 3:
                given = {"key": "k", "headers": {"h": text}}
            elif index % 7 == 5:
                given = {"partition": 0, "on_delivery": delivered}
            deliveries.append(producer.enqueue(name, text if index % 2 else text.encode(), **given))
        assert producer.send(name, "last").offset == count
        assert [delivery.result().offset for delivery in deliveries] == list(range(count))
        assert all(delivery.done() for delivery in deliveries)
    assert told == [index for index in range(count) if index % 7 == 5]
    with Consumer({"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition(name, 0)])
        values: list[bytes] = []
        while len(values) <= count:
            values += [record.value for record in consumer.poll(60.0)]
    assert values == [*(str(index).encode() for index in range(count)), b"last"]


def test_several_threads_may_enqueue(bootstrap: str, name: str) -> None:
    with AdminClient({"bootstrap.servers": bootstrap}) as admin:
        admin.create_topics([NewTopic(name, 2, 1)])
    with Producer({"bootstrap.servers": bootstrap, "buffer.memory": 50_000, "linger.ms": 600_000}) as producer:

        def work(number: int) -> None:
            for index in range(2_000):
                producer.enqueue(name, f"{number}-{index}", partition=number % 2)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(100)
        producer.flush()
        assert producer.metrics()["record-send-total"] == 8_000
    with Consumer({"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition(name, index) for index in range(2)])
        values: list[str] = []
        while len(values) < 8_000:
            values += [record.value.decode() for record in consumer.poll(60.0)]
    for number in range(4):
        assert [each for each in values if each.startswith(f"{number}-")] == [f"{number}-{i}" for i in range(2_000)]


def test_what_is_wrong_with_a_record_is_told(bootstrap: str, name: str) -> None:
    with AdminClient({"bootstrap.servers": bootstrap}) as admin:
        admin.create_topics([NewTopic(name, 1, 1)])
        while name not in admin.list_topics():  # Apache Kafka answers a little earlier
            pass
    with Producer({"bootstrap.servers": bootstrap, "max.request.size": 1_000, "max.block.ms": 10_000}) as producer:
        producer.send(name, "a")
        with pytest.raises(TypeError):
            producer.enqueue(name, 1)
        with pytest.raises(RecordTooLargeError):
            producer.enqueue(name, b"x" * 2_000)
        with pytest.raises(UnknownTopicError, match="partitions 0 to 0; partition 3 does not exist"):
            producer.enqueue(name, b"x", partition=3).result()
        producer.flush()
        producer.enqueue(name, b"x", partition=3)
        with pytest.raises(UnknownTopicError, match="partitions 0 to 0; partition 3 does not exist"):
            producer.flush()

    def fail(value: object) -> bytes:
        raise ValueError("not this one")

    failures: list[Exception | None] = []
    with Producer({"bootstrap.servers": bootstrap, "value.serializer": fail}) as producer:
        with pytest.raises(ValueError, match="not this one"):
            producer.enqueue(name, "a")  # the first one waits for the topic
        assert producer.partitions_for(name)
        with pytest.raises(ValueError, match="not this one"):
            producer.enqueue(name, "a").result()
        producer.enqueue(name, "a", on_delivery=lambda _, error: failures.append(error))
        producer.flush()
    assert [type(each) for each in failures] == [ValueError]
    with pytest.raises(RuntimeError, match="closed"):
        producer.enqueue(name, "a")


def test_a_blocking_call_inside_the_loop_is_refused() -> None:
    async def inside() -> None:
        async def work() -> None: ...

        with pytest.raises(RuntimeError, match=r"use pybroker\.client there"):
            run(work())

    run(inside())
