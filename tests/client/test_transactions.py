"""TransactionalProducer: committed records are visible, aborted ones are not, and only one producer of an id writes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from pybroker.client import (
    AdminClient,
    ClientConfigError,
    CommitFailedError,
    Consumer,
    NewTopic,
    ProducerFencedError,
    RecordTooLargeError,
    TopicPartition,
    TransactionalProducer,
    TransactionFailedError,
    blocking,
)
from pybroker.client.consumer.group.group_membership import GroupMetadata
from tests.conftest import StartBroker

LIMIT_S = 120.0


def settings(bootstrap: str, transactional_id: str, **more: object) -> dict[str, object]:
    return {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, **more}


async def seen(bootstrap: str, topic: str, isolation: str = "read_committed", partitions: int = 2) -> list[str]:
    """Return all records that a consumer sees, partition by partition."""
    found: list[tuple[int, str]] = []
    where = [TopicPartition(topic, index) for index in range(partitions)]
    async with Consumer({"bootstrap.servers": bootstrap, "isolation.level": isolation}) as consumer:
        consumer.assign(where)
        consumer.seek_to_beginning(*where)
        ends = await consumer.end_offsets(where)
        while any([await consumer.position(one) < ends[one] for one in where]):
            async with asyncio.timeout(LIMIT_S):
                found += [(record.partition, record.value.decode()) for record in await consumer.poll(0.5)]
    return [value for _, value in sorted(found, key=lambda one: one[0])]


async def sees(bootstrap: str, topic: str, *values: str) -> None:
    """Wait until these are the committed records: markers are written after a commit has returned."""


    async def there() -> bool:
        return await seen(bootstrap, topic) == list(values)

    await until(there)


async def leaves(producer: TransactionalProducer, topic: str) -> None:
    async with producer.transaction():
        await producer.enqueue(topic, "lost")
        raise ZeroDivisionError


def leaves_waiting(producer: blocking.TransactionalProducer, topic: str) -> None:
    with producer.transaction():
        for _ in range(1_000):
            producer.enqueue(topic, "lost", partition=0)
        raise ZeroDivisionError


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not await condition():  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.05)


@pytest.fixture
async def topic(admin: AdminClient, name: str) -> str:
    await admin.create_topics([NewTopic(name, 2, 1)])
    return name


@pytest.mark.checklist("E10", "E11", "E12")
async def test_what_is_committed_counts_with_its_offsets(
    admin: AdminClient, bootstrap: str, topic: str
) -> None:
    source, group = TopicPartition(topic, 0), f"{topic}-group"
    async with TransactionalProducer(settings(bootstrap, topic)) as producer:
        for number in range(3):
            await producer.begin()
            await producer.send(topic, f"{number}a", partition=0)
            await producer.send_many(topic, [b"%db" % number], partition=1)
            await producer.send_offsets({source: 10 + number}, group)
            await (producer.abort() if number == 1 else producer.commit())
        with pytest.raises(ZeroDivisionError):
            await leaves(producer, topic)
        async with producer.transaction():
            delivery = await producer.enqueue(topic, "3a", partition=0)
        assert (await delivery).topic == topic
        await producer.begin()
        await producer.send(topic, "open", partition=0)
        await producer.send_offsets({source: 99}, group)
    # The producer is closed while the transaction is open: the transaction is aborted.
    await sees(bootstrap, topic, "0a", "2a", "3a", "0b", "2b")
    assert (await admin.list_consumer_group_offsets(group))[source].offset == 12
    assert "1a" in await seen(bootstrap, topic, "read_uncommitted")


async def test_a_larger_batch_is_compressed_and_split_in_a_transaction(bootstrap: str, topic: str) -> None:
    values = [f"{number:06d}" * 40 for number in range(5_000)]
    more = {"compression.type": "lz4", "batch.size": 1 << 19, "linger.ms": 50}
    async with TransactionalProducer(settings(bootstrap, topic, **more)) as producer, producer.transaction():
        await producer.send_many(topic, [value.encode() for value in values], partition=0)
    await sees(bootstrap, topic, *values)


@pytest.mark.checklist("E8")
async def test_the_last_one_of_an_id_writes(bootstrap: str, topic: str) -> None:
    async with TransactionalProducer(settings(bootstrap, topic)) as old:
        await old.begin()
        await old.send(topic, "old", partition=0)
        async with TransactionalProducer(settings(bootstrap, topic)) as new:
            await new.init()
            with pytest.raises(ProducerFencedError, match="another producer uses"):
                await old.commit()
            with pytest.raises(ProducerFencedError):
                await old.begin()
            with pytest.raises(ProducerFencedError):
                await old.send(topic, "older")
            async with new.transaction():
                await new.send(topic, "new", partition=0)
    await sees(bootstrap, topic, "new")


@pytest.mark.checklist("E8")
async def test_a_fenced_producer_is_told_by_its_first_record(bootstrap: str, topic: str) -> None:
    async with TransactionalProducer(settings(bootstrap, topic)) as old:
        async with old.transaction():
            await old.send(topic, "old", partition=0)
        async with TransactionalProducer(settings(bootstrap, topic)) as new:
            await new.init()
            with pytest.raises(ProducerFencedError, match="another producer uses"):
                async with old.transaction():
                    await old.send(topic, "older", partition=0)
    await sees(bootstrap, topic, "old")


async def test_what_fails_in_a_transaction_fails_all_of_it(bootstrap: str, topic: str) -> None:
    async with TransactionalProducer(settings(bootstrap, topic)) as producer:
        with pytest.raises(RuntimeError, match="call init"):
            await producer.commit()
        await producer.init()
        with pytest.raises(RuntimeError, match="call begin"):
            await producer.send(topic, "too early")
        await producer.begin()
        with pytest.raises(RuntimeError, match="already open"):
            await producer.begin()
        await producer.send(topic, "good", partition=0)
        with pytest.raises(CommitFailedError):
            await producer.send_offsets({TopicPartition(topic, 0): 1}, GroupMetadata("nobody", 7, "stranger", None))
        with pytest.raises(TransactionFailedError, match="the transaction has failed"):
            await producer.send(topic, "more")
        with pytest.raises(TransactionFailedError):
            await producer.commit()
        await producer.abort()
        async with producer.transaction():
            await producer.send(topic, "next", partition=0)
        await producer.begin()
        with pytest.raises(RecordTooLargeError):
            await producer.send(topic, b"x" * (2 << 20))
        await producer.abort()
    await sees(bootstrap, topic, "next")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "transactional.id is not set"),
        ({"transactional.id": "t", "enable.idempotence": False}, "requires enable.idempotence=true"),
        ({"transactional.id": "t", "acks": "1"}, "acks=all"),
    ],
)
async def test_settings_that_promise_nothing_are_refused(given: dict[str, object], says: str) -> None:
    with pytest.raises(ClientConfigError, match=says):
        TransactionalProducer({"bootstrap.servers": "127.0.0.1:1", **given})


def test_without_asyncio(bootstrap: str, name: str) -> None:
    with blocking.AdminClient({"bootstrap.servers": bootstrap}) as admin:
        admin.create_topics([NewTopic(name, 2, 1)])
    with blocking.TransactionalProducer(settings(bootstrap, name)) as producer:
        with producer.transaction():
            for number in range(1_000):
                producer.enqueue(name, str(number), partition=0)
            producer.send_offsets({TopicPartition(name, 0): 5}, f"{name}-group")
        with pytest.raises(ZeroDivisionError):
            leaves_waiting(producer, name)
        producer.begin()
        producer.send(name, "last", partition=0)
        producer.commit()
        producer.begin()
        producer.enqueue(name, "never", partition=0)
        producer.abort()
    asyncio.run(sees(bootstrap, name, *map(str, range(1_000)), "last"))


def test_what_is_in_no_batch_yet_is_given_up_with_its_transaction(
    bootstrap: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next transaction does not report the failure, because it has lost no record."""
    monkeypatch.setattr("pybroker.client.blocking.thread_bridge._PAUSE_S", 600.0)
    with blocking.AdminClient({"bootstrap.servers": bootstrap}) as admin:
        admin.create_topics([NewTopic(name, 2, 1)])
    with blocking.TransactionalProducer(settings(bootstrap, name)) as producer:
        with pytest.raises(ZeroDivisionError):
            leaves_waiting(producer, name)
        with producer.transaction():
            producer.send(name, "kept", partition=0)
    asyncio.run(sees(bootstrap, name, "kept"))


@pytest.mark.checklist("E7", "E10")
async def test_it_goes_on_with_a_broker_that_was_killed(start_broker: StartBroker) -> None:
    broker = start_broker()
    expected: list[str] = []
    async with AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        await admin.create_topics([NewTopic("kept", 2, 1)])
    async with TransactionalProducer(settings(broker.bootstrap, "survivor")) as producer:
        for number in range(3):
            await producer.begin()
            await producer.send("kept", f"{number}a", partition=0)
            await asyncio.to_thread(broker.restart, crash=True)
            await producer.enqueue("kept", f"{number}b", partition=0)
            await producer.send_offsets({TopicPartition("kept", 0): number}, "group")
            commit = asyncio.create_task(producer.abort() if number == 1 else producer.commit())
            await asyncio.to_thread(broker.restart, crash=True)
            await commit
            expected += [] if number == 1 else [f"{number}a", f"{number}b"]
    await sees(broker.bootstrap, "kept", *expected)
    async with AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:

        async def offset_counts() -> bool:
            found = await admin.list_consumer_group_offsets("group")
            return found[TopicPartition("kept", 0)].offset == 2

        # The transaction's marker takes an offset of its own.
        await until(offset_counts)


@pytest.mark.checklist("E9")
async def test_what_takes_too_long_is_aborted(start_broker: StartBroker) -> None:
    broker = start_broker({"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"})
    async with AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        await admin.create_topics([NewTopic("late", 2, 1)])
        async with TransactionalProducer(
            settings(broker.bootstrap, "slow", **{"transaction.timeout.ms": 4_000})
        ) as producer:
            await producer.begin()
            await producer.send("late", "lost", partition=0)


            async def over() -> bool:
                return (await admin.describe_transactions(["slow"]))["slow"].state == "CompleteAbort"

            await until(over)
            with pytest.raises(TransactionFailedError, match=r"transaction\.timeout\.ms"):
                await producer.commit()
            # In version 2 of the protocol, the producer continues unless another one has replaced it.
            await producer.abort()
            async with producer.transaction():
                await producer.send("late", "in time", partition=0)
    await sees(broker.bootstrap, "late", "in time")
