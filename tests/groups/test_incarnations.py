"""A group whose topic is deleted and created again: positions in the old one do not apply to the new one."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import closing
from functools import partial

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import IllegalStateError
from aiokafka.errors import KafkaError as AioKafkaError
from aiokafka.structs import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaException, TopicPartition

from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.groups.consumer_protocol_member import ConsumerProtocolMember, ask, settle
from tests.groups.kit import (
    WAIT_S,
    Member,
    create_topic,
    delete_topic,
    fill,
    unique,
    until,
)
from tests.groups.requests import commit, fetch
from tests.support.brokers import BrokerProcess
from tests.wire.client import WireClient

STEP = 20
"""Records between two commits."""


@pytest.mark.checklist("A28", "D32")
def test_offsets_do_not_pass_to_the_next_topic_of_the_name(broker: BrokerProcess) -> None:
    topic, group = create_topic(broker.bootstrap, 1), unique("group")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 500)], asynchronous=False)
    delete_topic(broker.bootstrap, topic)
    create_topic(broker.bootstrap, 1, topic)
    (found,) = consumer.committed([TopicPartition(topic, 0)], WAIT_S)
    assert found.offset < 0
    consumer.close()


@pytest.mark.checklist("A28", "U6")
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_running_member_cannot_commit_its_old_position(broker: BrokerProcess, assignor: str) -> None:
    topic, group = create_topic(broker.bootstrap, 1), unique("group")
    fill(broker.bootstrap, topic, 1, 100, "old ")
    # A member that sees topics change much later: its commits meanwhile belong to the old incarnation.
    settings = {
        "partition.assignment.strategy": assignor,
        "topic.metadata.refresh.interval.ms": 300_000,
    }
    with Member(broker.bootstrap, group, topic, settings) as member:
        until(lambda: len(member.values) == 100, "the old topic is read")
        member.commit()
        disturbed = len(member.revocations)
        delete_topic(broker.bootstrap, topic)
        create_topic(broker.bootstrap, 1, topic)
        try:
            member.commit([TopicPartition(topic, 0, 100)])
        except KafkaException:
            watcher = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
            (found,) = watcher.committed([TopicPartition(topic, 0)], WAIT_S)
            assert found.offset < 0
            watcher.close()
        else:
            # The member noticed the new topic and joined again in between; then the commit belongs to the new topic.
            assert len(member.revocations) > disturbed

        def commits_again() -> bool:
            try:
                member.commit([TopicPartition(topic, 0, 0)])
            except KafkaException:
                return False
            return True

        # The response makes this client join again; it may commit in the generation that forms then.
        until(commits_again, "the member is not shut out for good")
    fill(broker.bootstrap, topic, 1, 30, "new ")
    with Member(broker.bootstrap, group, topic) as later:
        until(lambda: len(later.values) >= 30, "the new topic is read")
        assert later.values == [f"new 0:{i}" for i in range(30)]


@pytest.mark.slow
@pytest.mark.checklist("A28")
def test_a_running_member_reads_each_new_topic_once(broker: BrokerProcess) -> None:
    """The member's commits count from the first record of each new topic, without a rebalance."""
    topic, group = create_topic(broker.bootstrap, 1), unique("group")
    with Member(broker.bootstrap, group, topic, {"heartbeat.interval.ms": 3_000}) as member:
        fill(broker.bootstrap, topic, 1, 1, "0:")
        until(lambda: len(member.values) == 1, "the first topic is read")
        for life in range(1, 21):
            delete_topic(broker.bootstrap, topic)
            create_topic(broker.bootstrap, 1, topic)
            done: set[int] = set()
            for step in range(5):
                fill(broker.bootstrap, topic, 1, STEP, f"{life}:{step}:")
                until(lambda last=f"{life}:{step}:0:{STEP - 1}": last in member.values, "they are read")
                done |= _commit(member)
            until(lambda known=done: 5 * STEP in known or 5 * STEP in _commit(member), "all of them are committed")
        read = Counter(member.values)
    for life in range(1, 21):
        again = sum(count - 1 for value, count in read.items() if value.startswith(f"{life}:"))
        # The client may join again between two commits.
        assert again <= STEP, f"{again} records of topic {life} were read twice"


@pytest.mark.slow
@pytest.mark.checklist("A28", "U6")
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_automatic_commits_skip_and_repeat_nothing(broker: BrokerProcess, protocol: str) -> None:
    """Twenty re-creations under a member that commits on its own. A record may arrive twice if it was not committed
    yet; the writer waits for the commit of each step, so that is at most one step."""
    topic, group = create_topic(broker.bootstrap, 1), unique("group")
    settings = {"enable.auto.commit": True, "auto.commit.interval.ms": 100, "group.protocol": protocol}
    watcher = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})

    def committed(offset: int) -> bool:
        return watcher.committed([TopicPartition(topic, 0)], WAIT_S)[0].offset == offset

    with closing(watcher), Member(broker.bootstrap, group, topic, settings) as member:
        for life in range(20):
            if life:
                delete_topic(broker.bootstrap, topic)
                create_topic(broker.bootstrap, 1, topic)
            for step in range(1, 4):
                fill(broker.bootstrap, topic, 1, STEP, f"{life}:{step}:")
                until(partial(committed, step * STEP), "the step is committed")
        read = Counter(member.values)
    for life in range(20):
        written = [f"{life}:{step}:0:{index}" for step in range(1, 4) for index in range(STEP)]
        assert not [value for value in written if value not in read], "skipped"
        assert sum(read[value] - 1 for value in written) <= STEP


@pytest.mark.checklist("A28", "D32")
def test_a_refused_commit_does_not_delay_a_revocation(broker: BrokerProcess) -> None:
    """Clients with automatic commits (librdkafka, Java) commit before they confirm a revocation. They repeat a commit
    that gets STALE_MEMBER_EPOCH, and the epoch does not change before they confirm."""
    topic, group = create_topic(broker.bootstrap, 1), unique("group")
    with WireClient(broker.port) as client:
        # FindCoordinator creates the offsets topic.
        client.call(m.FindCoordinatorRequest(coordinator_keys=[group]), 4)
    member = ConsumerProtocolMember(lambda: broker.port, group, "member", (topic,))
    settle(member)
    assert _position(broker, member, topic, 10, leader_epoch=0) is ErrorCode.NONE
    delete_topic(broker.bootstrap, topic)
    create_topic(broker.bootstrap, 1, topic)
    member.beat()
    assert member.told.isdisjoint(member.owned), "the coordinator revokes the old topic"
    for leader_epoch in (0, -1):
        assert _position(broker, member, topic, 10, leader_epoch) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    settle(member)
    assert [index for _, index in member.owned] == [0]
    assert _position(broker, member, topic, 10, leader_epoch=0) is ErrorCode.FENCED_LEADER_EPOCH
    request = fetch(group, topic, [0], member_id="member", member_epoch=member.epoch)
    answer = ask(lambda: broker.port, request, 9, lambda answer: int(answer.groups[0].error_code))
    assert answer.groups[0].topics[0].partitions[0].committed_offset == -1
    assert _position(broker, member, topic, 1, leader_epoch=-1) is ErrorCode.NONE
    member.leave()


def _position(
    broker: BrokerProcess, member: ConsumerProtocolMember, topic: str, offset: int, leader_epoch: int
) -> ErrorCode:
    """Commit an offset of partition 0 by the topic's name; return the partition's error."""
    request = commit(member.group, topic, {0: offset}, member.epoch, member.member_id, leader_epoch=leader_epoch)
    answer = ask(lambda: broker.port, request, 9, lambda answer: int(answer.topics[0].partitions[0].error_code))
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def _commit(member: Member) -> set[int]:
    """Return the committed offset; None if there is none."""
    try:
        return set(member.commit().values())
    except KafkaException:
        return set()


@pytest.mark.checklist("A28")
async def test_aiokafka_joins_again_when_its_position_is_refused(broker: BrokerProcess) -> None:
    topic, group = create_topic(broker.bootstrap, 1), unique("group")
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        group_id=group,
        enable_auto_commit=False,
        heartbeat_interval_ms=300,
        metadata_max_age_ms=300_000,
    )
    await consumer.start()
    partition = AioPartition(topic, 0)
    try:
        async with asyncio.timeout(WAIT_S):
            await _assigned(consumer)
        await consumer.commit({partition: 100})
        generation = consumer._coordinator.generation
        await asyncio.to_thread(delete_topic, broker.bootstrap, topic)
        await asyncio.to_thread(create_topic, broker.bootstrap, 1, topic)
        try:
            await consumer.commit({partition: 101})
        except AioKafkaError:
            assert await consumer.committed(partition) is None
        else:
            # The member noticed the new topic and joined again in between; then the commit belongs to the new topic.
            assert consumer._coordinator.generation > generation

        async def commits_again() -> None:
            while True:
                # The client requests metadata only every few minutes; until then it does not see the topic.
                await consumer._client.force_metadata_update()
                await consumer.getmany(timeout_ms=50)
                try:
                    await consumer.commit({partition: 0})
                except (AioKafkaError, IllegalStateError):
                    continue
                return

        async with asyncio.timeout(WAIT_S):
            await commits_again()
        assert await consumer.committed(partition) == 0
    finally:
        await consumer.stop()


async def _assigned(consumer: AIOKafkaConsumer) -> None:
    while not consumer.assignment():
        await consumer.getmany(timeout_ms=50)
