"""Records of `__consumer_offsets` in Kafka's key and value formats (OffsetCommitKey/Value, GroupMetadataKey/Value).

A key starts with a 16-bit type: 0 and 1 for committed offsets, 2 for group metadata. The `records` modules of
`coordinators/consumer`, `share` and `streams` decode the keys of their groups; keys of other types are skipped. A value
starts with its version. This module reads versions 0 to 4 and writes the versions that Kafka writes: 4 for offsets, 3
for groups.

Version 4 of offsets is flexible. Besides Kafka's tag 0 (the topic id), pybroker writes a tag that Kafka skips
(`native/protocol/schema/stored`): the expiry time, if an old client requests its own retention. Earlier pybroker
versions wrote version 4 of groups, with a tag for the topics that existed when the generation formed.
"""

from __future__ import annotations

import msgspec

from pybroker.broker.coordinators.consumer import records as consumer
from pybroker.broker.coordinators.group_base.group_registry import GroupKind
from pybroker.broker.coordinators.group_base.record_types import RecordTypes
from pybroker.broker.coordinators.share import records as share
from pybroker.broker.coordinators.streams import records as streams
from pybroker.native import Uuid, decode_data, encode, stored_offset
from pybroker.protocol import messages as m
from pybroker.protocol.versioned import decode_versioned, encode_versioned, split_version

OFFSET_KEY_TYPES = (0, 1)
GROUP_KEY_TYPE = 2
GROUP_VALUE_VERSION = 3
NO_TIMESTAMP = -1
_KEY_LAYOUT = 0
"""Both types of keys have the same fields after the type."""


class OffsetKey(msgspec.Struct, frozen=True, gc=False):
    """The key of a committed offset. It contains the topic name; the value contains the topic id."""

    group: str
    topic: str
    partition: int


class GroupKey(msgspec.Struct, frozen=True):
    """The key of a group's metadata."""

    group: str


class OffsetValue(msgspec.Struct, frozen=True, gc=False):
    """The value of a committed offset's record."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    topic_id: Uuid | None = None
    """None in values that Kafka wrote before version 4."""


class MemberValue(msgspec.Struct, frozen=True):
    """One member in the record of a generation."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupValue(msgspec.Struct, frozen=True):
    """The value of a group's record: one generation."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp_ms: int
    """Wall time (ms) of the last state change; −1: not known."""
    members: tuple[MemberValue, ...]
    formed_topics: dict[str, Uuid] = {}
    """Read from records of earlier pybroker versions; no longer written."""


class EpochGroupKey(msgspec.Struct, frozen=True):
    """The key of a record of a consumer, share or streams group."""

    kind: GroupKind
    group: str
    record_type: int
    name: str
    """A member id or a regular expression; empty if the key has neither."""


_EPOCH_GROUPS: tuple[tuple[GroupKind, RecordTypes], ...] = (
    (GroupKind.CONSUMER, consumer.TYPES),
    (GroupKind.STREAMS, streams.TYPES),
    (GroupKind.SHARE, share.TYPES),
)

Key = OffsetKey | GroupKey | EpochGroupKey


def encode_offset_key(key: OffsetKey) -> bytes:
    """Encode an OffsetCommitKey, type 1."""
    return b"\0\1" + encode(m.OffsetCommitKey(key.group, key.topic, key.partition), _KEY_LAYOUT)


def encode_group_key(group: str) -> bytes:
    """Encode a GroupMetadataKey, type 2."""
    return b"\0\2" + encode(m.GroupMetadataKey(group), _KEY_LAYOUT)


def decode_key(data: bytes) -> Key | None:
    """Decode a key; return None for an unsupported type. Raise CodecError."""
    record_type, content = split_version(data)
    if record_type in OFFSET_KEY_TYPES:
        key = decode_data("OffsetCommitKey", _KEY_LAYOUT, content)
        return OffsetKey(key.group, key.topic, key.partition)
    if record_type == GROUP_KEY_TYPE:
        return GroupKey(decode_data("GroupMetadataKey", _KEY_LAYOUT, content).group)
    for kind, types in _EPOCH_GROUPS:
        if record_type in types:
            group, name = types.decode_key(record_type, content)
            return EpochGroupKey(kind, group, record_type, name)
    return None


def encode_offset(key: OffsetKey, value: OffsetValue) -> tuple[bytes, bytes]:
    """Encode an OffsetCommitKey, type 1, and an OffsetCommitValue, version 4.

    One native call does both, because the coordinator writes this record far more often than any other.
    """
    return stored_offset(
        key.group,
        key.topic,
        key.partition,
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp_ms,
        value.expire_timestamp_ms,
        value.topic_id,
    )


def decode_offset_value(data: bytes) -> OffsetValue:
    """Decode an OffsetCommitValue, versions 0 to 4. Raise CodecError."""
    stored = decode_versioned("StoredOffset", data)
    expire = max(stored.expire_timestamp, stored.own_expire_timestamp)
    return OffsetValue(
        stored.offset,
        stored.leader_epoch,
        stored.metadata,
        stored.commit_timestamp,
        None if expire == NO_TIMESTAMP else expire,
        stored.topic_id or None,
    )


def encode_group_value(value: GroupValue) -> bytes:
    """Encode a GroupMetadataValue in version 3, as Kafka does. Tools that read the topic directly support no later
    version."""
    return encode_versioned(
        m.StoredGroup(
            protocol_type=value.protocol_type,
            generation=value.generation,
            protocol=value.protocol,
            leader=value.leader,
            current_state_timestamp=value.current_state_timestamp_ms,
            members=[
                m.StoredGroup_MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.subscription,
                    assignment=member.assignment,
                )
                for member in value.members
            ],
        ),
        GROUP_VALUE_VERSION,
    )


def decode_group_value(data: bytes) -> GroupValue:
    """Decode a GroupMetadataValue, versions 0 to 4. Raise CodecError."""
    stored = decode_versioned("StoredGroup", data)
    return GroupValue(
        stored.protocol_type,
        stored.generation,
        stored.protocol,
        stored.leader,
        stored.current_state_timestamp,
        tuple(map(_member, stored.members)),
        {topic.name: topic.topic_id for topic in stored.formed_topics},
    )


def _member(stored: m.StoredGroup_MemberMetadata) -> MemberValue:
    return MemberValue(
        stored.member_id,
        stored.group_instance_id,
        stored.client_id,
        stored.client_host,
        # Version 0 has a session timeout but no rebalance timeout.
        stored.session_timeout if stored.rebalance_timeout == NO_TIMESTAMP else stored.rebalance_timeout,
        stored.session_timeout,
        stored.subscription,
        stored.assignment,
    )
