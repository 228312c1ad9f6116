"""Committed offsets across restarts and crashes, with other projects' clients."""

from __future__ import annotations

import contextlib

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.conftest import StartBroker
from tests.groups.kit import WAIT_S, Member, create_topic, fill, members, shared_out, unique, until


@pytest.mark.parametrize("crash", [False, True], ids=["clean stop", "kill -9"])
def test_a_group_resumes_where_it_committed(start_broker: StartBroker, crash: bool) -> None:
    broker = start_broker()
    topic, group = create_topic(broker.bootstrap), unique("group")
    fill(broker.bootstrap, topic, 4, 100)
    with Member(broker.bootstrap, group, topic) as first:
        until(lambda: len(first.values) == 400, "everything is read")
        assert first.commit() == dict.fromkeys(range(4), 100)
    broker.restart(crash=crash)
    fill(broker.bootstrap, topic, 4, 10, "new ")
    with Member(broker.bootstrap, group, topic) as second:
        until(lambda: len(second.values) >= 40, "what is new is read")
        assert set(second.values) == {f"new {p}:{i}" for p in range(4) for i in range(10)}


def test_every_acknowledged_commit_is_there_after_a_crash(start_broker: StartBroker) -> None:
    broker = start_broker()
    topic, group = create_topic(broker.bootstrap, 1), unique("group")
    fill(broker.bootstrap, topic, 1, 1)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    for offset in range(1, 200):
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    broker.restart(crash=True)
    (found,) = consumer.committed([TopicPartition(topic, 0)], WAIT_S)
    assert found.offset == 199
    consumer.close()


def test_members_go_on_through_a_crash(start_broker: StartBroker) -> None:
    broker = start_broker()
    topic, group = create_topic(broker.bootstrap), unique("group")
    with members(2, broker.bootstrap, group, topic) as both:
        until(lambda: shared_out(both, 4) and all(m.owned for m in both), "both own something")
        broker.restart(crash=True)
        fill(broker.bootstrap, topic, 4, 25)
        # A rebalance in between repeats uncommitted records: count only distinct values.
        until(lambda: len({value for m in both for value in m.values}) == 100, "they read on")

        def committed() -> bool:
            for member in both:
                # There is nothing to commit yet, or a rebalance is running: retry in the next round.
                with contextlib.suppress(KafkaException):
                    member.commit()
            watched = watcher.committed([TopicPartition(topic, p) for p in range(4)], WAIT_S)
            return [one.offset for one in watched] == [25] * 4

        watcher = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
        until(committed, "all that was read is committed")
        watcher.close()
    with Member(broker.bootstrap, group, topic) as third:
        until(lambda: shared_out([third], 4), "somebody else takes over")
    assert third.values == []


async def test_metadata_and_positions_of_aiokafka(start_broker: StartBroker) -> None:
    broker = start_broker()
    topic, group = create_topic(broker.bootstrap, 2), unique("group")
    partition = AioPartition(topic, 1)
    for crash in (False, True):
        consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=group, enable_auto_commit=False)
        await consumer.start()
        try:
            consumer.assign([partition])
            if not crash:
                assert await consumer.committed(partition) is None
                await consumer.commit({partition: (17, "a note")})
            assert await consumer.committed(partition) == 17
        finally:
            await consumer.stop()
        broker.restart(crash=True)
