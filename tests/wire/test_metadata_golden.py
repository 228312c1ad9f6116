"""Metadata in the layouts of KIP-78 and KIP-516, byte by byte, calculated by hand; and a running broker's responses."""

from __future__ import annotations

import pytest

from pybroker import native
from pybroker.native import Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.support.brokers import BrokerProcess
from tests.topic_ids.kit import create, unique
from tests.wire.client import WireClient

TOPIC_ID = Uuid.parse("b8tRS7h4TJ2Vt43Dp85v2A")
ID = "6fcb514bb8784c9d95b78dc3a7ce6fd8"
ANSWER = m.MetadataResponse(
    throttle_time_ms=1,
    brokers=[
        m.MetadataResponse_MetadataResponseBroker(node_id=7, host="h1", port=9092, rack="r"),
        m.MetadataResponse_MetadataResponseBroker(node_id=8, host="h2", port=9093, rack=None),
    ],
    cluster_id="c",
    controller_id=7,
    topics=[
        m.MetadataResponse_MetadataResponseTopic(
            name="foo",
            topic_id=TOPIC_ID,
            is_internal=True,
            partitions=[
                m.MetadataResponse_MetadataResponsePartition(
                    error_code=9,
                    partition_index=4,
                    leader_id=7,
                    leader_epoch=5,
                    replica_nodes=[7, 8],
                    isr_nodes=[7],
                    offline_replicas=[8],
                )
            ],
            topic_authorized_operations=9,
        )
    ],
    cluster_authorized_operations=10,
)
BROKERS = "00000002 00000007 0002 6831 00002384 0001 72 00000008 0002 6832 00002385 ffff"
TOPIC = "00000001 0000 0003 666f6f 01 00000001 0009 00000004 00000007 00000002 00000007 00000008 00000001 00000007"


@pytest.mark.checklist(262, 263, 264, 266, "X32", "X36")
def test_the_answer_of_kip_78() -> None:
    # Version 2: brokers, cluster id, controller id, topics. Version 1: the same without the cluster id.
    assert native.encode(ANSWER, 2) == bytes.fromhex(f"{BROKERS} 0001 63 00000007 {TOPIC}")
    assert native.encode(ANSWER, 1) == bytes.fromhex(f"{BROKERS} 00000007 {TOPIC}")


@pytest.mark.checklist(265)
def test_the_question_of_kip_78_is_that_of_version_1() -> None:
    asked = m.MetadataRequest(topics=[m.MetadataRequest_MetadataRequestTopic(name="foo")])
    assert native.encode(asked, 1) == native.encode(asked, 2) == bytes.fromhex("00000001 0003 666f6f")


@pytest.mark.checklist(159, 160, 162, 325, "X3", "D16")
def test_question_and_answer_of_kip_516() -> None:
    asked = m.MetadataRequest(
        topics=[m.MetadataRequest_MetadataRequestTopic(name="foo", topic_id=TOPIC_ID)],
        allow_auto_topic_creation=True,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=True,
    )
    assert native.encode(asked, 10) == bytes.fromhex(f"02 {ID} 04666f6f 00 01 00 01 00")
    assert native.encode(ANSWER, 10) == bytes.fromhex(
        "00000001 03 00000007 036831 00002384 0272 00 00000008 036832 00002385 00 00 0263 00000007"
        f"02 0000 04666f6f {ID} 01"
        "02 0009 00000004 00000007 00000005 03 00000007 00000008 02 00000007 02 00000008 00"
        "00000009 00 0000000a 00"
    )


@pytest.mark.checklist(320)
def test_the_question_got_no_flags_that_leave_things_out() -> None:
    """KIP-142 rejects such flags: another request has the smaller response."""
    schema = native.message_schema("MetadataRequest")
    assert schema is not None
    fields = {struct.name: [field.name for field in struct.fields] for struct in schema.structs}
    assert fields == {
        "MetadataRequest": [
            "topics",
            "allow_auto_topic_creation",
            "include_cluster_authorized_operations",
            "include_topic_authorized_operations",
        ],
        "MetadataRequest_MetadataRequestTopic": ["topic_id", "name"],
    }


@pytest.mark.checklist(267, 295)
def test_a_live_broker_always_tells_the_cluster_id(broker: BrokerProcess) -> None:
    with WireClient(broker.port) as client:
        name = unique()
        create(client, name)
        told = set()
        for version in range(14):
            # The cases: an existing topic, a missing one, and an empty list.
            for topic in (name, "absent", None):
                topics = [] if topic is None else [m.MetadataRequest_MetadataRequestTopic(name=topic)]
                answer = client.call(m.MetadataRequest(topics=topics, allow_auto_topic_creation=False), version)
                if version >= 2:
                    told.add(answer.cluster_id)
                else:
                    assert answer.cluster_id is None
        (cluster_id,) = told
        assert cluster_id


@pytest.mark.checklist(308, "D36", "U12")
def test_a_client_of_another_cluster_is_sent_away(broker: BrokerProcess) -> None:
    with WireClient(broker.port) as client:
        mine = client.call(m.MetadataRequest(topics=[]), 12).cluster_id

        def code(cluster_id: str | None) -> int:
            asked = m.ApiVersionsRequest(
                client_software_name="x", client_software_version="1", cluster_id=cluster_id, node_id=-1
            )
            return int(client.call(asked, 5).error_code)

        assert (code(mine), code(None)) == (0, 0)
        assert code("another-cluster") == ErrorCode.REBOOTSTRAP_REQUIRED
