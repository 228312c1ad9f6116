"""Requests with null and empty names where the schema permits them: groups, members, topics, transactional ids, users.

Not compared: the aborted transactions of a partition with an error, which are null in pybroker and an empty list in
Kafka; and a transactional id that is named twice, which pybroker describes once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from pybroker.native import Uuid
from pybroker.protocol import messages as m
from tests.against_kafka.conftest import Story
from tests.against_kafka.sides import Side
from tests.against_kafka.test_transactions import add, batch, begun, end, init, write
from tests.groups.requests import beat, commit, consumer_beat, delete_offsets, fetch, join, leave, sync

NULL_OR_EMPTY = (None, "")
ABORTED = ("aborted_transactions",)


def classic_members(side: Side, name: str) -> None:
    topic = side.topic(name, 1)
    for number, (instance, protocol_type) in enumerate(itertools.product(NULL_OR_EMPTY, ("consumer", ""))):
        side.ask(join(f"{name}-{number}", group_instance_id=instance, protocol_type=protocol_type), 5)
    side.ask(join("", topic=name), 9)
    side.ask(join(f"{name}-names", names=("",)), 5)
    side.ask(join(f"{name}-none", names=()), 5)
    member = side.know(side.quietly(join(name, topic=name), 9).member_id, "member")
    generation = side.ask(join(name, member, name), 9).generation_id
    for group, who, instance in itertools.product((name, ""), (member, ""), NULL_OR_EMPTY):
        side.ask(beat(group, who, generation, group_instance_id=instance), 4)
        side.ask(leave(group, "", group_instance_id=instance), 5)
        for kind, protocol in itertools.product((None, "", "consumer"), (None, "", "range")):
            more = {"protocol_type": kind, "protocol_name": protocol, "group_instance_id": instance}
            side.ask(sync(group, who, generation, {}, **more), 5)
        for metadata in NULL_OR_EMPTY:
            request = commit(group, name, {0: 1}, generation, who, metadata=metadata, group_instance_id=instance)
            side.ask(request, 9)
            request = commit(group, "", {0: 1}, generation, who, metadata=metadata, topic_id=topic)
            side.ask(request, 10)
    for group, topic_name in itertools.product((name, ""), (name, "")):
        side.ask(commit(group, topic_name, {0: 1}), 9)
        side.ask(commit(group, topic_name, {0: 1}), 10)
        side.ask(fetch(group, topic_name, (0,)), 9)
        side.ask(fetch(group, topic_name, (0,)), 10)
        side.ask(fetch(group, None), 9)
        side.ask(delete_offsets(group, topic_name, 0), 0)
        for who in NULL_OR_EMPTY:
            side.ask(fetch(group, topic_name, (0,), member_id=who, member_epoch=-1), 9)
            side.ask(fetch(group, topic_name, (0,), member_id=who, member_epoch=1), 9)
    side.ask(leave(name, member), 5)


def groups(side: Side, name: str) -> None:
    for version in (1, 5, 6):
        side.ask(m.DescribeGroupsRequest(groups=["", name]), version)
    for version in (0, 2):
        side.ask(m.DeleteGroupsRequest(groups_names=["", ""]), version)
    for epoch in (0, 1, -1, -2):
        for member in ("", "one"):
            for instance, rack, regex, assignor in itertools.product(*[NULL_OR_EMPTY] * 4):
                request = consumer_beat(
                    f"{name}-{epoch}",
                    member,
                    epoch,
                    instance_id=instance,
                    rack_id=rack,
                    subscribed_topic_regex=regex,
                    server_assignor=assignor,
                )
                side.ask(request, 1)
    side.ask(m.StreamsGroupDescribeRequest(group_ids=["", name]), 0)
    side.ask(m.ShareGroupDescribeRequest(group_ids=["", name]), 1)
    for key, kind in itertools.product(("", ":", "a::0", ":AAAAAAAAAAAAAAAAAAAAAQ:0"), (0, 1, 2)):
        side.ask(m.FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 6, but=("node_id",))
    for key, kind in itertools.product(("",), (0, 1)):
        side.ask(m.FindCoordinatorRequest(key_type=kind, key=key), 3, but=("node_id",))


def topics(side: Side, name: str) -> None:
    known = side.topic(name, 1)
    row = m.DeleteTopicsRequest_DeleteTopicState
    for which, topic_id in itertools.product(NULL_OR_EMPTY, (Uuid.ZERO, Uuid(7, 7))):
        side.ask(m.DeleteTopicsRequest(topics=[row(name=which, topic_id=topic_id)], timeout_ms=10_000), 6)
    side.ask(m.DeleteTopicsRequest(topics=[row(name="", topic_id=known)], timeout_ms=10_000), 6)
    side.ask(m.DeleteTopicsRequest(topic_names=[""], timeout_ms=10_000), 5)
    where = m.ListOffsetsRequest_ListOffsetsTopic(
        name="", partitions=[m.ListOffsetsRequest_ListOffsetsPartition(partition_index=0, timestamp=-1)]
    )
    for version in (4, 9):
        side.ask(m.ListOffsetsRequest(replica_id=-1, topics=[where]), version)
    gone = m.DeleteRecordsRequest_DeleteRecordsTopic(
        name="", partitions=[m.DeleteRecordsRequest_DeleteRecordsPartition(partition_index=0, offset=0)]
    )
    side.ask(m.DeleteRecordsRequest(topics=[gone], timeout_ms=10_000), 2)
    epochs = m.OffsetForLeaderEpochRequest_OffsetForLeaderTopic(
        topic="", partitions=[m.OffsetForLeaderEpochRequest_OffsetForLeaderPartition(partition=0, leader_epoch=0)]
    )
    side.ask(m.OffsetForLeaderEpochRequest(replica_id=-1, topics=[epochs]), 4)
    read = m.FetchRequest_FetchTopic(topic="", partitions=[m.FetchRequest_FetchPartition(partition=0)])
    side.ask(m.FetchRequest(replica_id=-1, topics=[read], max_wait_ms=0, session_epoch=-1), 12, but=ABORTED)
    side.ask(m.FetchRequest(replica_id=-1, topics=[read], max_wait_ms=0, session_epoch=-1), 13, but=ABORTED)
    producers = m.DescribeProducersRequest_TopicRequest(name="", partition_indexes=[0])
    side.ask(m.DescribeProducersRequest(topics=[producers]), 0)
    part = m.DescribeTopicPartitionsRequest_TopicRequest(name="")
    side.ask(m.DescribeTopicPartitionsRequest(topics=[part]), 0)


def transactional_ids(side: Side, name: str) -> None:
    side.topic(name, 1)
    side.ask(init(""), 5)
    side.ask(init("", timeout_ms=0), 0)
    me = begun(side, name)
    for producer in (me, (-1, -1)):
        side.ask(add("", producer, name, 0), 3)
        side.ask(add(name, producer, "", 0), 3)
        for version in (3, 4, 5):
            side.ask(end("", producer), version)
        for group in (name, ""):
            side.ask(
                m.AddOffsetsToTxnRequest(
                    transactional_id="", producer_id=producer[0], producer_epoch=producer[1], group_id=group
                ),
                3,
            )
    side.ask(m.AddOffsetsToTxnRequest(transactional_id=name, producer_id=me[0], producer_epoch=me[1], group_id=""), 3)
    for transactional_id, group, topic, instance in itertools.product(
        (name, ""), (name, ""), (name, ""), NULL_OR_EMPTY
    ):
        part = m.TxnOffsetCommitRequest_TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=3, committed_metadata=None
        )
        request = m.TxnOffsetCommitRequest(
            transactional_id=transactional_id,
            group_id=group,
            producer_id=me[0],
            producer_epoch=me[1],
            group_instance_id=instance,
            topics=[m.TxnOffsetCommitRequest_TxnOffsetCommitRequestTopic(name=topic, partitions=[part])],
        )
        side.ask(request, 3)
    for missing in NULL_OR_EMPTY:
        write(side, missing, name, batch(me, 0))
        write(side, missing, "", batch(me, 0, transactional=False))
    side.ask(m.DescribeTransactionsRequest(transactional_ids=[""]), 0)


def administration(side: Side, name: str) -> None:
    side.topic(name, 1)
    side.ask(m.DescribeUserScramCredentialsRequest(users=[]), 0)
    for user in ("", name):
        row = m.DescribeUserScramCredentialsRequest_UserName(name=user)
        side.ask(m.DescribeUserScramCredentialsRequest(users=[row]), 0)
        gone = m.AlterUserScramCredentialsRequest_ScramCredentialDeletion(name=user, mechanism=1)
        side.ask(m.AlterUserScramCredentialsRequest(deletions=[gone]), 0)
        new = m.AlterUserScramCredentialsRequest_ScramCredentialUpsertion(
            name=user, mechanism=1, iterations=4096, salt=b"", salted_password=b""
        )
        side.ask(m.AlterUserScramCredentialsRequest(upsertions=[new]), 0)
    for kind, owner in itertools.product((None, "", "User"), (None, "", name)):
        request = m.CreateDelegationTokenRequest(owner_principal_type=kind, owner_principal_name=owner)
        side.ask(request, 3, but=("principal_type", "principal_name"))
    for kind, owner in itertools.product(("", "User"), ("", name)):
        owned = m.DescribeDelegationTokenRequest_DescribeDelegationTokenOwner(principal_type=kind, principal_name=owner)
        side.ask(m.DescribeDelegationTokenRequest(owners=[owned]), 3)
    side.ask(m.DescribeDelegationTokenRequest(owners=None), 3)
    elect = m.ElectLeadersRequest_TopicPartitions(topic="", partitions=[0])
    side.ask(m.ElectLeadersRequest(election_type=0, topic_partitions=[elect], timeout_ms=10_000), 2)
    moves = m.ListPartitionReassignmentsRequest_ListPartitionReassignmentsTopics(name="", partition_indexes=[0])
    side.ask(m.ListPartitionReassignmentsRequest(topics=[moves], timeout_ms=10_000), 0)
    side.ask(m.ListPartitionReassignmentsRequest(topics=None, timeout_ms=10_000), 0)
    dirs = m.DescribeLogDirsRequest_DescribableLogDirTopic(topic="", partitions=[0])
    side.ask(m.DescribeLogDirsRequest(topics=[dirs]), 4, but=("log_dir", "total_bytes", "usable_bytes"))


@pytest.mark.parametrize("story", [classic_members, groups, topics, transactional_ids, administration])
def test_as_kafka(compare: Callable[[Story], None], story: Story) -> None:
    compare(story)
