"""What is stored in `__consumer_offsets`, in Kafka's own key and value formats (OffsetCommitKey/Value,
GroupMetadataKey/Value).

Keys start with a 16-bit type: 0 and 1 committed offset, 2 group metadata; higher types belong to group kinds that this
coordinator does not run, and are passed over. Values start with their version; 0 to 4 are read and 4 is written.
Version 4 is flexible. Besides Kafka's tag 0 (the topic's id) it carries two tags of ours, which Kafka's readers skip:

    OffsetCommitValue   10001  int64   the time this offset expires, where an old client asked for its own retention
    GroupMetadataValue  10000  count, then (compact name, 16-byte id)*   topics that existed when the generation formed
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from pybroker.native import Uuid
from pybroker.protocol.primitives import BytesReader, BytesWriter, Malformed

OFFSET_KEY_TYPES = (0, 1)
GROUP_KEY_TYPE = 2
VALUE_VERSION = 4
TOPIC_ID_TAG = 0
FORMED_TOPICS_TAG = 10_000
EXPIRE_TIMESTAMP_TAG = 10_001

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_KEY_HEAD = struct.Struct(">hh")
_OFFSET_HEAD = struct.Struct(">hqi")


@dataclass(frozen=True, slots=True)
class OffsetKey:
    """Whose offset: the format names the topic, the value carries its id."""

    group: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class GroupKey:
    """Which group."""

    group: str


@dataclass(frozen=True, slots=True)
class OffsetValue:
    """A committed offset as stored."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    topic_id: Uuid | None = None
    """None in values that Kafka wrote before version 4."""


@dataclass(frozen=True, slots=True)
class MemberValue:
    """One member of a stored generation."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupValue:
    """A generation as stored."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp_ms: int
    """−1 when not known."""
    members: tuple[MemberValue, ...]
    formed_topics: dict[str, Uuid] = field(default_factory=dict)


Key = OffsetKey | GroupKey


def encode_offset_key(key: OffsetKey) -> bytes:
    """OffsetCommitKey, type 1."""
    group, topic = key.group.encode(), key.topic.encode()
    return b"".join((_KEY_HEAD.pack(1, len(group)), group, _INT16.pack(len(topic)), topic, _INT32.pack(key.partition)))


def encode_group_key(group: str) -> bytes:
    """GroupMetadataKey, type 2."""
    return BytesWriter().int16(GROUP_KEY_TYPE).string(group).finish()


def decode_key(data: bytes) -> Key | None:
    """The key, or None for a type that is not ours. Raises Malformed."""
    reader = BytesReader(data)
    kind = reader.int16()
    if kind in OFFSET_KEY_TYPES:
        return OffsetKey(reader.string(), reader.string(), reader.int32())
    if kind == GROUP_KEY_TYPE:
        return GroupKey(reader.string())
    return None


def encode_offset_value(value: OffsetValue) -> bytes:
    """OffsetCommitValue version 4. Every commit comes through here, so the usual one is packed at once."""
    head = _OFFSET_HEAD.pack(VALUE_VERSION, value.offset, value.leader_epoch)
    if not value.metadata and value.topic_id is not None and value.expire_timestamp_ms is None:
        # Empty metadata; one tag: 0, of 16 bytes.
        return b"%b\x01%b\x01\x00\x10%b" % (
            head,
            _INT64.pack(value.commit_timestamp_ms),
            value.topic_id.bytes,
        )
    tags: dict[int, bytes] = {}
    if value.topic_id is not None:
        tags[TOPIC_ID_TAG] = value.topic_id.bytes
    if value.expire_timestamp_ms is not None:
        tags[EXPIRE_TIMESTAMP_TAG] = _INT64.pack(value.expire_timestamp_ms)
    return BytesWriter().raw(head).compact_string(value.metadata).int64(value.commit_timestamp_ms).tags(tags).finish()


def decode_offset_value(data: bytes) -> OffsetValue:
    """OffsetCommitValue versions 0 to 4. Raises Malformed."""
    reader = BytesReader(data)
    version = _version(reader)
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else -1
    metadata = reader.compact_string() if version >= 4 else reader.string()
    commit_timestamp_ms = reader.int64()
    expire: int | None = None
    topic_id: Uuid | None = None
    if version == 1:
        stored = reader.int64()
        expire = None if stored == -1 else stored
    if version >= 4:
        tags = reader.tags()
        if TOPIC_ID_TAG in tags:
            topic_id = _uuid(tags[TOPIC_ID_TAG])
        if EXPIRE_TIMESTAMP_TAG in tags:
            expire = BytesReader(tags[EXPIRE_TIMESTAMP_TAG]).int64()
    return OffsetValue(offset, leader_epoch, metadata, commit_timestamp_ms, expire, topic_id)


def encode_group_value(value: GroupValue) -> bytes:
    """GroupMetadataValue version 4."""
    writer = (
        BytesWriter()
        .int16(VALUE_VERSION)
        .compact_string(value.protocol_type)
        .int32(value.generation)
        .compact_string(value.protocol)
        .compact_string(value.leader)
        .int64(value.current_state_timestamp_ms)
        .uvarint(len(value.members) + 1)
    )
    for member in value.members:
        (
            writer.compact_string(member.member_id)
            .compact_string(member.group_instance_id)
            .compact_string(member.client_id)
            .compact_string(member.client_host)
            .int32(member.rebalance_timeout_ms)
            .int32(member.session_timeout_ms)
            .compact_blob(member.subscription)
            .compact_blob(member.assignment)
            .tags({})
        )
    tags: dict[int, bytes] = {}
    if value.formed_topics:
        formed = BytesWriter().uvarint(len(value.formed_topics) + 1)
        for name, topic_id in value.formed_topics.items():
            formed.compact_string(name).raw(topic_id.bytes)
        tags[FORMED_TOPICS_TAG] = formed.finish()
    return writer.tags(tags).finish()


def decode_group_value(data: bytes) -> GroupValue:
    """GroupMetadataValue versions 0 to 4. Raises Malformed."""
    reader = BytesReader(data)
    version = _version(reader)
    flexible = version >= 4
    string = reader.compact_string if flexible else reader.string
    nullable = reader.compact_nullable_string if flexible else reader.nullable_string
    protocol_type = string()
    generation = reader.int32()
    protocol = nullable()
    leader = nullable()
    state_timestamp_ms = reader.int64() if version >= 2 else -1
    count = reader.compact_count(15) if flexible else reader.count(18)
    members = tuple(_member(reader, version) for _ in range(count))
    formed: dict[str, Uuid] = {}
    if flexible:
        tags = reader.tags()
        if FORMED_TOPICS_TAG in tags:
            inner = BytesReader(tags[FORMED_TOPICS_TAG])
            for _ in range(inner.compact_count(17)):
                name = inner.compact_string()
                formed[name] = inner.uuid()
    return GroupValue(protocol_type, generation, protocol, leader, state_timestamp_ms, members, formed)


def _member(reader: BytesReader, version: int) -> MemberValue:
    flexible = version >= 4
    string = reader.compact_string if flexible else reader.string
    nullable = reader.compact_nullable_string if flexible else reader.nullable_string
    blob = reader.compact_blob if flexible else reader.blob
    member_id = string()
    instance_id = nullable() if version >= 3 else None
    client_id = string()
    client_host = string()
    rebalance_timeout_ms = reader.int32() if version >= 1 else -1
    session_timeout_ms = reader.int32()
    subscription = blob()
    assignment = blob()
    if flexible:
        reader.tags()
    if version == 0:
        rebalance_timeout_ms = session_timeout_ms
    return MemberValue(
        member_id,
        instance_id,
        client_id,
        client_host,
        rebalance_timeout_ms,
        session_timeout_ms,
        subscription,
        assignment,
    )


def _version(reader: BytesReader) -> int:
    version = reader.int16()
    if not 0 <= version <= VALUE_VERSION:
        raise Malformed(f"value version {version} is not known")
    return version


def _uuid(data: bytes) -> Uuid:
    if len(data) != 16:
        raise Malformed(f"a topic id of {len(data)} bytes")
    return Uuid.from_bytes(data)
