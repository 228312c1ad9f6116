"""Guarantees of a consumer when a wait is cancelled, membership is lost or a topic changes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import pybroker
from pybroker.client import (
    AdminClient,
    CommitFailedError,
    KafkaError,
    NewTopic,
    OffsetAndMetadata,
    RebalanceListener,
    TopicPartition,
)
from pybroker.client.consumer.group.classic_member import ClassicProtocolMember
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.client.conftest import recreate
from tests.client.fake_broker import FakeBroker
from tests.client.test_consumer import reader, until, values, write


@pytest.fixture(scope="module")
def broker() -> Iterator[pybroker.Broker]:
    with pybroker.Broker() as started:
        yield started


async def _topic(broker: pybroker.Broker, name: str, partitions: int = 1) -> None:
    async with AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        await admin.create_topics([NewTopic(name, partitions, 1)])


async def test_an_answer_for_an_assignment_that_is_over_is_not_taken(broker: pybroker.Broker, name: str) -> None:
    """The partition is revoked and assigned again while a request is at the broker: the consumer must not skip records
    in between."""
    await _topic(broker, name)
    await write(broker.bootstrap, name, "0", "1", "2")
    where = TopicPartition(name, 0)
    async with reader(broker.bootstrap, fetch_max_wait_ms=3000) as consumer:
        consumer.assign([where])
        consumer.seek(where, 0)
        assert [record.value for record in await consumer.poll(60.0, max_records=1)] == [b"0"]
        await asyncio.sleep(0.2)  # the next request, from offset 3, is sent ahead
        consumer.assign([])
        consumer.assign([where])
        consumer.seek(where, 1)
        await write(broker.bootstrap, name, "3")
        assert await values(consumer, 3) == ["1", "2", "3"]


async def test_a_commit_belongs_to_the_topic_and_generation_it_was_called_in(
    broker: pybroker.Broker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _topic(broker, name)
    await write(broker.bootstrap, name, "a", "b")
    where = TopicPartition(name, 0)
    consumer = reader(broker.bootstrap, group_id=name, enable_auto_commit=False)
    async with AdminClient({"bootstrap.servers": broker.bootstrap}) as admin, consumer:
        consumer.assign([where])
        assert await values(consumer, 2) == ["a", "b"]
        member, network = consumer._member, consumer._network
        assert isinstance(member, ClassicProtocolMember)
        assert network is not None
        highest = member.highest

        async def late(request: type) -> int:
            await recreate(admin, name)
            await network.refresh((name,))
            monkeypatch.setattr(member, "highest", highest)
            return await highest(request)

        monkeypatch.setattr(member, "highest", late)
        with pytest.raises(KafkaError) as refused:
            await consumer.commit()
        assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_ID
        assert await consumer.committed([where]) == {}


async def test_who_was_put_out_of_the_group_cannot_commit(
    broker: pybroker.Broker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _topic(broker, name)
    async with reader(broker.bootstrap, group_id=name, enable_auto_commit=False) as consumer:
        where = TopicPartition(name, 0)
        consumer.subscribe([name])
        await until(lambda: bool(consumer.assignment()), consumer)
        member = consumer._member
        assert isinstance(member, ClassicProtocolMember)
        highest = member.highest

        async def late(request: type) -> int:
            member._generation += 1  # the member has joined again meanwhile
            return await highest(request)

        with monkeypatch.context() as patched:
            patched.setattr(member, "highest", late)
            with pytest.raises(CommitFailedError):
                await consumer.commit({where: OffsetAndMetadata(1)})
        await member.leave()
        member._forget()
        with pytest.raises(CommitFailedError):
            await consumer.commit({where: OffsetAndMetadata(1)})
        assert await consumer.committed([where]) == {}
        await until(lambda: member.metadata.generation >= 0 and bool(consumer.assignment()), consumer)
        await consumer.commit({where: OffsetAndMetadata(0)})


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
async def test_a_poll_that_is_cancelled_in_a_rebalance_is_taken_up_again(
    broker: pybroker.Broker, name: str, strategy: str
) -> None:
    await _topic(broker, name, 4)
    settings: dict[str, Any] = {"group_id": name, "partition_assignment_strategy": strategy}
    settings["heartbeat_interval_ms"] = 100
    held, calls = asyncio.Event(), []

    class Slow(RebalanceListener):
        async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
            calls.append(partitions)
            if len(calls) == 1:
                held.set()
                await asyncio.Event().wait()

    async with reader(broker.bootstrap, **settings) as first, reader(broker.bootstrap, **settings) as second:
        first.subscribe([name], listener=Slow())
        await until(lambda: len(first.assignment()) == 4, first)
        second.subscribe([name])
        polls = [asyncio.create_task(first.poll(60.0)), asyncio.create_task(second.poll(60.0))]
        async with asyncio.timeout(60):
            await held.wait()
        polls[0].cancel()
        await asyncio.wait([polls[0]])
        polls[1].cancel()
        await asyncio.wait([polls[1]])
        await until(lambda: len(first.assignment()) == len(second.assignment()) == 2, first, second)
        assert calls[0] == calls[1]
        assert not first.assignment() & second.assignment()


async def test_a_listener_that_fails_is_told_and_the_rebalance_holds(broker: pybroker.Broker, name: str) -> None:
    await _topic(broker, name, 2)

    class Failing(RebalanceListener):
        def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
            raise ValueError("mine")

    async with reader(broker.bootstrap, group_id=name) as consumer:
        consumer.subscribe([name], listener=Failing())
        with pytest.raises(ValueError, match="mine"):
            await consumer.poll(60.0)
        assert len(consumer.assignment()) == 2
        await write(broker.bootstrap, name, "a")
        assert await values(consumer, 1) == ["a"]


async def test_a_poll_ends_in_time_without_a_coordinator() -> None:
    def coordinator(*_: object) -> Any:
        return m.FindCoordinatorResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)

    async with (
        FakeBroker(
            {"MetadataRequest": lambda *_: fake.metadata(), "FindCoordinatorRequest": coordinator},
            {3: (0, 12), 10: (0, 2), 18: (0, 4)},
        ) as fake,
        reader(fake.bootstrap, group_id="g") as consumer,
    ):
        consumer.subscribe(["t"])
        async with asyncio.timeout(60):
            assert await consumer.poll(0.3) == []


async def test_closing_ends_a_poll_and_an_iteration(broker: pybroker.Broker, name: str) -> None:
    await _topic(broker, name)
    before = asyncio.all_tasks()
    for group in (None, name):
        consumer = reader(broker.bootstrap, group_id=group)
        if group is None:
            consumer.assign([TopicPartition(name, 0)])
        else:
            consumer.subscribe([name])
        await consumer.poll(0.1)

        async def iterate(consumer: Any = consumer) -> list[Any]:
            return [record async for record in consumer]

        waiting = [asyncio.create_task(consumer.poll(60.0)), asyncio.create_task(iterate())]
        await asyncio.sleep(0.1)
        await consumer.close()
        async with asyncio.timeout(60):
            assert await asyncio.gather(*waiting) == [[], []]
    async with asyncio.timeout(60):
        while asyncio.all_tasks() != before:  # noqa: ASYNC110  # no event tells
            await asyncio.sleep(0.001)


async def test_a_connection_that_is_replaced_ends_though_nobody_waits_for_its_answer() -> None:
    from pybroker.client.connection.broker_connection import BrokerConnection

    answers: list[Any] = []
    async with FakeBroker({"MetadataRequest": lambda *_: answers.pop() if answers else None}) as fake:
        connection = await BrokerConnection.open("127.0.0.1", fake.port)
        asking = asyncio.create_task(connection.request(m.MetadataRequest(topics=[])))
        await asyncio.sleep(0)
        asking.cancel()
        answers.append(fake.metadata())
        connection.retire()
        async with asyncio.timeout(60):
            await asyncio.shield(connection._closed)
