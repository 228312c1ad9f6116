"""Text that is not UTF-8: Latin-1 host names as client ids, group ids in GBK, binary metadata of commits.

Kafka replaces what it cannot decode with U+FFFD and answers. So does pybroker, whichever plane answers.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest

from pybroker import native
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.against_kafka.sides import MOVING, codes
from tests.groups.kit import until
from tests.support.brokers import BrokerProcess
from tests.topic_ids.kit import batch, create, unique
from tests.wire.client import WireClient

MARK = "QQQQQQQQ"
"""A placeholder in a request for the bytes below; it has the same length."""
BYTES = b"Ger\xe4t \xff\xfe"
TEXT = "Ger\ufffdt \ufffd\ufffd"


def ask(client: WireClient, request: object, version: int) -> Any:
    """Send a request with the bytes in the place of `MARK`; return the response."""
    frame = native.encode_request(request, version, 7, MARK)
    key, _ = struct.unpack_from(">hh", frame)
    client.send_frame(frame.replace(MARK.encode(), BYTES))
    return native.decode_response(key, version, client.receive_frame())[1]


def test_the_client_id_of_any_request(broker: BrokerProcess) -> None:
    name = unique()
    with WireClient(broker.port) as client:
        create(client, name)
        data = m.ProduceRequest_PartitionProduceData(index=0, records=batch(b"value"))
        topics = [m.ProduceRequest_TopicProduceData(name=name, partition_data=[data])]
        produced = ask(client, m.ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=topics), 9)
        assert produced.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        for request, version in ((m.ApiVersionsRequest(), 0), (m.ListGroupsRequest(), 4)):
            assert ask(client, request, version).error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", [1, 12])
def test_topic_names_are_invalid(broker: BrokerProcess, version: int) -> None:
    topics = [m.MetadataRequest_MetadataRequestTopic(name=MARK)]
    with WireClient(broker.port) as client:
        answer = ask(client, m.MetadataRequest(topics=topics, allow_auto_topic_creation=True), version)
        told = answer.topics[0]
        assert (told.error_code, told.name) == (ErrorCode.INVALID_TOPIC_EXCEPTION, TEXT)
        data = m.ProduceRequest_PartitionProduceData(index=0, records=batch(b"value"))
        named = [m.ProduceRequest_TopicProduceData(name=MARK, partition_data=[data])]
        refused = ask(client, m.ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=named), 9)
        row = refused.responses[0]
        assert (row.name, row.partition_responses[0].error_code) == (TEXT, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@pytest.mark.parametrize("version", [2, 8])
def test_groups_and_the_metadata_of_commits(broker: BrokerProcess, version: int) -> None:
    name = unique()
    with WireClient(broker.port) as client:
        create(client, name)
        find = m.FindCoordinatorRequest(key_type=0, coordinator_keys=[MARK])
        until(lambda: not MOVING & set(codes(ask(client, find, 4))), "the group has a coordinator")
        partition = m.OffsetCommitRequest_OffsetCommitRequestPartition(
            partition_index=0, committed_offset=3, committed_metadata=MARK
        )
        topics = [m.OffsetCommitRequest_OffsetCommitRequestTopic(name=name, partitions=[partition])]
        commit = m.OffsetCommitRequest(group_id=MARK, topics=topics)
        until(lambda: codes(ask(client, commit, version)) == [ErrorCode.NONE], "the offset is committed")
        wanted = [m.OffsetFetchRequest_OffsetFetchRequestTopic(name=name, partition_indexes=[0])]
        for group in (MARK, TEXT):
            told = ask(client, m.OffsetFetchRequest(group_id=group, topics=wanted), 5)
            row = told.topics[0].partitions[0]
            assert (row.committed_offset, row.metadata) == (3, TEXT)
