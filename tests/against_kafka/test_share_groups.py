"""Share groups (KIP-932, KIP-1206, KIP-1222)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from pybroker import native
from pybroker.native import Uuid
from pybroker.protocol import messages as m
from tests.against_kafka.conftest import INTERVAL_MS, Story
from tests.against_kafka.sides import Side
from tests.groups.kit import WAIT_S
from tests.groups.requests import commit, consumer_join, fetch, join, with_group_settings

LEAVES = -1
ACCEPT, RELEASE, REJECT, RENEW, GAP = 1, 2, 3, 4, 0
LATER = ("start_offset", "lag")
"""The offset that Kafka shows comes from the state that it stored last, which may be old; this is the current state."""
EPOCHS = ("group_epoch", "assignment_epoch")
"""The number of a topic's partitions that a group discovers at a time is random."""
Acks = dict[int, list[tuple[int, int, int]]]
"""Partition → (first offset, last offset, acknowledgement)."""


def beat(group: str, member: str, epoch: int, topics: list[str] | None = None, **more: Any) -> Any:
    return m.ShareGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=epoch, subscribed_topic_names=topics, **more
    )


def take(
    group: str, member: str, epoch: int, topic: Uuid | None = None, acks: Acks | None = None, **more: Any
) -> m.ShareFetchRequest:
    """Send a ShareFetch for partition 0, and for the partitions with acknowledgements."""
    partitions = [
        m.ShareFetchRequest_FetchPartition(
            partition_index=index,
            acknowledgement_batches=[
                m.ShareFetchRequest_AcknowledgementBatch(
                    first_offset=first, last_offset=last, acknowledge_types=[kind]
                )
                for first, last, kind in batches
            ],
        )
        for index, batches in (acks or {0: []}).items()
    ]
    topics = [] if topic is None else [m.ShareFetchRequest_FetchTopic(topic_id=topic, partitions=partitions)]
    fields: dict[str, Any] = {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 100,
                              "batch_size": 100}  # fmt: skip
    return m.ShareFetchRequest(
        group_id=group, member_id=member, share_session_epoch=epoch, topics=topics, **{**fields, **more}
    )


def acknowledge(group: str, member: str, epoch: int, topic: Uuid, acks: Acks) -> m.ShareAcknowledgeRequest:
    partitions = [
        m.ShareAcknowledgeRequest_AcknowledgePartition(
            partition_index=index,
            acknowledgement_batches=[
                m.ShareAcknowledgeRequest_AcknowledgementBatch(
                    first_offset=first, last_offset=last, acknowledge_types=[kind]
                )
                for first, last, kind in batches
            ],
        )
        for index, batches in acks.items()
    ]
    topics = [m.ShareAcknowledgeRequest_AcknowledgeTopic(topic_id=topic, partitions=partitions)]
    return m.ShareAcknowledgeRequest(group_id=group, member_id=member, share_session_epoch=epoch, topics=topics)


def write(side: Side, topic: str, count: int, batches: int = 1) -> None:
    """Write records to partition 0."""
    for _ in range(batches):
        records = native.build_batch([(None, b"value")] * count, 1_700_000_000_000)
        data = m.ProduceRequest_PartitionProduceData(index=0, records=records)
        rows = [m.ProduceRequest_TopicProduceData(name=topic, partition_data=[data])]
        answer = side.quietly(m.ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=rows), 11)
        assert answer.responses[0].partition_responses[0].error_code == 0


def from_the_start(side: Side, group: str) -> None:
    """Let the group read records that are older than the group."""
    side.ask(with_group_settings(group, share_auto_offset_reset="earliest"), 1)


def member_of(side: Side, group: str, member: str, topic: str) -> int:
    """Join until the member has partitions; return its epoch."""
    answer = side.until(
        lambda: beat(group, member, 0, [topic]),
        1,
        lambda answer: bool(answer.assignment and answer.assignment.topic_partitions),
    )
    return int(answer.member_epoch)


def got(side: Side, request: m.ShareFetchRequest, version: int = 1) -> Any:
    """Send a ShareFetch and compare the response without the bytes of the records."""
    answer = side.quietly(request, version)
    side.note("ShareFetch", answer, but=("records",))
    side.note("records", [len(one.records or b"") for topic in answer.responses for one in topic.partitions])
    return answer


def taken(side: Side, group: str, member: str, topic: Uuid, epoch: int = 0) -> int:
    """Fetch the available records; return the number of ShareFetches. The first one only names the partitions."""
    give_up = time.monotonic() + WAIT_S
    while True:
        answer = side.quietly(take(group, member, epoch, topic if epoch == 0 else None), 1)
        assert answer.error_code == 0, answer
        assert time.monotonic() < give_up, answer
        epoch += 1
        rows = [row for one in answer.responses for row in one.partitions if row.acquired_records]
        if rows:
            side.note("acquired", rows, but=("records",))
            return epoch


def described(side: Side, group: str, topic: str, *, but: tuple[str, ...] = ()) -> None:
    """Send the requests with which administrators see the group. Kafka does not answer about partitions that do not
    exist."""
    side.ask(m.ShareGroupDescribeRequest(group_ids=[group], include_authorized_operations=True), 1, but=but)
    row = m.DescribeShareGroupOffsetsRequest_DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=[0])
    for topics in ([row], None):
        wanted = m.DescribeShareGroupOffsetsRequest_DescribeShareGroupOffsetsRequestGroup(
            group_id=group, topics=topics
        )
        side.ask(m.DescribeShareGroupOffsetsRequest(groups=[wanted]), 1, but=but)
    answer = side.quietly(m.ListGroupsRequest(), 5)
    side.note("ListGroups", [one for one in answer.groups if one.group_id == group])


def members(side: Side, name: str) -> None:
    side.topic(name, 3)
    side.ask(beat(name, "one", 0, [name]), 1)
    epoch = member_of(side, name, "one", name)
    side.ask(m.ShareGroupDescribeRequest(group_ids=[name]), 1)
    side.ask(beat(name, "one", epoch), 1)
    side.ask(beat(name, "one", epoch, [name]), 1)
    side.ask(beat(name, "one", epoch + 1), 1)
    side.ask(beat(name, "one", epoch - 1), 1)
    side.ask(beat(name, "nobody", epoch), 1)
    side.ask(beat(f"{name}-x", "one", epoch), 1)
    # A hash determines which of the two members gets one partition, and which gets two.
    side.ask(beat(name, "two", 0, [name]), 1, but=("assignment",))
    side.ask(beat(name, "one", epoch), 1, but=("assignment",))
    side.ask(m.ShareGroupDescribeRequest(group_ids=[name]), 1, but=("assignment",))
    side.ask(m.DescribeGroupsRequest(groups=[name]), 6)
    side.ask(m.ConsumerGroupDescribeRequest(group_ids=[name]), 1)
    side.ask(m.DeleteGroupsRequest(groups_names=[name]), 2)
    side.ask(beat(name, "two", LEAVES), 1)
    side.ask(beat(name, "two", LEAVES), 1)
    side.ask(beat(name, "one", LEAVES), 1)
    side.ask(m.ShareGroupDescribeRequest(group_ids=[name, f"{name}-x", ""]), 1)
    side.ask(m.DeleteGroupsRequest(groups_names=[name]), 2)
    side.ask(m.ShareGroupDescribeRequest(group_ids=[name]), 1)


def assigned_in_intervals(side: Side, name: str) -> None:
    """Make changes during the assignment interval."""
    side.topic(name, 2)
    side.topic(f"{name}-more", 1)
    epoch = member_of(side, name, "one", name)
    side.ask(with_group_settings(name, share_assignment_interval_ms=INTERVAL_MS), 1)
    side.ask(beat(name, "one", epoch), 1)
    second = side.ask(beat(name, "two", 0, [name]), 1).member_epoch
    side.ask(m.ShareGroupDescribeRequest(group_ids=[name]), 1, but=EPOCHS)
    side.ask(beat(name, "one", epoch), 1)
    side.ask(beat(name, "two", second), 1)
    side.ask(beat(name, "one", epoch, [f"{name}-more"]), 1)
    side.ask(beat(name, "one", epoch), 1)
    side.ask(m.ShareGroupDescribeRequest(group_ids=[name]), 1, but=EPOCHS)
    side.ask(beat(name, "one", LEAVES), 1)
    side.ask(beat(name, "two", second), 1)
    side.ask(m.ShareGroupDescribeRequest(group_ids=[name]), 1, but=EPOCHS)
    side.ask(beat(name, "two", LEAVES), 1)
    side.ask(m.ShareGroupDescribeRequest(group_ids=[name]), 1, but=EPOCHS)


def forms(side: Side, name: str) -> None:
    """Requests that are refused for every client."""
    topic = side.topic(name, 1)
    for more in (
        {"group_id": ""},
        {"member_id": ""},
        {"member_id": "x" * 40},
        {"rack_id": ""},
        {"subscribed_topic_names": None},
        {"subscribed_topic_names": []},
        {"member_epoch": -2},
        {"member_epoch": 7},
        {"member_epoch": LEAVES},
    ):
        request = beat(name, "one", 0, [name])
        for field, value in more.items():
            setattr(request, field, value)
        side.ask(request, 1)
    group = f"{name}-group"
    # Kafka knows no partitions of groups without members, and returns UNKNOWN_SERVER_ERROR.
    member_of(side, group, "one", name)
    for request in (
        take(group, "", 0, topic),
        take(group, "one", 5, topic),
        take(group, "one", -1, topic),
        take(group, "one", -1),
        take(group, "one", 0, topic, {0: [(0, 0, ACCEPT)]}),
        take(group, "one", 0, topic, batch_size=0),
    ):
        got(side, request)
    for request in (
        acknowledge(group, "", 1, topic, {0: [(0, 0, ACCEPT)]}),
        acknowledge(group, "nobody", 1, topic, {0: [(0, 0, ACCEPT)]}),
        acknowledge(group, "nobody", 0, topic, {0: [(0, 0, ACCEPT)]}),
        acknowledge(group, "nobody", -1, topic, {0: [(0, 0, ACCEPT)]}),
    ):
        side.ask(request, 1)


def deliveries(side: Side, name: str) -> None:
    topic = side.topic(name, 1)
    write(side, name, 10)
    from_the_start(side, name)
    member_of(side, name, "one", name)
    session = taken(side, name, "one", topic)
    described(side, name, name, but=LATER)
    side.ask(acknowledge(name, "one", session, topic, {0: [(0, 1, ACCEPT), (2, 2, REJECT), (3, 4, RELEASE)]}), 1)
    # A released record is delivered again, with a higher count.
    session = taken(side, name, "one", topic, session + 1)
    got(side, take(name, "one", session, topic, {0: [(3, 4, ACCEPT)]}))
    described(side, name, name, but=LATER)
    side.ask(acknowledge(name, "one", session + 7, topic, {0: [(5, 5, ACCEPT)]}), 1)
    got(side, take(name, "one", session + 7, topic))
    # This is the last request of the session: acquired records are released.
    side.ask(acknowledge(name, "one", LEAVES, topic, {0: [(7, 7, ACCEPT)]}), 1)
    described(side, name, name, but=LATER)
    side.ask(beat(name, "one", LEAVES), 1)
    described(side, name, name, but=LATER)


def wrong_acknowledgements(side: Side, name: str) -> None:
    """Acknowledge offsets that the member has not acquired, reversed ranges, offsets beyond the end, and an unknown
    type."""
    topic = side.topic(name, 2)
    write(side, name, 10)
    from_the_start(side, name)
    member_of(side, name, "one", name)
    session = taken(side, name, "one", topic)
    for acks in (
        {0: [(0, 1, ACCEPT)]},
        {0: [(0, 1, ACCEPT)]},
        {0: [(9, 8, ACCEPT)]},
        {0: [(9, 20, ACCEPT)]},
        {0: [(5, 5, 9)]},
        {0: [(5, 5, -1)]},
        {0: [(6, 6, ACCEPT), (5, 5, ACCEPT)]},
        # The member has fetched nothing from this partition: Kafka does not know it, and in pybroker its records are
        # not the member's.
        {0: [(8, 8, GAP)]},
    ):
        answer = side.ask(acknowledge(name, "one", session, topic, acks), 1)
        session += answer.error_code == 0


def offsets(side: Side, name: str) -> None:
    """Administrative requests for offsets."""
    side.topic(name, 2)
    write(side, name, 5)
    member_of(side, name, "one", name)

    def altered(group: str, topic_name: str, *rows: tuple[int, int]) -> m.AlterShareGroupOffsetsRequest:
        partitions = [
            m.AlterShareGroupOffsetsRequest_AlterShareGroupOffsetsRequestPartition(
                partition_index=index, start_offset=offset
            )
            for index, offset in rows
        ]
        row = m.AlterShareGroupOffsetsRequest_AlterShareGroupOffsetsRequestTopic(
            topic_name=topic_name, partitions=partitions
        )
        return m.AlterShareGroupOffsetsRequest(group_id=group, topics=[row])

    def deleted(group: str, topic_name: str) -> m.DeleteShareGroupOffsetsRequest:
        row = m.DeleteShareGroupOffsetsRequest_DeleteShareGroupOffsetsRequestTopic(topic_name=topic_name)
        return m.DeleteShareGroupOffsetsRequest(group_id=group, topics=[row])

    side.ask(altered(name, name, (0, 3)), 0)
    side.ask(deleted(name, name), 0)
    side.quietly(beat(name, "one", LEAVES), 1)
    side.ask(altered(name, name, (0, 3), (9, 1)), 0)
    side.ask(altered(name, "no-such-topic", (0, 3)), 0)
    side.ask(altered("", name, (0, 3)), 0)
    described(side, name, name, but=EPOCHS)
    side.ask(deleted(name, "no-such-topic"), 0)
    side.ask(deleted(f"{name}-x", name), 0)
    side.ask(deleted(name, name), 0)
    described(side, name, name, but=EPOCHS)
    # The share state is deleted, and Kafka does not resolve the topic's id.
    side.ask(deleted(name, name), 0, but=("topic_id",))
    side.ask(altered(f"{name}-new", name, (0, 1)), 0)
    described(side, f"{name}-new", name, but=EPOCHS)


def of_another_kind(side: Side, name: str) -> None:
    """Send requests for share groups to a group of another type."""
    side.topic(name, 1)
    member_of(side, name, "one", name)
    side.ask(join(name, topic=name), 9)
    side.ask(consumer_join(name, "one", name), 1)
    side.ask(commit(name, name, {0: 1}), 9)
    side.ask(fetch(name, name, (0,)), 9)
    side.ask(beat(name, "one", LEAVES), 1)
    side.ask(consumer_join(name, "one", name), 1)
    side.ask(commit(name, name, {0: 1}), 9)
    side.ask(m.DeleteGroupsRequest(groups_names=[name]), 2)


@pytest.mark.parametrize(
    "story",
    [members, assigned_in_intervals, forms, deliveries, wrong_acknowledgements, offsets, of_another_kind],
)
def test_what_kafka_answers(compare: Callable[[Story], None], story: Story) -> None:
    compare(story)
