"""Records of consumer groups in `__consumer_offsets`, in Kafka's key and value formats.

Key types: 3 the group epoch, 5 a member's subscription, 6 the epoch of the target assignment, 7 a member's target
assignment, 8 a member's current assignment, 16 the topics that a regular expression matches. Values are version 0. Type
4 (the group's topics, before Kafka 4.1) is skipped when read; only its tombstone is written, with those of the group.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pybroker.broker.coordinators.consumer.group import ConsumerGroup
from pybroker.broker.coordinators.consumer.model import (
    ClassicSide,
    ConsumerMember,
    ConsumerMemberState,
    ConsumerSubscription,
    Partition,
    ResolvedRegex,
)
from pybroker.broker.coordinators.group_base.epoch_kind import Records
from pybroker.broker.coordinators.group_base.record_types import GroupReplay, RecordTypes, with_last
from pybroker.native import Uuid, encode
from pybroker.protocol import messages as m
from pybroker.protocol.versioned import encode_versioned

GROUP, TOPICS, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX = 3, 4, 5, 6, 7, 8, 16
STABLE_BEFORE = 1
"""The number of STABLE in records of earlier pybroker versions."""

TYPES = RecordTypes(
    {
        GROUP: "ConsumerGroupMetadata",
        MEMBER: "ConsumerGroupMemberMetadata",
        TARGET_EPOCH: "ConsumerGroupTargetAssignmentMetadata",
        TARGET: "ConsumerGroupTargetAssignmentMember",
        CURRENT: "ConsumerGroupCurrentMemberAssignment",
        REGEX: "ConsumerGroupRegularExpression",
    }
)
_key = TYPES.encode_key


# --- writing ----------------------------------------------------------------------------------------------------------


def changes(before: ConsumerGroup | None, after: ConsumerGroup) -> Records:
    """Return the records that change the state in the log from `before` to `after`. `before` None: no records yet."""
    group_id = after.group_id
    old = ConsumerGroup(group_id) if before is None else before
    records: Records = {}
    for member_id in old.members.keys() - after.members.keys():
        # Write tombstones in Kafka's order. When Kafka replays a member's other records, it requires the member's
        # subscription.
        records[_key(CURRENT, group_id, member_id)] = None
        records[_key(TARGET, group_id, member_id)] = None
        records[_key(MEMBER, group_id, member_id)] = None
    for member_id, member in after.members.items():
        known = old.members.get(member_id)
        if known is not member and (known is None or known.subscription != member.subscription):
            records[_key(MEMBER, group_id, member_id)] = _subscription(member.subscription)
    for regex in old.regexes.keys() - after.regexes.keys():
        records[_key(REGEX, group_id, regex)] = None
    for regex, resolved in after.regexes.items():
        was = old.regexes.get(regex)
        if was is None or was.topics != resolved.topics:
            records[_key(REGEX, group_id, regex)] = _resolved(resolved)
    if before is None or (before.epoch, before.topics_hash) != (after.epoch, after.topics_hash):
        records[_key(GROUP, group_id)] = encode_versioned(
            m.ConsumerGroupMetadataValue(after.epoch, after.topics_hash), 0
        )
    for member_id in after.members:
        target = after.target.get(member_id)
        if old.target.get(member_id) != target:
            # None: the member left and rejoined in the same write, and has no target assignment yet.
            records[_key(TARGET, group_id, member_id)] = None if target is None else _target(target)
    if before is None or before.target_epoch != after.target_epoch:
        records[_key(TARGET_EPOCH, group_id)] = encode_versioned(
            m.ConsumerGroupTargetAssignmentMetadataValue(after.target_epoch, after.target_timestamp_ms), 0
        )
    for member_id, member in after.members.items():
        known = old.members.get(member_id)
        if known is not member and (known is None or _progress(known) != _progress(member)):
            records[_key(CURRENT, group_id, member_id)] = _current(member)
    return records


def tombstones(group: ConsumerGroup) -> Records:
    """Return tombstones for all records of a group."""
    group_id = group.group_id
    gone = changes(group, ConsumerGroup(group_id))
    return with_last(gone, _key(TARGET_EPOCH, group_id), _topics_key(group_id), _key(GROUP, group_id))


def _topics_key(group_id: str) -> bytes:
    """Encode a ConsumerGroupPartitionMetadataKey, whose layout is that of the group's key."""
    return struct.pack(">h", TOPICS) + encode(m.ConsumerGroupMetadataKey(group_id), 0)


def _progress(member: ConsumerMember) -> tuple[object, ...]:
    return member.epoch, member.previous_epoch, member.state, member.assigned, member.revoking


def _subscription(subscription: ConsumerSubscription) -> bytes:
    classic = subscription.classic
    return encode_versioned(
        m.ConsumerGroupMemberMetadataValue(
            subscription.instance_id,
            subscription.rack_id,
            subscription.client_id,
            subscription.client_host,
            list(subscription.topics),
            # As in Kafka: empty, not null, without a regular expression.
            subscription.regex or "",
            subscription.rebalance_timeout_ms,
            subscription.assignor,
            None
            if classic is None
            else m.ConsumerGroupMemberMetadataValue_ClassicMemberMetadata(
                classic.session_timeout_ms,
                [
                    m.ConsumerGroupMemberMetadataValue_ClassicProtocol(name, metadata)
                    for name, metadata in classic.protocols
                ],
            ),
        ),
        0,
    )


def _resolved(resolved: ResolvedRegex) -> bytes:
    return encode_versioned(
        m.ConsumerGroupRegularExpressionValue(list(resolved.topics), resolved.version, resolved.timestamp_ms), 0
    )


def by_topic(partitions: Iterable[Partition]) -> Iterator[tuple[Uuid, list[int]]]:
    """Yield topics with their partition numbers, both sorted."""
    found: dict[Uuid, list[int]] = {}
    for topic_id, index in sorted(partitions):
        found.setdefault(topic_id, []).append(index)
    yield from found.items()


def _target(target: frozenset[Partition]) -> bytes:
    return encode_versioned(
        m.ConsumerGroupTargetAssignmentMemberValue(
            [
                m.ConsumerGroupTargetAssignmentMemberValue_TopicPartition(topic_id, indexes)
                for topic_id, indexes in by_topic(target)
            ]
        ),
        0,
    )


def _current(member: ConsumerMember) -> bytes:
    return encode_versioned(
        m.ConsumerGroupCurrentMemberAssignmentValue(
            member.epoch, member.previous_epoch, member.state, _held(member.assigned), _held(member.revoking)
        ),
        0,
    )


def _held(held: Mapping[Partition, int]) -> list[m.ConsumerGroupCurrentMemberAssignmentValue_TopicPartitions]:
    return [
        m.ConsumerGroupCurrentMemberAssignmentValue_TopicPartitions(
            topic_id, indexes, [held[topic_id, index] for index in indexes]
        )
        for topic_id, indexes in by_topic(held)
    ]


# --- reading ----------------------------------------------------------------------------------------------------------


class StoredConsumerGroup(GroupReplay):
    """The latest records of one consumer group."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(TYPES, MEMBER, TARGET, CURRENT, REGEX)

    def group(self, group_id: str) -> ConsumerGroup | None:
        """Return the group; None if it was deleted."""
        header = self._alone.get(GROUP)
        if header is None:
            return None
        group = ConsumerGroup(group_id)
        group.epoch, group.topics_hash = header.epoch, header.metadata_hash
        target_epoch = self._alone.get(TARGET_EPOCH)
        if target_epoch is not None:
            group.target_epoch = target_epoch.assignment_epoch
            group.target_timestamp_ms = target_epoch.assignment_timestamp
        for regex, stored in self._named[REGEX].items():
            group.regexes[regex] = ResolvedRegex(tuple(stored.topics), stored.version, stored.timestamp)
        for member_id, stored in self._named[MEMBER].items():
            if (target := self._named[TARGET].get(member_id)) is not None:
                group.target[member_id] = frozenset(
                    (topic.topic_id, index) for topic in target.topic_partitions for index in topic.partitions
                )
            group.members[member_id] = _member(member_id, stored, self._named[CURRENT].get(member_id))
        for member in list(group.members.values()):
            group.put(member)
        group.note_subscribed()
        return group


def _member(member_id: str, stored: Any, current: Any) -> ConsumerMember:
    classic = stored.classic_member_metadata
    subscription = ConsumerSubscription(
        stored.client_id,
        stored.client_host,
        stored.instance_id,
        stored.rack_id,
        tuple(stored.subscribed_topic_names),
        stored.subscribed_topic_regex or None,
        stored.rebalance_timeout_ms,
        stored.server_assignor,
        # Kafka stores this default. It has no protocols, and no classic member has an empty list.
        None
        if classic is None or not classic.supported_protocols
        else ClassicSide(
            classic.session_timeout_ms,
            tuple((protocol.name, protocol.metadata) for protocol in classic.supported_protocols),
        ),
    )
    if current is None:
        return ConsumerMember(member_id, subscription)
    return ConsumerMember(
        member_id,
        subscription,
        current.member_epoch,
        current.previous_member_epoch,
        _state(current),
        _holding(current.assigned_partitions, current.member_epoch),
        _holding(current.partitions_pending_revocation, current.member_epoch),
    )


def _state(current: Any) -> ConsumerMemberState:
    """Return the state of a stored member.

    Earlier pybroker versions numbered the states from 1. Members in state UNREVOKED, and no others, have partitions to
    revoke, which tells the two numberings apart.
    """
    if current.partitions_pending_revocation:
        return ConsumerMemberState.UNREVOKED
    if current.state in (ConsumerMemberState.STABLE, STABLE_BEFORE):
        return ConsumerMemberState.STABLE
    # Also for an unknown state of a later release. The member's next step computes the partitions to revoke.
    return ConsumerMemberState.UNRELEASED


def _holding(stored: Iterable[Any], epoch: int) -> dict[Partition, int]:
    held: dict[Partition, int] = {}
    for topic in stored:
        since = topic.assignment_epochs
        for place, index in enumerate(topic.partitions):
            # Kafka before 4.2 stores no epoch per partition.
            held[topic.topic_id, index] = since[place] if since and place < len(since) else epoch
    return held
