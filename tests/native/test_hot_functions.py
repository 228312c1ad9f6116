"""The functions for measurements do the same as the data plane."""

from __future__ import annotations

import struct

import pytest

from pybroker.native import (
    CodecError,
    HotResponse,
    NativeError,
    PartitionIndex,
    TopicKeys,
    TopicPartitions,
    Uuid,
    build_batch,
    crc32c,
    decode,
    decode_hot,
    encode,
    validate_batch,
)
from pybroker.protocol import messages as m

PRODUCE, FETCH = 0, 1


def test_crc32c() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def test_a_batch_is_validated_as_produce_does() -> None:
    batch = build_batch([(b"k", b"v"), (None, None)], 1_000)
    assert validate_batch(batch, 1_000) == 2
    damaged = bytearray(batch)
    damaged[-1] ^= 1
    with pytest.raises(NativeError) as failure:
        validate_batch(bytes(damaged), 1_000)
    assert failure.value.code == 2
    assert "checksum" in failure.value.message


@pytest.mark.parametrize(("key", "version"), [(PRODUCE, 12), (PRODUCE, 13), (FETCH, 12), (FETCH, 17)])
def test_responses_of_the_hot_codec_are_those_of_the_schema(key: int, version: int) -> None:
    ids = [Uuid.random(), Uuid.random()]
    topics = [TopicPartitions(ids[0], "a", 2), TopicPartitions(ids[1], "b", 1)]
    records = build_batch([(None, b"v")], 1_000)
    body = HotResponse(key, version, topics, records).encode()
    assert decode_hot(key, version, body, False) == 3
    message = decode(key, version, body, False)
    assert isinstance(message, m.FetchResponse if key == FETCH else m.ProduceResponse)
    assert encode(message, version) == body
    if isinstance(message, m.FetchResponse):
        assert [partition.records for partition in message.responses[0].partitions] == [records, records]


def test_requests() -> None:
    partition = m.FetchRequest_FetchPartition(partition=3)
    body = encode(m.FetchRequest(topics=[m.FetchRequest_FetchTopic(topic="t", partitions=[partition] * 5)]), 12)
    assert decode_hot(FETCH, 12, body, True) == 5
    with pytest.raises(CodecError):
        decode_hot(FETCH, 12, body[:-1], True)
    with pytest.raises(ValueError, match="Produce is key 0"):
        decode_hot(2, 1, b"", True)
    with pytest.raises(ValueError, match="not served"):
        HotResponse(FETCH, 3, [])


def test_the_index_finds_by_id_and_by_name() -> None:
    one, two = Uuid.random(), Uuid.random()
    index = PartitionIndex([TopicPartitions(one, "one", 2), TopicPartitions(two, "two", 1)])
    assert index.by_id(one, 1)
    assert not index.by_id(one, 2)
    assert not index.by_id(Uuid.random(), 0)
    assert not index.by_id(Uuid.ZERO, 0)
    assert index.by_name("two", 0)
    assert not index.by_name("three", 0)
    keys = b"".join(topic.bytes + struct.pack(">i", partition) for topic, partition in [(one, 0), (two, 0), (two, 7)])
    assert index.count_by_id(keys) == 2
    assert index.count_by_name(["one", "two", "three"], 0) == 2
    with pytest.raises(ValueError, match="16 bytes"):
        index.count_by_id(b"short")


def test_keys_of_topics_are_compared_and_sorted() -> None:
    low, high = Uuid(1, 1), Uuid(1, 2)
    for one, other in (
        (TopicKeys.of_ids([low, high, low]), TopicKeys.of_ids([low, low, high])),
        (TopicKeys.of_names(["a", "b", "a"]), TopicKeys.of_names(["a", "a", "b"])),
    ):
        assert (one.count_equal(other), one.count_less(other), other.count_less(one)) == (1, 1, 1)
        assert (one.sorted(), one.copied()) == (3, 3)
    with pytest.raises(ValueError, match="do not compare"):
        one.count_less(TopicKeys.of_ids([low]))
    with pytest.raises(ValueError, match="zero id"):
        TopicKeys.of_ids([Uuid.ZERO])
