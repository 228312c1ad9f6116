"""Refused requests of administrators and for offsets: names, negative numbers, empty and null lists, duplicates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pybroker.native import Uuid
from pybroker.protocol import messages as m
from tests.against_kafka.conftest import Story
from tests.against_kafka.sides import Side

NAMES = ("", ".", "..", "a b", "a/b", "x" * 249, "x" * 250)
TOPIC, BROKER = 2, 4
UNKNOWN_ID = Uuid(0, 9)


def creating(*topics: m.CreateTopicsRequest_CreatableTopic, validate: bool = False) -> m.CreateTopicsRequest:
    return m.CreateTopicsRequest(topics=list(topics), timeout_ms=10_000, validate_only=validate)


def new(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    assigned: dict[int, list[int]] | None = None,
    configs: dict[str, str | None] | None = None,
) -> m.CreateTopicsRequest_CreatableTopic:
    return m.CreateTopicsRequest_CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[
            m.CreateTopicsRequest_CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in (assigned or {}).items()
        ],
        configs=[
            m.CreateTopicsRequest_CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
        ],
    )


def creations(side: Side, name: str) -> None:
    """Not compared: the configs in responses, which differ by broker; and ids of validated topics, some of which Kafka
    creates."""
    side.topic(name, 1)
    (own,) = {broker.node_id for broker in side.quietly(m.MetadataRequest(topics=[]), 12).brokers}
    shapes: list[dict[str, Any]] = [
        *({"partitions": partitions} for partitions in (0, -1, -2, -(2**31))),
        *({"replicas": replicas} for replicas in (0, -1, -2, 2, 2**15 - 1)),
        {"partitions": -1, "replicas": -1},
        {"partitions": 1, "replicas": 1, "assigned": {0: [own]}},
        *(
            {"partitions": -1, "replicas": -1, "assigned": assigned}
            for assigned in (
                {0: [own]},
                {0: []},
                {1: [own]},
                {0: [own], 2: [own]},
                {-1: [own]},
                {0: [own, own]},
                {0: [own + 9]},
                {0: [-1]},
            )
        ),
        *(
            {"configs": configs}
            for configs in (
                {"retention.ms": None},
                {"retention.ms": ""},
                {"retention.ms": "-2"},
                {"retention.ms": " 5 "},
                {"no.such.config": "1"},
                {"": "1"},
                {"cleanup.policy": "neither"},
                {"min.insync.replicas": "0"},
            )
        ),
    ]
    for version in (2, 4, 7):
        for validate in (True, False):
            but = ("configs", "topic_id") if validate else ("configs",)
            side.ask(creating(validate=validate), version)
            for number, shape in enumerate(shapes):
                made = new(f"{name}-{version}-{number}-{validate}", **shape)
                side.ask(creating(made, validate=validate), version, but=but)
            for wrong in (*NAMES, name):
                # The longest name can be created once.
                if validate or len(wrong) != 249:
                    side.ask(creating(new(wrong), validate=validate), version, but=but)
            twice, once = new(f"{name}-twice-{version}"), new(f"{name}-once-{version}-{validate}")
            side.ask(creating(twice, twice, once, validate=validate), version, but=but)


def deletions(side: Side, name: str) -> None:
    """A topic that is named once by name and once by id is not compared: both brokers refuse it, Kafka once and
    pybroker for each occurrence."""
    known = side.topic(name, 1)
    side.ask(m.DeleteTopicsRequest(topic_names=[], timeout_ms=10_000), 3)
    side.ask(m.DeleteTopicsRequest(topics=[], timeout_ms=10_000), 6)
    for wrong in (*NAMES, "not-" + name):
        side.ask(m.DeleteTopicsRequest(topic_names=[wrong], timeout_ms=10_000), 3)
        side.ask(
            m.DeleteTopicsRequest(topics=[m.DeleteTopicsRequest_DeleteTopicState(name=wrong)], timeout_ms=10_000), 6
        )
    state = m.DeleteTopicsRequest_DeleteTopicState
    for states in (
        [state()],
        [state(topic_id=UNKNOWN_ID)],
        [state(name=name, topic_id=known)],
        [state(name=name), state(name=name)],
        [state(topic_id=known), state(topic_id=known)],
        [state(topic_id=known)],
        [state(topic_id=known)],
    ):
        side.ask(m.DeleteTopicsRequest(topics=states, timeout_ms=10_000), 6)


def more_partitions(side: Side, name: str) -> None:
    side.topic(name, 2)
    (own,) = {broker.node_id for broker in side.quietly(m.MetadataRequest(topics=[]), 12).brokers}

    def to(
        topic: str, count: int, *assigned: list[int], some: bool = False
    ) -> m.CreatePartitionsRequest_CreatePartitionsTopic:
        rows = [m.CreatePartitionsRequest_CreatePartitionsAssignment(broker_ids=brokers) for brokers in assigned]
        return m.CreatePartitionsRequest_CreatePartitionsTopic(
            name=topic, count=count, assignments=rows if rows or some else None
        )

    for validate in (True, False):
        for topics in (
            [],
            *([to(name, count)] for count in (-1, 0, 1, 2, 2**31 - 1)),
            *([to(wrong, 3)] for wrong in (*NAMES, "not-" + name)),
            [to(name, 3, some=True)],
            [to(name, 3, [own], [own])],
            [to(name, 4, [own])],
            [to(name, 3, [own + 9])],
            [to(name, 3, [-1])],
            [to(name, 3, [own, own])],
            [to(name, 3, [])],
            [to(name, 3), to(name, 4)],
            [to(name, 3, [own])],
        ):
            request = m.CreatePartitionsRequest(topics=topics, timeout_ms=10_000, validate_only=validate)
            side.ask(request, 3)


def metadata(side: Side, name: str) -> None:
    """Requests for all topics are not compared, because each broker has its own. Neither is a topic without name and
    id, for which Kafka fails with UNKNOWN_SERVER_ERROR. Only Kafka returns the operations that are permitted on unknown
    topics."""
    known = side.topic(name, 1)
    row = m.MetadataRequest_MetadataRequestTopic
    brokers = ("brokers", "cluster_id", "controller_id")
    for version in (1, 4, 9, 12, 13):
        for topics in ([], [row(name=name), row(name=name)], *([row(name=wrong)] for wrong in (*NAMES, "not-" + name))):
            request = m.MetadataRequest(topics=topics, allow_auto_topic_creation=False)
            side.ask(request, version, but=(*brokers, "leader_id", "replica_nodes", "isr_nodes"))
    for version in (12, 13):
        for topic in (
            row(name=None, topic_id=known),
            row(name=None, topic_id=UNKNOWN_ID),
            row(name=name, topic_id=known),
            row(name=name, topic_id=UNKNOWN_ID),
        ):
            request = m.MetadataRequest(topics=[topic], allow_auto_topic_creation=False)
            side.ask(request, version, but=(*brokers, "leader_id", "replica_nodes", "isr_nodes"))
    where = ("leader_id", "replica_nodes", "isr_nodes")
    for topics in ([name], [name, name], *([wrong] for wrong in (*NAMES[1:], "not-" + name))):
        asked = [m.DescribeTopicPartitionsRequest_TopicRequest(name=topic) for topic in topics]
        but = where if name in topics else (*where, "topic_authorized_operations")
        for limit in (1, 0, -1):
            request = m.DescribeTopicPartitionsRequest(topics=asked, response_partition_limit=limit)
            side.ask(request, 0, but=but)


def configs(side: Side, name: str) -> None:
    """Nonexistent operations are not compared: Kafka fails with UNKNOWN_SERVER_ERROR, pybroker returns
    INVALID_REQUEST."""
    side.topic(name, 1)

    def altering(kind: int, resource: str, *changes: tuple[str, int, str | None]) -> m.IncrementalAlterConfigsRequest:
        rows = [
            m.IncrementalAlterConfigsRequest_AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ]
        one = m.IncrementalAlterConfigsRequest_AlterConfigsResource(
            resource_type=kind, resource_name=resource, configs=rows
        )
        return m.IncrementalAlterConfigsRequest(resources=[one])

    def described(kind: int, resource: str, keys: list[str] | None) -> m.DescribeConfigsRequest:
        one = m.DescribeConfigsRequest_DescribeConfigsResource(
            resource_type=kind, resource_name=resource, configuration_keys=keys
        )
        return m.DescribeConfigsRequest(resources=[one])

    def replacing(resource: str) -> m.AlterConfigsRequest:
        rows = [m.AlterConfigsRequest_AlterableConfig(name="retention.ms", value="5")]
        one = m.AlterConfigsRequest_AlterConfigsResource(resource_type=TOPIC, resource_name=resource, configs=rows)
        return m.AlterConfigsRequest(resources=[one])

    side.ask(m.IncrementalAlterConfigsRequest(), 1)
    side.ask(m.AlterConfigsRequest(), 2)
    side.ask(m.DescribeConfigsRequest(), 4)
    for wrong in (*NAMES, "not-" + name):
        side.ask(altering(TOPIC, wrong, ("retention.ms", 0, "5")), 1)
        side.ask(replacing(wrong), 2)
        side.ask(described(TOPIC, wrong, ["retention.ms"]), 4)
    for changes in (
        [],
        [("retention.ms", 0, None)],
        [("retention.ms", 0, "")],
        [("retention.ms", 0, "x")],
        [("retention.ms", 2, "5")],
        [("retention.ms", 3, "5")],
        [("retention.ms", 1, "5")],
        [("retention.ms", 0, "5"), ("retention.ms", 0, "6")],
        [("no.such.config", 0, "5")],
        [("no.such.config", 1, None)],
        [("", 0, "5")],
        [("cleanup.policy", 2, "neither")],
        [("cleanup.policy", 2, "compact")],
        [("cleanup.policy", 2, "compact")],
        [("cleanup.policy", 3, "delete")],
        [("cleanup.policy", 3, "delete")],
        [("cleanup.policy", 3, "compact")],
    ):
        side.ask(altering(TOPIC, name, *changes), 1)
        side.settled(name)
        side.ask(described(TOPIC, name, ["retention.ms", "cleanup.policy"]), 4, but=("config_source",))
    for keys in ([""], ["no.such.config"], ["retention.ms", "retention.ms"]):
        side.ask(described(TOPIC, name, keys), 4, but=("config_source",))
    for kind in (0, 1, 3, 5, 99, -1):
        side.ask(altering(kind, name, ("retention.ms", 0, "5")), 1)
        side.ask(described(kind, name, ["retention.ms"]), 4)
    for resource in ("x", "99", "-1", " 0"):
        side.ask(altering(BROKER, resource, ("log.cleaner.threads", 0, "1")), 1)
        side.ask(described(BROKER, resource, ["log.cleaner.threads"]), 4)


def offsets(side: Side, name: str) -> None:
    """Send a commit of a client that is not a member."""
    side.topic(name, 1)

    def committing(
        topic: str,
        index: int,
        offset: int,
        *,
        text: str | None = "",
        group: str = name,
        epoch: int = -1,
        generation: int = -1,
    ) -> m.OffsetCommitRequest:
        partition = m.OffsetCommitRequest_OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_metadata=text, committed_leader_epoch=epoch
        )
        rows = [m.OffsetCommitRequest_OffsetCommitRequestTopic(name=topic, partitions=[partition])]
        return m.OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=generation, topics=rows)

    for version in (2, 5, 9):
        side.ask(m.OffsetCommitRequest(group_id=name), version)
        for index, offset in ((0, 5), (0, -1), (0, -2), (0, -(2**63)), (9, 5), (-1, 5)):
            side.ask(committing(name, index, offset), version)
        for text in (None, "x" * 4096, "x" * 4097):
            side.ask(committing(name, 0, 5, text=text), version)
        for wrong in (*NAMES, "not-" + name):
            side.ask(committing(wrong, 0, 5), version)
        for group in ("", "g" * 300, "no spaces"):
            side.ask(committing(name, 0, 5, group=group), version)
        for generation in (0, 5, -2):
            side.ask(committing(name, 0, 5, generation=generation), version)
            side.ask(committing(name, 0, 5, generation=generation, group=f"{name}-{version}-{generation}"), version)
    for epoch in (0, 7, -2):
        side.ask(committing(name, 0, 6, epoch=epoch), 9)
    topics = m.OffsetFetchRequest_OffsetFetchRequestTopics
    for asked in (None, [], *([topics(name=wrong, partition_indexes=[0])] for wrong in (*NAMES, "not-" + name))):
        for group in (name, "not-" + name, ""):
            one = m.OffsetFetchRequest_OffsetFetchRequestGroup(group_id=group, topics=asked)
            side.ask(m.OffsetFetchRequest(groups=[one]), 9)
    for indexes in ([], [0, 0], [9], [-1]):
        one = m.OffsetFetchRequest_OffsetFetchRequestGroup(
            group_id=name, topics=[topics(name=name, partition_indexes=indexes)]
        )
        side.ask(m.OffsetFetchRequest(groups=[one]), 9)
    side.ask(m.OffsetFetchRequest(groups=[]), 9)
    side.ask(m.OffsetFetchRequest(groups=[one, one]), 9)
    for group in (name, "not-" + name, ""):
        for topic, index in ((name, 9), (name, -1), ("not-" + name, 0), ("a b", 0), (name, 0)):
            partition = m.OffsetDeleteRequest_OffsetDeleteRequestPartition(partition_index=index)
            rows = [m.OffsetDeleteRequest_OffsetDeleteRequestTopic(name=topic, partitions=[partition])]
            side.ask(m.OffsetDeleteRequest(group_id=group, topics=rows), 0)
        side.ask(m.OffsetDeleteRequest(group_id=group), 0)


def groups(side: Side, name: str) -> None:
    """Duplicates are not compared: pybroker responds once to each name, so that a few bytes cause no large response."""
    for version in (3, 4, 6):
        for kind in (0, 1, 2, 3, -1):
            for key in ("", name, "g" * 300):
                if version < 4:
                    side.ask(m.FindCoordinatorRequest(key=key, key_type=kind), version, but=("node_id",))
                else:
                    request = m.FindCoordinatorRequest(coordinator_keys=[key], key_type=kind)
                    side.ask(request, version, but=("node_id",))
    side.ask(m.FindCoordinatorRequest(coordinator_keys=[], key_type=0), 6)
    side.ask(m.FindCoordinatorRequest(coordinator_keys=[name, name], key_type=0), 6, but=("node_id",))
    side.ask(m.DeleteGroupsRequest(groups_names=[name, name]), 2)
    for ids in ([], [""], [name]):
        for version in (0, 5, 6):
            side.ask(m.DescribeGroupsRequest(groups=ids), version)
        side.ask(m.DeleteGroupsRequest(groups_names=ids), 2)
        side.ask(m.ConsumerGroupDescribeRequest(group_ids=ids), 1)
        side.ask(m.DescribeTransactionsRequest(transactional_ids=ids), 0)
    for states, kinds in ((["NoSuch"], []), ([""], []), ([], ["nosuch"]), ([], [""]), (["dead"], ["CLASSIC"])):
        side.ask(m.ListGroupsRequest(states_filter=states, types_filter=kinds), 5)
    for states, pattern in ((["NoSuch"], None), ([""], None), (["Ongoing"], "["), (["Ongoing"], "")):
        side.ask(m.ListTransactionsRequest(state_filters=states, transactional_id_pattern=pattern), 2)


def partitions(side: Side, name: str) -> None:
    """An election in a partition that is named twice is not compared: pybroker returns one result."""
    side.topic(name, 1)
    (own,) = {broker.node_id for broker in side.quietly(m.MetadataRequest(topics=[]), 12).brokers}
    side.ask(m.DescribeProducersRequest(), 0)
    side.ask(m.ElectLeadersRequest(topic_partitions=[], timeout_ms=5_000), 2)
    side.ask(m.AlterPartitionReassignmentsRequest(timeout_ms=5_000), 1)
    side.ask(m.ListPartitionReassignmentsRequest(topics=[], timeout_ms=5_000), 0)
    side.ask(m.ListPartitionReassignmentsRequest(topics=None, timeout_ms=5_000), 0)
    chosen = ((name, [0]), (name, []), (name, [9]), (name, [-1]), (name, [0, 0]))
    for topic, indexes in (*chosen, *((wrong, [0]) for wrong in (*NAMES, "not-" + name))):
        producers = [m.DescribeProducersRequest_TopicRequest(name=topic, partition_indexes=indexes)]
        side.ask(m.DescribeProducersRequest(topics=producers), 0)
        for kind in (0, 1, 2, -1):
            elected = [m.ElectLeadersRequest_TopicPartitions(topic=topic, partitions=indexes[:1])]
            side.ask(m.ElectLeadersRequest(election_type=kind, topic_partitions=elected, timeout_ms=5_000), 2)
        for replicas in (None, [], [own], [own + 9], [-1], [own, own]):
            moved = [
                m.AlterPartitionReassignmentsRequest_ReassignableTopic(
                    name=topic,
                    partitions=[
                        m.AlterPartitionReassignmentsRequest_ReassignablePartition(
                            partition_index=index, replicas=replicas
                        )
                        for index in indexes
                    ],
                )
            ]
            side.ask(m.AlterPartitionReassignmentsRequest(topics=moved, timeout_ms=5_000), 1)
        listed = [
            m.ListPartitionReassignmentsRequest_ListPartitionReassignmentsTopics(name=topic, partition_indexes=indexes)
        ]
        side.ask(m.ListPartitionReassignmentsRequest(topics=listed, timeout_ms=5_000), 0)


@pytest.mark.parametrize(
    "story", [creations, deletions, more_partitions, metadata, configs, offsets, groups, partitions]
)
def test_refusals_as_kafka(compare: Callable[[Story], None], story: Story) -> None:
    """The same answers, refusals included."""
    compare(story)
