"""The stored form of groups and offsets, against bytes that Kafka 4.4's own classes wrote."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.broker.coordinators.consumer import records as consumer
from pybroker.broker.coordinators.consumer.model import ConsumerMemberState
from pybroker.broker.coordinators.group.loading import LoadedGroups
from pybroker.broker.coordinators.group.records import (
    EpochGroupKey,
    GroupKey,
    GroupValue,
    MemberValue,
    OffsetKey,
    OffsetValue,
    decode_group_value,
    decode_key,
    decode_offset_value,
    encode_group_key,
    encode_group_value,
    encode_offset,
    encode_offset_key,
)
from pybroker.broker.coordinators.group.subscription import subscribed_topics
from pybroker.broker.coordinators.group_base.group_registry import GroupKind
from pybroker.broker.coordinators.shards.hashing import GROUPS_REMEMBERED_MAX, partition_for
from pybroker.native import CodecError, StoredRecord, Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.versioned import encode_versioned

OFFSET_VALUES = {
    0: "0000000000000000002a00036dc3bc0000018bcfe56800",
    1: "0001000000000000002a00036dc3bc0000018bcfe568000000018bcfe58f0f",
    2: "0002000000000000002a00036dc3bc0000018bcfe56800",
    3: "0003000000000000002a0000000500036dc3bc0000018bcfe56800",
    4: "0004000000000000002a00000005046dc3bc0000018bcfe5680001001000000000000000010000000000000002",
}

GROUP_VALUES = {
    0: "00000008636f6e73756d657200000007000572616e67650003612d31000000010003612d31000161000a2f3132372e302e302e31"
    "000027100000000201020000000103",
    1: "00010008636f6e73756d657200000007000572616e67650003612d31000000010003612d31000161000a2f3132372e302e302e31"
    "0000ea60000027100000000201020000000103",
    2: "00020008636f6e73756d657200000007000572616e67650003612d310000018bcfe56801000000010003612d31000161000a2f31"
    "32372e302e302e310000ea60000027100000000201020000000103",
    3: "00030008636f6e73756d657200000007000572616e67650003612d310000018bcfe56801000000010003612d3100016900016100"
    "0a2f3132372e302e302e310000ea60000027100000000201020000000103",
    4: "000409636f6e73756d6572000000070672616e676504612d310000018bcfe568010204612d31026902610b2f3132372e302e302e"
    "310000ea600000271003010202030000",
}


def offset_value(version: int) -> OffsetValue:
    return OffsetValue(
        42,
        5 if version >= 3 else -1,
        "mü",
        1_700_000_000_000,
        1_700_000_009_999 if version == 1 else None,
        Uuid(1, 2) if version >= 4 else None,
    )


def group_value(version: int) -> GroupValue:
    member = MemberValue(
        "a-1",
        "i" if version >= 3 else None,
        "a",
        "/127.0.0.1",
        60_000 if version >= 1 else 10_000,
        10_000,
        b"\x01\x02",
        b"\x03",
    )
    return GroupValue("consumer", 7, "range", "a-1", 1_700_000_000_001 if version >= 2 else -1, (member,))


ORDERS_3 = OffsetKey("g", "orders", 3)


def test_keys_are_kafkas() -> None:
    assert encode_offset_key(ORDERS_3).hex() == "000100016700066f726465727300000003"
    assert encode_offset(ORDERS_3, offset_value(4))[0] == encode_offset_key(ORDERS_3)
    assert encode_group_key("g").hex() == "0002000167"
    assert decode_key(bytes.fromhex("000000016700066f726465727300000003")) == OffsetKey("g", "orders", 3)
    assert decode_key(encode_group_key("g")) == GroupKey("g")
    assert decode_key(b"\x00\x03\x00\x01g") == EpochGroupKey(GroupKind.CONSUMER, "g", 3, "")
    assert decode_key(b"\x00\x05\x00\x01g\x00\x01m") == EpochGroupKey(GroupKind.CONSUMER, "g", 5, "m")
    assert decode_key(b"\x00\x04\x00\x01g") is None  # Kafka has not written this type since 4.1.
    assert decode_key(b"\x00\x0b\x00\x01g") == EpochGroupKey(GroupKind.SHARE, "g", 11, "")
    assert decode_key(b"\x00\x12\x00\x01g") is None  # This is a streams group's record of a release before 4.1.


@pytest.mark.parametrize("version", OFFSET_VALUES)
def test_offset_values_of_all_versions_are_read(version: int) -> None:
    assert decode_offset_value(bytes.fromhex(OFFSET_VALUES[version])) == offset_value(version)


@pytest.mark.parametrize("version", GROUP_VALUES)
def test_group_values_of_all_versions_are_read(version: int) -> None:
    assert decode_group_value(bytes.fromhex(GROUP_VALUES[version])) == group_value(version)


@pytest.mark.checklist(247)
def test_values_are_written_in_the_versions_that_kafka_writes() -> None:
    assert encode_offset(ORDERS_3, offset_value(4))[1].hex() == OFFSET_VALUES[4]
    assert encode_group_value(group_value(3)).hex() == GROUP_VALUES[3]
    plain = OffsetValue(42, 5, "", 1_700_000_000_000, None, Uuid(1, 2))
    assert encode_offset(ORDERS_3, plain)[1].hex() == OFFSET_VALUES[4].replace("046dc3bc", "01")


@given(
    st.text(),
    st.integers(0, 2**31 - 1),
    st.none() | st.text(),
    st.lists(st.tuples(st.text(), st.none() | st.text(), st.binary(), st.binary()), max_size=4),
)
def test_group_values_survive(
    protocol_type: str,
    generation: int,
    protocol: str | None,
    members: list[tuple[str, str | None, bytes, bytes]],
) -> None:
    value = GroupValue(
        protocol_type,
        generation,
        protocol,
        None,
        -1,
        tuple(MemberValue(who, i, "c", "/h", 1, 2, s, a) for who, i, s, a in members),
    )
    assert decode_group_value(encode_group_value(value)) == value


def test_topics_that_a_value_of_version_4_names_are_read() -> None:
    old = m.StoredGroup("consumer", 7, "range", "a-1", 5, [], [m.StoredGroup_FormedTopic("orders", Uuid(1, 2))])
    value = GroupValue("consumer", 7, "range", "a-1", 5, (), {"orders": Uuid(1, 2)})
    assert decode_group_value(encode_versioned(old, 4)) == value


@given(
    st.builds(OffsetKey, st.text(), st.text(), st.integers(0, 2**31 - 1)),
    st.integers(0, 2**62),
    st.text() | st.just("ä" * 20_000),
    st.none() | st.integers(0, 2**62),
    st.none() | st.just(Uuid(1, 1)),
)
def test_offsets_survive(key: OffsetKey, offset: int, metadata: str, expire: int | None, topic_id: Uuid | None) -> None:
    value = OffsetValue(offset, 3, metadata, 7, expire, topic_id)
    stored = encode_offset(key, value)
    assert (decode_key(stored[0]), decode_offset_value(stored[1])) == (key, value)


@given(st.binary(max_size=200))
def test_foreign_bytes_are_malformed_and_nothing_worse(data: bytes) -> None:
    for decode in (decode_key, decode_offset_value, decode_group_value):
        try:
            decode(data)
        except CodecError:
            continue
    subscribed_topics(data)


def test_a_count_beyond_the_bytes_is_refused_before_it_is_believed() -> None:
    assert subscribed_topics(b"\x00\x00\x7f\xff\xff\xff") is None
    with pytest.raises(CodecError):
        decode_group_value(bytes.fromhex(GROUP_VALUES[3])[:30] + b"\x7f\xff\xff\xff")


def test_groups_hash_as_in_java() -> None:
    assert [partition_for(g, 50) for g in ("g", "my-group", "", "polygenelubricants", "grüße-😀")] == [3, 12, 0, 0, 27]


def test_long_ids_are_not_remembered() -> None:
    """Clients choose the ids: sixteen thousand ids of 30,000 characters would take half a gigabyte."""
    tracemalloc.start()
    try:
        for number in range(GROUPS_REMEMBERED_MAX // 16):
            partition_for(f"{number}".rjust(30_000, "g"), 50)
        assert tracemalloc.get_traced_memory()[0] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("number", "revokes", "state"),
    [
        (0, False, ConsumerMemberState.STABLE),
        (1, True, ConsumerMemberState.UNREVOKED),
        (2, False, ConsumerMemberState.UNRELEASED),
        # Earlier pybroker versions numbered the states from 1.
        (1, False, ConsumerMemberState.STABLE),
        (2, True, ConsumerMemberState.UNREVOKED),
        (3, False, ConsumerMemberState.UNRELEASED),
        # Of a later release.
        (127, False, ConsumerMemberState.UNRELEASED),
    ],
)
def test_member_states_of_kafka_and_of_earlier_versions_are_read(
    number: int, revokes: bool, state: ConsumerMemberState
) -> None:
    topics = [m.ConsumerGroupCurrentMemberAssignmentValue_TopicPartitions(Uuid(1, 2), [0], [3])]
    stored = consumer.StoredConsumerGroup()
    stored.take(consumer.GROUP, "", encode_versioned(m.ConsumerGroupMetadataValue(3, 0), 0))
    member = m.ConsumerGroupMemberMetadataValue(subscribed_topic_names=["orders"], subscribed_topic_regex=None)
    stored.take(consumer.MEMBER, "m", encode_versioned(member, 0))
    current = m.ConsumerGroupCurrentMemberAssignmentValue(3, 2, number, [], topics if revokes else [])
    stored.take(consumer.CURRENT, "m", encode_versioned(current, 0))
    group = stored.group("g")
    assert group is not None
    assert (group.members["m"].state, group.members["m"].subscription.regex) == (state, None)


def test_tombstones_of_a_consumer_group_include_a_type_that_only_kafka_writes() -> None:
    stored = consumer.StoredConsumerGroup()
    stored.take(consumer.GROUP, "", encode_versioned(m.ConsumerGroupMetadataValue(3, 0), 0))
    group = stored.group("g")
    assert group is not None
    assert consumer.tombstones(group) == {bytes((0, kind)) + b"\x00\x01g": None for kind in (6, 4, 3)}


def stored_commit(at: int, offset: int, topic_id: Uuid, producer_id: int = -1) -> StoredRecord:
    """Return the record of a commit; with a producer id, of one in a transaction."""
    key, value = encode_offset(OffsetKey("g", "orders", 0), OffsetValue(offset, -1, "", 1, None, topic_id))
    return StoredRecord(at, 0, key, value, producer_id, None, ())


def every_offset(loaded: LoadedGroups) -> dict[Uuid | None, int]:
    return {value.topic_id: value.offset for _, _, value in loaded.every_offset()}


def test_a_load_has_the_last_commit_for_each_incarnation() -> None:
    """The key names the topic only. A deleted topic may be undeleted while another one has the name."""
    old, new = Uuid.random(), Uuid.random()
    loaded = LoadedGroups()
    loaded.take(stored_commit(0, 3, old))
    loaded.take(stored_commit(1, 7, old, producer_id=5))
    loaded.take(stored_commit(2, 1, new))
    loaded.take(stored_commit(3, 2, new, producer_id=5))
    assert every_offset(loaded) == {old: 3, new: 1}
    loaded.take(StoredRecord(4, 0, None, None, 5, True, ()))
    assert every_offset(loaded) == {old: 7, new: 2}
    loaded.take(stored_commit(5, 8, old))
    assert every_offset(loaded) == {old: 8, new: 2}
    loaded.take(stored_commit(6, 9, old, producer_id=6))
    loaded.take(StoredRecord(7, 0, encode_offset_key(OffsetKey("g", "orders", 0)), None, -1, None, ()))
    loaded.take(StoredRecord(8, 0, None, None, 6, True, ()))
    assert every_offset(loaded) == {}, "the tombstone ends the commits of all incarnations"
