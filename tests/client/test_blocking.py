"""The face without asyncio."""

from __future__ import annotations

import threading
import time

import pytest

from pybroker.client import KafkaError, NewTopic, RebalanceListener, TopicCollection, TopicPartition
from pybroker.client.blocking import AdminClient, Consumer, Producer, run
from pybroker.protocol.error_codes import ErrorCode


def test_topics(bootstrap: str, name: str) -> None:
    with AdminClient({"bootstrap.servers": bootstrap}) as admin:
        created = admin.create_topics([NewTopic(name, 2, 1)])
        topic_id = created.topic_id(name)
        give_up = time.monotonic() + 60
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
        # Only what the caller has seen is committed, although more was fetched.
        consumer.commit()
        assert consumer.committed([where])[where].offset == 10
        assert consumer.poll(60.0, max_records=1)[0].offset == 10
        consumer.seek(where, 98)
        assert [record.offset for record in consumer.poll(60.0)] == [98, 99]
        assert consumer.end_offsets([where]) == {where: 100}
        assert (consumer.assignment(), consumer.subscription()) == (frozenset({where}), frozenset({name}))
    assert seen[0][1] == 0
    assert seen[0][0] != "pybroker-client"


def test_a_blocking_call_inside_the_loop_is_refused() -> None:
    async def inside() -> None:
        async def work() -> None: ...

        with pytest.raises(RuntimeError, match=r"use pybroker\.client there"):
            run(work())

    run(inside())
