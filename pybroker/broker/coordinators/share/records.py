"""Records of share groups in `__consumer_offsets`, in Kafka's key and value formats.

Key types: 10 a member's subscription, 11 the group epoch, 12 the epoch of the target assignment, 13 a member's target
assignment, 14 a member's current assignment, 15 partitions with a share state. Values are version 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pybroker.broker.coordinators.consumer.records import by_topic
from pybroker.broker.coordinators.group_base.epoch_kind import Records
from pybroker.broker.coordinators.group_base.record_types import GroupReplay, RecordTypes, with_last
from pybroker.broker.coordinators.share.group import Partition, ShareGroup, ShareGroupMember, TopicState
from pybroker.native import Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.versioned import encode_versioned

MEMBER, GROUP, TARGET_EPOCH, TARGET, CURRENT, STATES = 10, 11, 12, 13, 14, 15
STABLE = 0
"""The state of every member. Earlier pybroker versions wrote 1; it is not read."""

TYPES = RecordTypes(
    {
        MEMBER: "ShareGroupMemberMetadata",
        GROUP: "ShareGroupMetadata",
        TARGET_EPOCH: "ShareGroupTargetAssignmentMetadata",
        TARGET: "ShareGroupTargetAssignmentMember",
        CURRENT: "ShareGroupCurrentMemberAssignment",
        STATES: "ShareGroupStatePartitionMetadata",
    }
)
_key = TYPES.encode_key


# --- writing ----------------------------------------------------------------------------------------------------------


def changes(before: ShareGroup | None, after: ShareGroup) -> Records:
    """Return the records that change the state in the log from `before` to `after`. `before` None: no records yet."""
    group_id = after.group_id
    old = ShareGroup(group_id) if before is None else before
    records: Records = {}
    for member_id in old.members.keys() - after.members.keys():
        records[_key(CURRENT, group_id, member_id)] = None
        records[_key(TARGET, group_id, member_id)] = None
        records[_key(MEMBER, group_id, member_id)] = None
    for member_id, member in after.members.items():
        known = old.members.get(member_id)
        if known is None or _says(known) != _says(member):
            records[_key(MEMBER, group_id, member_id)] = encode_versioned(
                m.ShareGroupMemberMetadataValue(
                    member.rack_id, member.client_id, member.client_host, list(member.topics)
                ),
                0,
            )
    if before is None or (before.epoch, before.topics_hash) != (after.epoch, after.topics_hash):
        records[_key(GROUP, group_id)] = encode_versioned(m.ShareGroupMetadataValue(after.epoch, after.topics_hash), 0)
    for member_id in after.members:
        target = after.target.get(member_id)
        if old.target.get(member_id) != target:
            # None: the member left and rejoined in the same write, and has no target assignment yet.
            records[_key(TARGET, group_id, member_id)] = None if target is None else _target(target)
    if before is None or before.target_epoch != after.target_epoch:
        records[_key(TARGET_EPOCH, group_id)] = encode_versioned(
            m.ShareGroupTargetAssignmentMetadataValue(after.target_epoch, after.target_timestamp_ms), 0
        )
    for member_id, member in after.members.items():
        known = old.members.get(member_id)
        if known is None or _progress(known) != _progress(member):
            records[_key(CURRENT, group_id, member_id)] = _current(member)
    if _states(old) != _states(after) or before is None:
        records[_key(STATES, group_id)] = _encoded_states(after) if any(_states(after)) else None
        if before is None and not any(_states(after)):
            del records[_key(STATES, group_id)]
    return records


def tombstones(group: ShareGroup) -> Records:
    """Return tombstones for all records of a group."""
    group_id = group.group_id
    gone = changes(group, ShareGroup(group_id))
    return with_last(gone, *(_key(kind, group_id) for kind in (TARGET_EPOCH, STATES, GROUP)))


def _says(member: ShareGroupMember) -> tuple[object, ...]:
    return member.rack_id, member.client_id, member.client_host, member.topics


def _progress(member: ShareGroupMember) -> tuple[object, ...]:
    return member.epoch, member.previous_epoch, member.assigned


def _states(group: ShareGroup) -> tuple[object, ...]:
    return group.initializing, group.initialized, group.deleting


def _target(target: frozenset[Partition]) -> bytes:
    topics = [m.ShareGroupTargetAssignmentMemberValue_TopicPartition(*topic) for topic in by_topic(target)]
    return encode_versioned(m.ShareGroupTargetAssignmentMemberValue(topics), 0)


def _current(member: ShareGroupMember) -> bytes:
    held = [m.ShareGroupCurrentMemberAssignmentValue_TopicPartitions(*topic) for topic in by_topic(member.assigned)]
    return encode_versioned(
        m.ShareGroupCurrentMemberAssignmentValue(member.epoch, member.previous_epoch, STABLE, held), 0
    )


def _encoded_states(group: ShareGroup) -> bytes:
    def infos(states: Mapping[Uuid, TopicState]) -> list[m.ShareGroupStatePartitionMetadataValue_TopicPartitionsInfo]:
        return [
            m.ShareGroupStatePartitionMetadataValue_TopicPartitionsInfo(topic_id, topic.name, sorted(topic.partitions))
            for topic_id, topic in states.items()
        ]

    return encode_versioned(
        m.ShareGroupStatePartitionMetadataValue(
            infos(group.initializing),
            infos(group.initialized),
            [m.ShareGroupStatePartitionMetadataValue_TopicInfo(*topic) for topic in group.deleting.items()],
        ),
        0,
    )


# --- reading ----------------------------------------------------------------------------------------------------------


class StoredShareGroup(GroupReplay):
    """The latest records of one share group."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(TYPES, MEMBER, TARGET, CURRENT)

    def group(self, group_id: str) -> ShareGroup | None:
        """Return the group; None if it was deleted."""
        stored = self._alone.get(GROUP)
        if stored is None:
            return None
        group = ShareGroup(group_id)
        group.epoch, group.topics_hash = stored.epoch, stored.metadata_hash
        target = self._alone.get(TARGET_EPOCH)
        if target is not None:
            group.target_epoch, group.target_timestamp_ms = target.assignment_epoch, target.assignment_timestamp
        states = self._alone.get(STATES)
        if states is not None:
            group.initializing = _topic_states(states.initializing_topics)
            group.initialized = _topic_states(states.initialized_topics)
            group.deleting = {topic.topic_id: topic.topic_name for topic in states.deleting_topics}
        for member_id, metadata in self._named[MEMBER].items():
            member = ShareGroupMember(
                member_id,
                metadata.client_id,
                metadata.client_host,
                metadata.rack_id,
                tuple(metadata.subscribed_topic_names),
            )
            current = self._named[CURRENT].get(member_id)
            if current is not None:
                member = msgspec.structs.replace(
                    member,
                    epoch=current.member_epoch,
                    previous_epoch=current.previous_member_epoch,
                    assigned=_partitions(current.assigned_partitions),
                )
            group.members[member_id] = member
            if (assigned := self._named[TARGET].get(member_id)) is not None:
                group.target[member_id] = _partitions(assigned.topic_partitions)
        return group


def _topic_states(stored: Iterable[Any]) -> dict[Uuid, TopicState]:
    return {topic.topic_id: TopicState(topic.topic_name, frozenset(topic.partitions)) for topic in stored}


def _partitions(stored: Iterable[Any]) -> frozenset[Partition]:
    return frozenset((topic.topic_id, index) for topic in stored for index in topic.partitions)
