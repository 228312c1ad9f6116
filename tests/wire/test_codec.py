"""Messages as Python objects: encoding and decoding, refused values, and limits of one message's effect on another."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import pytest

from pybroker import native
from pybroker.native import CodecError, Uuid
from pybroker.protocol import messages as m
from tests.wire.random_messages import RandomMessages, versions


def _key_and_kind(name: str, *, interbroker: bool) -> tuple[int | None, str]:
    schema = native.message_schema(name, interbroker=interbroker)
    assert schema is not None
    return schema.api_key, schema.kind


@pytest.mark.parametrize("interbroker", [False, True])
def test_every_version_of_every_message_there_and_back(interbroker: bool) -> None:
    maker = RandomMessages(seed=1, interbroker=interbroker)
    for name in native.message_names(interbroker=interbroker):
        key, kind = _key_and_kind(name, interbroker=interbroker)
        for version in versions(name, interbroker=interbroker):
            for _ in range(3):
                message = maker.make(name, version)
                body = native.encode(message, version)
                if key is None:
                    read = native.decode_data(name, version, body)
                else:
                    read = native.decode(key, version, body, kind == "request", interbroker=interbroker)
                assert read == message, f"{name} v{version}"


def test_mutants_raise_codec_errors_and_nothing_else() -> None:
    choose = random.Random(2)
    maker = RandomMessages(seed=2)
    clients = set(native.message_names())
    for row in native.api_table():
        if f"{row.name}Request" not in clients:  # brokers only: their layouts are another registry's
            continue
        for version in range(row.min_version, row.max_version + 1):
            body = native.encode(maker.make(f"{row.name}Request", version), version)
            for _ in range(20):
                mutant = bytearray(body)
                for _ in range(choose.randrange(1, 4)):
                    place = choose.randrange(len(mutant) + 1)
                    mutant[place : place + choose.randrange(3)] = choose.randbytes(choose.randrange(5))
                # The result is a codec error or a message, whatever the bytes are.
                with contextlib.suppress(CodecError):
                    native.decode(row.key, version, bytes(mutant), True)


@pytest.mark.parametrize(
    ("message", "version", "complaint"),
    [
        (m.CreateTopicsRequest(timeout_ms=1 << 31), 7, "CreateTopicsRequest.timeout_ms: 2147483648 does not fit int32"),
        (m.CreateTopicsRequest(timeout_ms="1"), 7, "CreateTopicsRequest.timeout_ms: expected int, got str"),
        (m.CreateTopicsRequest(topics=None), 7, "CreateTopicsRequest.topics: null is not allowed in this version"),
        (m.CreateTopicsRequest(topics={}), 7, "CreateTopicsRequest.topics: expected list or tuple, got dict"),
        (
            m.CreateTopicsRequest(topics=[m.CreateTopicsRequest_CreatableTopic(name=None)]),
            7,
            "CreateTopicsRequest.topics[0].name: null is not allowed in this version",
        ),
        (
            m.CreateTopicsRequest(topics=[m.DeleteTopicsRequest_DeleteTopicState()]),
            7,
            "expected CreateTopicsRequest_CreatableTopic, got DeleteTopicsRequest_DeleteTopicState",
        ),
        (m.ConsumerGroupHeartbeatResponse(assignment=3), 0, "expected ConsumerGroupHeartbeatResponse_Assignment"),
        (m.FetchRequest(topics=[m.FetchRequest_FetchTopic(topic_id="x")]), 13, "expected Uuid, got str"),
        (m.HeartbeatRequest(group_id="\ud800"), 4, "lone surrogate"),
        (m.HeartbeatRequest(), 99, "HeartbeatRequest has no version 99"),
        ("no message", 1, "is not a message of the protocol"),
    ],
)  # fmt: skip
def test_what_a_version_cannot_carry_is_refused_with_its_place(message: Any, version: int, complaint: str) -> None:
    with pytest.raises(CodecError) as refused:
        native.encode(message, version)
    assert complaint in str(refused.value)


def test_five_hostile_bytes_are_refused() -> None:
    with pytest.raises(CodecError, match="MetadataRequest v13: "):
        native.decode(3, 13, b"\xff\xff\xff\xff\x0f", True)
    with pytest.raises(CodecError, match="there is no API key 1234"):
        native.decode(1234, 0, b"", True)
    with pytest.raises(CodecError, match="MetadataRequest has no version -1"):
        native.decode(3, -1, b"", True)


def test_absent_arrays_and_structs_are_new_objects_in_every_message() -> None:
    first, second = (native.decode(3, 0, b"\0\0\0\0", True) for _ in range(2))
    assert first.topics == second.topics == []
    assert first.topics is not second.topics
    body = native.encode(m.FetchRequest(), 14)
    assert native.decode(1, 14, body, True).replica_state is not native.decode(1, 14, body, True).replica_state
    assert m.CreateTopicsRequest().topics is not m.CreateTopicsRequest().topics


def test_a_field_that_the_version_lacks_reads_as_its_default_and_is_not_written() -> None:
    full = m.MetadataResponse(throttle_time_ms=5, cluster_id="c", controller_id=3, error_code=41)
    assert native.encode(full, 0) == native.encode(m.MetadataResponse(), 0)
    read = native.decode(3, 0, native.encode(full, 0), False)
    assert (read.throttle_time_ms, read.cluster_id, read.controller_id, read.error_code) == (0, None, -1, 0)


def test_tuples_bytearrays_and_enum_members_are_written_like_the_plain_types() -> None:
    from pybroker.protocol.error_codes import ErrorCode

    plain = m.SyncGroupResponse(error_code=27, assignment=b"ab")
    fancy = m.SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS, assignment=bytearray(b"ab"))
    assert native.encode(plain, 3) == native.encode(fancy, 3)
    assert native.encode(m.MetadataRequest(topics=()), 9) == native.encode(m.MetadataRequest(topics=[]), 9)


def test_unknown_error_codes_are_numbers_like_others() -> None:
    assert native.decode(12, 0, b"\x7f\xff", False).error_code == 0x7FFF


def test_request_and_response_headers_for_clients() -> None:
    request = m.HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    # Header v1: key 12, version 0, correlation id 7, client id "c". Header v2 adds the tags; the client id stays long.
    body = native.encode(request, 0)
    assert native.encode_request(request, 0, 7, "c") == bytes.fromhex("000c 0000 00000007 0001 63") + body
    body = native.encode(request, 4)
    assert native.encode_request(request, 4, 7) == bytes.fromhex("000c 0004 00000007 ffff 00") + body
    assert native.decode_response(12, 0, bytes.fromhex("00000007 0019")) == (7, m.HeartbeatResponse(error_code=25))
    assert native.decode_response(12, 4, bytes.fromhex("00000007 00 00000000 0019 00"))[0] == 7
    # ApiVersions keeps header v0 in every version (KIP-511).
    body = native.encode(m.ApiVersionsResponse(error_code=35), 3)
    assert native.decode_response(18, 3, b"\0\0\0\7" + body)[1].error_code == 35
    with pytest.raises(CodecError):
        native.decode_response(12, 4, b"\0\0")


def test_records_content_of_the_group_coordinator() -> None:
    # Worked out by hand: offset 5, leader epoch 2, metadata "x", commit time 9, then the tags: topic id as tag 0.
    topic_id = Uuid.parse("b8tRS7h4TJ2Vt43Dp85v2A")
    value = m.OffsetCommitValue(offset=5, leader_epoch=2, metadata="x", commit_timestamp=9, topic_id=topic_id)
    text = f"0000000000000005 00000002 0278 0000000000000009 01 00 10 {topic_id.hex}"
    assert native.encode(value, 4) == bytes.fromhex(text)
    assert native.decode_data("OffsetCommitValue", 4, bytes.fromhex(text)) == value


@pytest.mark.checklist(310, 311)
def test_list_topics_is_the_text_of_kip_142() -> None:
    assert native.encode(m.ListTopicsRequest(list_internal=True), 0) == b"\1"
    listing = [m.ListTopicsResponse_TopicListing(name="foo", internal=False)]
    body = bytes.fromhex("0000 00000001 0003 666f6f 00")
    assert native.encode(m.ListTopicsResponse(topic_listing=listing), 0) == body
    assert native.decode(32142, 0, body, False).topic_listing == listing


def test_what_later_versions_add_at_the_end_is_left_alone_where_that_is_asked_for() -> None:
    name = "ConsumerProtocolSubscription"
    longer = native.encode(m.ConsumerProtocolSubscription(topics=["t"]), 0) + b"of a later version"
    with pytest.raises(CodecError):
        native.decode_data(name, 0, longer)
    assert native.decode_data(name, 0, longer, front=True).topics == ["t"]
    for cut in range(len("\0\0\0\1\0\1t")):
        with pytest.raises(CodecError):
            native.decode_data(name, 0, longer[:cut], front=True)
