"""Short functions for the requests of group members."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from pybroker.native import Uuid
from pybroker.protocol import messages as m

LONG_MS = 300_000


def subscription(*topics: str) -> bytes:
    """A classic consumer's subscription metadata."""
    said = struct.pack(">hi", 0, len(topics))
    for topic in topics:
        said += struct.pack(">h", len(topic)) + topic.encode()
    return said + struct.pack(">i", -1)


def join(group: str, member: str = "", topic: str = "t", **more: Any) -> m.JoinGroupRequest:
    """Return a JoinGroup of a consumer."""
    names = more.pop("names", ("range",))
    fields = {
        "group_id": group,
        "session_timeout_ms": LONG_MS,
        "rebalance_timeout_ms": LONG_MS,
        "member_id": member,
        "protocol_type": "consumer",
        "protocols": [
            m.JoinGroupRequest_JoinGroupRequestProtocol(name=name, metadata=subscription(topic)) for name in names
        ],
    }
    return m.JoinGroupRequest(**{**fields, **more})


def sync(group: str, member: str, generation: int, given: dict[str, bytes] | None = None, **more: Any) -> Any:
    """Return a SyncGroup of a consumer."""
    assignments = [
        m.SyncGroupRequest_SyncGroupRequestAssignment(member_id=one, assignment=what)
        for one, what in (given or {}).items()
    ]
    fields = {"protocol_type": "consumer", "protocol_name": "range", "assignments": assignments}
    return m.SyncGroupRequest(group_id=group, generation_id=generation, member_id=member, **{**fields, **more})


def beat(group: str, member: str, generation: int, **more: Any) -> m.HeartbeatRequest:
    """Return a Heartbeat of a classic member."""
    return m.HeartbeatRequest(group_id=group, member_id=member, generation_id=generation, **more)


def leave(group: str, *members: str, **more: Any) -> m.LeaveGroupRequest:
    """Return a LeaveGroup of several members."""
    gone = [m.LeaveGroupRequest_MemberIdentity(member_id=one, **more) for one in members]
    return m.LeaveGroupRequest(group_id=group, members=gone)


def commit(
    group: str,
    topic: str,
    offsets: dict[int, int],
    generation: int = -1,
    member: str = "",
    *,
    metadata: str | None = "",
    topic_id: Uuid = Uuid.ZERO,
    leader_epoch: int = -1,
    **more: Any,
) -> m.OffsetCommitRequest:
    """Return an OffsetCommit for one topic."""
    partitions = [
        m.OffsetCommitRequest_OffsetCommitRequestPartition(
            partition_index=index,
            committed_offset=offset,
            committed_leader_epoch=leader_epoch,
            committed_metadata=metadata,
        )
        for index, offset in offsets.items()
    ]
    topics = [m.OffsetCommitRequest_OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=partitions)]
    return m.OffsetCommitRequest(
        group_id=group, generation_id_or_member_epoch=generation, member_id=member, topics=topics, **more
    )


def fetch(group: str, topic: str | None, indexes: Iterable[int] = (), **more: Any) -> m.OffsetFetchRequest:
    """Return an OffsetFetch for one group; None: for all its topics."""
    topics = None
    if topic is not None:
        topic_id = more.pop("topic_id", Uuid.ZERO)
        topics = [
            m.OffsetFetchRequest_OffsetFetchRequestTopics(
                name=topic, topic_id=topic_id, partition_indexes=list(indexes)
            )
        ]
    return m.OffsetFetchRequest(
        groups=[m.OffsetFetchRequest_OffsetFetchRequestGroup(group_id=group, topics=topics, **more)]
    )


def delete_offsets(group: str, topic: str, *indexes: int) -> m.OffsetDeleteRequest:
    """Return an OffsetDelete for one topic."""
    partitions = [m.OffsetDeleteRequest_OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
    return m.OffsetDeleteRequest(
        group_id=group, topics=[m.OffsetDeleteRequest_OffsetDeleteRequestTopic(name=topic, partitions=partitions)]
    )


def with_group_settings(group: str, **settings: str) -> m.IncrementalAlterConfigsRequest:
    """Return the request that sets settings of a group. In a name, _ replaces the dot."""
    configs = [
        m.IncrementalAlterConfigsRequest_AlterableConfig(
            name=name.replace("_", "."), config_operation=0, value=value
        )
        for name, value in settings.items()
    ]
    resource = m.IncrementalAlterConfigsRequest_AlterConfigsResource(
        resource_type=32, resource_name=group, configs=configs
    )
    return m.IncrementalAlterConfigsRequest(resources=[resource])


def consumer_beat(group: str, member: str, epoch: int = 0, **more: Any) -> m.ConsumerGroupHeartbeatRequest:
    """Return a ConsumerGroupHeartbeat; without `more`, it changes nothing."""
    return m.ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch, **more)


def consumer_join(group: str, member: str, *topics: str, **more: Any) -> m.ConsumerGroupHeartbeatRequest:
    """Return the first heartbeat of a member."""
    fields: dict[str, Any] = {
        "rebalance_timeout_ms": LONG_MS,
        "subscribed_topic_names": list(topics),
        "topic_partitions": [],
    }
    return consumer_beat(group, member, **{**fields, **more})


def owned(topic_id: Uuid, *indexes: int) -> list[m.ConsumerGroupHeartbeatRequest_TopicPartitions]:
    """Return the partitions of one topic that a member reads."""
    return [m.ConsumerGroupHeartbeatRequest_TopicPartitions(topic_id=topic_id, partitions=list(indexes))]
