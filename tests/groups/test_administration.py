"""Groups as administrators see and change them."""

from __future__ import annotations

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaException,
    TopicPartition,
)

from tests.conftest import StartBroker
from tests.groups.kit import (
    WAIT_S,
    Member,
    admin,
    again_while_it_moves,
    create_topic,
    fill,
    shared_out,
    unique,
    until,
)
from tests.support.brokers import BrokerProcess


def test_listing_and_describing(broker: BrokerProcess) -> None:
    topic, busy, idle = create_topic(broker.bootstrap), unique("busy"), unique("idle")
    operator = admin(broker.bootstrap)
    with Member(broker.bootstrap, busy, topic, {"client.id": "reader"}) as member:
        until(lambda: shared_out([member], 4), "it owns all")
        Consumer({"bootstrap.servers": broker.bootstrap, "group.id": idle}).commit(
            offsets=[TopicPartition(topic, 0, 1)], asynchronous=False
        )

        def listed(**filters: object) -> dict[str, str]:
            found = operator.list_consumer_groups(**filters).result(WAIT_S)
            assert not found.errors
            return {g.group_id: g.state.name for g in found.valid if g.group_id in (busy, idle)}

        assert listed() == {busy: "STABLE", idle: "EMPTY"}
        assert listed(states={ConsumerGroupState.EMPTY}) == {idle: "EMPTY"}
        assert listed(types={ConsumerGroupType.CLASSIC}) == {busy: "STABLE", idle: "EMPTY"}
        assert listed(types={ConsumerGroupType.CONSUMER}) == {}
        described = operator.describe_consumer_groups([busy, idle], include_authorized_operations=True)
        one = described[busy].result(WAIT_S)
        assert (one.state.name, one.partition_assignor, len(one.members)) == ("STABLE", "range", 1)
        assert one.members[0].client_id == "reader"
        assert {p.partition for p in one.members[0].assignment.topic_partitions} == {0, 1, 2, 3}
        assert {"READ", "DESCRIBE", "DELETE"} <= {o.name for o in one.authorized_operations}
        assert described[idle].result(WAIT_S).members == []


def test_offsets_are_listed_altered_and_deleted_with_the_group(broker: BrokerProcess) -> None:
    topic, group = create_topic(broker.bootstrap), unique("group")
    operator = admin(broker.bootstrap)

    def listed() -> dict[int, int]:
        request = [ConsumerGroupTopicPartitions(group)]
        found = operator.list_consumer_group_offsets(request)[group].result(WAIT_S)
        return {p.partition: p.offset for p in found.topic_partitions or []}

    wanted = [TopicPartition(topic, p, p * 10) for p in range(3)]
    request = [ConsumerGroupTopicPartitions(group, wanted)]
    operator.alter_consumer_group_offsets(request)[group].result(WAIT_S)
    assert listed() == {0: 0, 1: 10, 2: 20}
    with Member(broker.bootstrap, group, topic) as member:
        until(lambda: shared_out([member], 4), "it owns all")
        refused = operator.alter_consumer_group_offsets(request)[group].result(WAIT_S)
        assert {p.error.name() for p in refused.topic_partitions or [] if p.error} == {"UNKNOWN_MEMBER_ID"}
        with pytest.raises(KafkaException) as caught:
            operator.delete_consumer_groups([group])[group].result(WAIT_S)
        assert caught.value.args[0].name() == "NON_EMPTY_GROUP"
    operator.delete_consumer_groups([group])[group].result(WAIT_S)
    with pytest.raises(KafkaException) as caught:
        operator.delete_consumer_groups([group])[group].result(WAIT_S)
    assert caught.value.args[0].name() == "GROUP_ID_NOT_FOUND"
    fill(broker.bootstrap, topic, 4, 5)
    with Member(broker.bootstrap, group, topic) as again:
        until(lambda: len(again.values) == 20, "a new group of the name begins at the start")


def test_the_offsets_topic_can_be_deleted_and_groups_begin_anew(start_broker: StartBroker) -> None:
    """As in Apache Kafka 4, a user who may delete topics may delete internal ones. All groups and offsets are deleted
    with it."""
    broker = start_broker()
    topic, group, idle = create_topic(broker.bootstrap), unique("group"), unique("idle")
    operator = admin(broker.bootstrap)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": idle})
    consumer.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=False)
    with Member(broker.bootstrap, group, topic) as member:
        until(lambda: shared_out([member], 4), "it owns all")
        operator.delete_topics(["__consumer_offsets"])["__consumer_offsets"].result(WAIT_S)
        until(lambda: "__consumer_offsets" in operator.list_topics(timeout=WAIT_S).topics, "it is made anew")

        def members() -> int:
            found = again_while_it_moves(lambda: operator.describe_consumer_groups([group])[group].result(WAIT_S))
            return len(found.members) if found.state is ConsumerGroupState.STABLE else 0

        until(lambda: members() == 1, "it has joined again")
        request = [ConsumerGroupTopicPartitions(idle)]
        found = again_while_it_moves(lambda: operator.list_consumer_group_offsets(request)[idle].result(WAIT_S))
        assert [p.offset for p in found.topic_partitions or [] if p.offset >= 0] == []
        again_while_it_moves(lambda: consumer.commit(offsets=[TopicPartition(topic, 0, 8)], asynchronous=False))
    broker.restart(crash=True)
    later = admin(broker.bootstrap)
    found = again_while_it_moves(lambda: later.list_consumer_group_offsets(request)[idle].result(WAIT_S))
    assert [p.offset for p in found.topic_partitions or []] == [8]
    consumer.close()
