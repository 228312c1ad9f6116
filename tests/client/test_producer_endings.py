"""A producer's guarantees when something ends early: a topic, a deadline, the producer, a cancelled caller."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

import pybroker
from pybroker.client import (
    AdminClient,
    BrokerConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NewTopic,
    Producer,
    TopicPartition,
    Uuid,
    blocking,
)
from pybroker.client.producer.accumulator import Batch, PartitionQueue, TopicQueues, next_sequence
from pybroker.client.producer.delivery import Delivery
from pybroker.native import ClientBatch
from pybroker.protocol import messages as m
from tests.client.conftest import recreate
from tests.client.test_producer import ScriptedBroker, read


@pytest.fixture(scope="module")
def broker() -> Iterator[pybroker.Broker]:
    with pybroker.Broker() as started:
        yield started


async def test_a_topic_that_comes_back_takes_what_is_new(broker: pybroker.Broker, name: str) -> None:
    """The topic id and the producer are the same. If the sequences began again within the epoch, the broker would take
    "b" for a duplicate of "a"."""
    settings = {"bootstrap.servers": broker.bootstrap}
    async with AdminClient(settings) as admin, Producer(settings) as producer:
        topic_id = await admin.create_topics([NewTopic(name, 1, 1)]).topic_id(name)
        assert (await producer.send(name, "a")).offset == 0
        await admin.delete_topics([name])
        sender = producer._sender
        assert sender is not None
        async with asyncio.timeout(60):
            while name in producer._topics:  # found by a metadata refresh
                sender._watch.refresh()
                await asyncio.sleep(0.01)
        undelete = m.UndeleteTopicsRequest(topics=[m.UndeleteTopicsRequest_UndeletableTopic(topic_id=topic_id)])
        await admin.send(undelete, node="controller")
        async with asyncio.timeout(60):
            sent = await producer.send(name, "b")
        assert (sent.offset, sent.topic_id) == (1, topic_id)
    assert [record.value for record in await read(broker.bootstrap, name, 2)] == [b"a", b"b"]


async def test_the_next_topic_may_have_fewer_partitions(broker: pybroker.Broker, name: str) -> None:
    settings = {"bootstrap.servers": broker.bootstrap, "on.topic.recreated": "continue", "linger.ms": 60_000}
    async with AdminClient({"bootstrap.servers": broker.bootstrap}) as admin, Producer(settings) as producer:
        await admin.create_topics([NewTopic(name, 3, 1)])
        await producer.enqueue(name, "first", partition=0)
        await producer.flush()
        waiting = await producer.enqueue(name, "second", partition=0)
        await recreate(admin, name, 1)
        async with asyncio.timeout(60):
            await producer.flush()
            await waiting
            sent = [await producer.enqueue(name, "x", key=str(number)) for number in range(6)]
            await producer.flush()
            assert {(await each).partition for each in sent} == {0}


async def test_what_cannot_be_appended_leaves_nothing_to_wait_for(broker: pybroker.Broker, name: str) -> None:
    settings = {"bootstrap.servers": broker.bootstrap}
    async with AdminClient(settings) as admin, Producer(settings) as producer:
        await admin.create_topics([NewTopic(name, 1, 1)])
        with pytest.raises(TypeError):
            await producer.send_many(name, [1])
        with pytest.raises(TypeError):
            await producer.enqueue(name, "a", timestamp_ms="now")  # type: ignore[arg-type]  # the wrong type: must raise
        async with asyncio.timeout(60):
            await producer.flush()


async def test_a_closed_producer_takes_nothing(broker: pybroker.Broker, name: str) -> None:
    settings = {"bootstrap.servers": broker.bootstrap}
    async with AdminClient(settings) as admin:
        await admin.create_topics([NewTopic(name, 1, 1)])
    async with Producer(settings) as producer:
        await producer.send(name, b"a")
    for attempt in (producer.send(name, b"b"), producer.enqueue(name, "b"), producer.send_many(name, [b"b"])):
        with pytest.raises(RuntimeError, match="closed"):
            async with asyncio.timeout(60):
                await attempt


def test_a_closed_blocking_producer_takes_nothing(broker: pybroker.Broker, name: str) -> None:
    settings = {"bootstrap.servers": broker.bootstrap}
    with blocking.Producer(settings) as producer:
        producer.send(name, b"a")
    with pytest.raises(RuntimeError, match="closed"):
        producer.send(name, b"b")


async def test_without_acknowledgement_close_still_writes_all() -> None:
    async with ScriptedBroker() as silent:
        all_there = asyncio.Event()

        def taken(*_: object) -> None:
            if len(silent.asked("ProduceRequest")) == 20:
                all_there.set()

        silent.answers["ProduceRequest"] = taken
        settings = {"bootstrap.servers": silent.bootstrap, "acks": "0", "max.request.size": 2_000_000}
        async with Producer({**settings, "batch.size": 1_000_000}) as producer:
            await producer.send_many("t", [b"x" * 900_000] * 20)
        async with asyncio.timeout(60):
            await all_there.wait()


async def test_lingering_ends_when_somebody_waits_for_room(broker: pybroker.Broker, name: str) -> None:
    settings = {"bootstrap.servers": broker.bootstrap, "linger.ms": 60_000, "batch.size": 90_000, "acks": "all"}
    async with Producer({**settings, "buffer.memory": 100_000, "max.block.ms": 60_000}) as producer:
        await producer.enqueue(name, b"x" * 70_000)
        await producer.enqueue(name, b"y" * 40_000)


async def test_a_deadline_holds_on_the_wire_as_well() -> None:
    async with ScriptedBroker() as silent:
        silent.answers["ProduceRequest"] = lambda *_: None
        settings = {"bootstrap.servers": silent.bootstrap, "linger.ms": 0, "delivery.timeout.ms": 300}
        async with Producer(settings) as producer:
            producer_sends = producer.send("t", "a")
            with pytest.raises(KafkaTimeoutError, match=r"delivery\.timeout\.ms=300"):
                async with asyncio.timeout(60):
                    await producer_sends


async def test_a_cancelled_close_fails_what_is_left() -> None:
    async with ScriptedBroker() as silent:
        silent.answers["ProduceRequest"] = lambda *_: None
        producer = Producer({"bootstrap.servers": silent.bootstrap, "linger.ms": 0})
        waiting = await producer.enqueue("t", "a")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await producer.close()
        with pytest.raises(KafkaTimeoutError, match="closed"):
            async with asyncio.timeout(60):
                await waiting
        assert [task for task in asyncio.all_tasks() if "Sender" in repr(task)] == []


async def test_closing_while_it_connects_is_told_as_such() -> None:
    async with ScriptedBroker() as silent:
        asked = asyncio.Event()
        silent.answers["MetadataRequest"] = lambda *_: asked.set()
        producer = Producer({"bootstrap.servers": silent.bootstrap})
        sending = asyncio.create_task(producer.send("t", "a"))
        async with asyncio.timeout(60):
            await asked.wait()
        await producer.close()
        with pytest.raises((RuntimeError, BrokerConnectionError), match="closed"):
            async with asyncio.timeout(60):
                await sending


async def test_retries_keep_their_order_where_sequences_wrap() -> None:
    queue: PartitionQueue = TopicQueues("t", Uuid.ZERO, 1).partitions[0]
    queue.producer, queue.next_sequence = (7, 0), 0x7FFFFFFE
    batches = []
    for _ in range(4):
        batch = Batch(
            ClientBatch("none", 1000), TopicPartition("t", 0), Uuid.ZERO, linger_end=0, deadline=0, wake=print
        )
        batch.data.append(0, None, b"a")
        assert queue.number(batch, (7, 0))
        queue.in_flight.append(batch)
        batches.append(batch)
    assert [each.sequence for each in batches] == [0x7FFFFFFE, 0x7FFFFFFF, 0, 1]
    for batch in reversed(batches):
        queue.retry(batch)
    assert queue.retries == batches
    assert next_sequence(0x7FFFFFFF, 1) == 0


async def test_a_failure_that_was_looked_at_late_is_not_told_again(broker: pybroker.Broker, name: str) -> None:
    settings = {"bootstrap.servers": broker.bootstrap}
    async with AdminClient(settings) as admin, Producer(settings) as producer:
        await admin.create_topics([NewTopic(name, 1, 1, config={"max.message.bytes": "2000"})])
        refused = await producer.enqueue(name, b"x" * 3_000)
        done = asyncio.Event()
        refused.batch.done.add_done_callback(lambda _: done.set())
        async with asyncio.timeout(60):
            await done.wait()
        with pytest.raises(KafkaError):
            await refused
        await producer.flush()


async def test_flush_raises_for_the_records_that_no_caller_reads(broker: pybroker.Broker, name: str) -> None:
    """One batch fails: the caller of its first record reads the outcome, the second record has only `flush`."""
    settings = {"bootstrap.servers": broker.bootstrap, "linger.ms": 60_000}
    async with AdminClient({"bootstrap.servers": broker.bootstrap}) as admin, Producer(settings) as producer:
        await admin.create_topics([NewTopic(name, 1, 1)])
        read = await producer.enqueue(name, "a")
        await producer.enqueue(name, "b")
        await admin.delete_topics([name])
        told = asyncio.ensure_future(_outcome(read))
        with pytest.raises(KafkaError):
            await producer.flush()
        assert isinstance(await told, KafkaError)
        await producer.flush()


async def _outcome(delivery: Delivery) -> Exception | None:
    try:
        await delivery
    except KafkaError as error:
        return error
    return None


def test_close_raises_for_records_that_got_into_no_batch(broker: pybroker.Broker, name: str) -> None:
    def serialize(value: str) -> bytes:
        if value == "bad":
            raise ValueError(value)
        return value.encode()

    producer = blocking.Producer({"bootstrap.servers": broker.bootstrap, "value.serializer": serialize})
    producer.send(name, "good")
    producer.enqueue(name, "bad")
    with pytest.raises(ValueError, match="bad"):
        producer.close()
