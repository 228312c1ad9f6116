"""Groups of librdkafka and aiokafka: members join, leave, die and return."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from tests.groups.kit import WAIT_S, Member, admin, create_topic, fill, shared_out, unique, until
from tests.support.brokers import BrokerProcess

ASSIGNORS = ["range", "roundrobin", "cooperative-sticky"]


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_partitions_are_shared_out_anew_with_each_member(broker: BrokerProcess, assignor: str) -> None:
    topic, group = create_topic(broker.bootstrap, 6), unique("group")
    fill(broker.bootstrap, topic, 6, 50)
    strategy = {"partition.assignment.strategy": assignor}
    with Member(broker.bootstrap, group, topic, strategy) as first:
        until(lambda: len(first.values) == 300, "the only member reads everything")
        first.commit()
        with Member(broker.bootstrap, group, topic, strategy) as second:
            until(lambda: shared_out([first, second], 6) and len(second.owned) == 3, "two members share")
            if assignor == "cooperative-sticky":
                # Only moved partitions are released.
                assert all(len(lost) <= 3 for lost in first.revocations)
            fill(broker.bootstrap, topic, 6, 50, "more ")
            until(lambda: len(first.values) + len(second.values) >= 600, "both read on")
            assert len(set(first.values) | set(second.values)) == len(first.values) + len(second.values)
        until(lambda: shared_out([first], 6), "the rest goes back to the first")
        assert not first.errors


def test_a_member_that_dies_is_replaced_when_its_session_is_over(broker: BrokerProcess) -> None:
    topic, group = create_topic(broker.bootstrap), unique("group")
    with Member(broker.bootstrap, group, topic) as first:
        # A static member sends no LeaveGroup: for the broker, it stops sending requests.
        settings = {"group.instance.id": unique("silent"), "session.timeout.ms": 10_000}
        with Member(broker.bootstrap, group, topic, settings) as silent:
            until(lambda: shared_out([first, silent], 4) and len(silent.owned) == 2, "both own something")
        assert len(first.owned) == 2
        until(lambda: shared_out([first], 4), "its partitions pass on")


def test_a_static_member_comes_back_to_its_partitions_without_a_rebalance(broker: BrokerProcess) -> None:
    topic, group = create_topic(broker.bootstrap), unique("group")
    settings = [{"group.instance.id": unique("static"), "session.timeout.ms": 45_000} for _ in range(2)]
    with Member(broker.bootstrap, group, topic, settings[0]) as first:
        with Member(broker.bootstrap, group, topic, settings[1]) as second:
            until(lambda: shared_out([first, second], 4) and len(second.owned) == 2, "both own something")
            before = set(second.owned)
            disturbed = len(first.revocations)
        with Member(broker.bootstrap, group, topic, settings[1]) as again:
            until(lambda: again.owned == before, "it gets the same partitions")
            assert len(first.revocations) == disturbed


def test_of_two_with_one_instance_id_the_older_is_fenced(broker: BrokerProcess) -> None:
    topic, group = create_topic(broker.bootstrap), unique("group")
    settings = {"group.instance.id": unique("static")}
    with Member(broker.bootstrap, group, topic, settings) as older:
        until(lambda: shared_out([older], 4), "the older owns all")
        with Member(broker.bootstrap, group, topic, settings) as newer:
            until(lambda: any(error.name() == "_FATAL" for error in older.errors), "the older hears of it")
            until(lambda: shared_out([newer], 4), "the newer owns all")


async def test_fifty_members_come_at_once_and_go_at_once(broker: BrokerProcess) -> None:
    topic, group = create_topic(broker.bootstrap, 50), unique("group")
    consumers = [
        AIOKafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            group_id=group,
            session_timeout_ms=30_000,
            heartbeat_interval_ms=500,
            partition_assignment_strategy=(RoundRobinPartitionAssignor,),
            enable_auto_commit=False,
        )
        for _ in range(50)
    ]
    await asyncio.gather(*(consumer.start() for consumer in consumers))
    try:

        async def shared() -> None:
            while sorted(p.partition for c in consumers for p in c.assignment()) != list(range(50)):
                await asyncio.gather(*(c.getmany(timeout_ms=50) for c in consumers))

        async with asyncio.timeout(WAIT_S):
            await shared()
        assert all(len(c.assignment()) == 1 for c in consumers)
        operator = admin(broker.bootstrap)
        described = operator.describe_consumer_groups([group])[group].result(WAIT_S)
        assert len(described.members) == 50
        assert described.state.name == "STABLE"
    finally:
        await asyncio.gather(*(consumer.stop() for consumer in consumers))
    described = operator.describe_consumer_groups([group])[group].result(WAIT_S)
    assert described.state.name == "EMPTY"
