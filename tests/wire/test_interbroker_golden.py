"""The KIP-516 text's inter-broker messages, byte by byte, worked out by hand.

Field sets: the text, and where it contradicts itself or the released messages: both delete flags in StopReplica,
adding and removing replicas in LeaderAndIsr, no fields in UpdateMetadata that nobody fills any more, error_code INT16
and vote_granted in Vote, no replica_id in EndQuorumEpoch. Flexible where the released message of that number is:
BeginQuorumEpoch and EndQuorumEpoch v0 are not.
"""

from __future__ import annotations

from typing import Any

import pytest

from pybroker import native
from pybroker.native import Uuid
from pybroker.protocol import interbroker as ib
from pybroker.protocol import messages
from tests.wire.random_messages import RandomMessages

TOPIC_ID = Uuid.parse("b8tRS7h4TJ2Vt43Dp85v2A")  # the text's own example
ID = "6fcb514bb8784c9d95b78dc3a7ce6fd8"
SENTINEL = "00000000000000000000000000000001"

# (message, its version, bytes in hex, field by field)
GOLDEN: list[tuple[Any, int, str]] = [
    (
        ib.LeaderAndIsrRequest(
            controller_id=1,
            controller_epoch=2,
            broker_epoch=3,
            type=2,
            topic_states=[
                ib.LeaderAndIsrRequest_LeaderAndIsrTopicState(
                    topic_name="foo",
                    topic_id=TOPIC_ID,
                    partition_states=[
                        ib.LeaderAndIsrRequest_LeaderAndIsrPartitionState(
                            partition_index=4,
                            controller_epoch=2,
                            leader=1,
                            leader_epoch=5,
                            isr=[1, 7],
                            zk_version=6,
                            replicas=[1, 7, 8],
                            adding_replicas=[8],
                            removing_replicas=[],
                            is_new=True,
                        )
                    ],
                )
            ],
            live_leaders=[ib.LeaderAndIsrRequest_LeaderAndIsrLiveLeader(broker_id=1, host_name="h1", port=9092)],
        ),
        5,
        "00000001 00000002 0000000000000003 02"
        f"02 04666f6f {ID}"
        "02 00000004 00000002 00000001 00000005 03 00000001 00000007 00000006"
        "04 00000001 00000007 00000008 02 00000008 01 01 00"
        "00"
        "02 00000001 036831 00002384 00"
        "00",
    ),
    (
        ib.LeaderAndIsrResponse(
            error_code=0,
            topics=[
                ib.LeaderAndIsrResponse_LeaderAndIsrTopicError(
                    topic_id=TOPIC_ID,
                    partition_errors=[
                        ib.LeaderAndIsrResponse_LeaderAndIsrPartitionError(partition_index=4, error_code=103)
                    ],
                )
            ],
        ),
        5,
        f"0000 02 {ID} 02 00000004 0067 00 00 00",
    ),
    (
        ib.StopReplicaRequest(
            controller_id=1,
            controller_epoch=2,
            broker_epoch=3,
            delete_partitions=False,
            topic_states=[
                ib.StopReplicaRequest_StopReplicaTopicState(
                    topic_id=TOPIC_ID,
                    partition_states=[
                        ib.StopReplicaRequest_StopReplicaPartitionState(
                            partition_index=4, leader_epoch=-2, delete_partition=True
                        )
                    ],
                )
            ],
        ),
        4,
        f"00000001 00000002 0000000000000003 00 02 {ID} 02 00000004 fffffffe 01 00 00 00",
    ),
    (
        ib.StopReplicaResponse(
            error_code=11,
            topics=[
                ib.StopReplicaResponse_StopReplicaTopicError(
                    topic_id=TOPIC_ID,
                    partition_errors=[
                        ib.StopReplicaResponse_StopReplicaPartitionError(partition_index=4, error_code=100)
                    ],
                )
            ],
        ),
        4,
        f"000b 02 {ID} 02 00000004 0064 00 00 00",
    ),
    (
        ib.FetchRequest(
            replica_id=7,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1048576,
            isolation_level=0,
            session_id=9,
            session_epoch=10,
            topics=[
                ib.FetchRequest_FetchTopic(
                    topic_id=TOPIC_ID,
                    partitions=[
                        ib.FetchRequest_FetchPartition(
                            partition=4,
                            current_leader_epoch=5,
                            fetch_offset=100,
                            last_fetched_epoch=5,
                            log_start_offset=3,
                            partition_max_bytes=65536,
                        )
                    ],
                )
            ],
            forgotten_topics_data=[ib.FetchRequest_ForgottenTopic(topic_id=TOPIC_ID, partitions=[2])],
            rack_id="r",
        ),
        13,
        "00000007 000001f4 00000001 00100000 00 00000009 0000000a"
        f"02 {ID} 02 00000004 00000005 0000000000000064 00000005 0000000000000003 00010000 00 00"
        f"02 {ID} 02 00000002 00"
        "0272 00",
    ),
    (
        ib.FetchResponse(
            throttle_time_ms=0,
            error_code=0,
            session_id=9,
            responses=[
                ib.FetchResponse_FetchableTopicResponse(
                    topic_id=TOPIC_ID,
                    partitions=[
                        ib.FetchResponse_PartitionData(
                            partition_index=4,
                            error_code=0,
                            high_watermark=101,
                            last_stable_offset=101,
                            log_start_offset=3,
                            diverging_epoch=ib.FetchResponse_EpochEndOffset(epoch=4, end_offset=90),
                            current_leader=ib.FetchResponse_LeaderIdAndEpoch(leader_id=1, leader_epoch=5),
                            aborted_transactions=[
                                ib.FetchResponse_AbortedTransaction(producer_id=1000, first_offset=50)
                            ],
                            preferred_read_replica=-1,
                            records=b"\xca\xfe",
                        )
                    ],
                )
            ],
        ),
        13,
        f"00000000 0000 00000009 02 {ID}"
        "02 00000004 0000 0000000000000065 0000000000000065 0000000000000003"
        "00000004 000000000000005a 00  00000001 00000005 00"
        "02 00000000000003e8 0000000000000032 00 ffffffff 03cafe 00 00 00",
    ),
    (
        ib.ListOffsetsRequest(
            replica_id=-1,
            isolation_level=1,
            topics=[
                ib.ListOffsetsRequest_ListOffsetsTopic(
                    topic_id=TOPIC_ID,
                    partitions=[
                        ib.ListOffsetsRequest_ListOffsetsPartition(
                            partition_index=4, current_leader_epoch=5, timestamp=-2
                        )
                    ],
                )
            ],
        ),
        6,
        f"ffffffff 01 02 {ID} 02 00000004 00000005 fffffffffffffffe 00 00 00",
    ),
    (
        ib.ListOffsetsResponse(
            throttle_time_ms=1,
            topics=[
                ib.ListOffsetsResponse_ListOffsetsTopicResponse(
                    topic_id=TOPIC_ID,
                    partitions=[
                        ib.ListOffsetsResponse_ListOffsetsPartitionResponse(
                            partition_index=4, error_code=100, timestamp=-1, offset=-1, leader_epoch=-1
                        )
                    ],
                )
            ],
        ),
        6,
        f"00000001 02 {ID} 02 00000004 0064 ffffffffffffffff ffffffffffffffff ffffffff 00 00 00",
    ),
    (
        ib.OffsetForLeaderEpochRequest(
            replica_id=7,
            topics=[
                ib.OffsetForLeaderEpochRequest_OffsetForLeaderTopic(
                    topic_id=TOPIC_ID,
                    partitions=[
                        ib.OffsetForLeaderEpochRequest_OffsetForLeaderPartition(
                            partition=4, current_leader_epoch=5, leader_epoch=4
                        )
                    ],
                )
            ],
        ),
        4,
        f"00000007 02 {ID} 02 00000004 00000005 00000004 00 00 00",
    ),
    (
        ib.OffsetForLeaderEpochResponse(
            throttle_time_ms=0,
            topics=[
                ib.OffsetForLeaderEpochResponse_OffsetForLeaderTopicResult(
                    topic_id=TOPIC_ID,
                    partitions=[
                        ib.OffsetForLeaderEpochResponse_EpochEndOffset(
                            error_code=0, partition=4, leader_epoch=4, end_offset=90
                        )
                    ],
                )
            ],
        ),
        4,
        f"00000000 02 {ID} 02 0000 00000004 00000004 000000000000005a 00 00 00",
    ),
    (
        ib.UpdateMetadataRequest(
            controller_id=1,
            controller_epoch=2,
            broker_epoch=3,
            topic_states=[
                ib.UpdateMetadataRequest_UpdateMetadataTopicState(
                    topic_name="foo",
                    topic_id=TOPIC_ID,
                    partition_states=[
                        ib.UpdateMetadataRequest_UpdateMetadataPartitionState(
                            partition_index=4,
                            controller_epoch=2,
                            leader=1,
                            leader_epoch=5,
                            isr=[1],
                            zk_version=6,
                            replicas=[1, 7],
                            offline_replicas=[7],
                        )
                    ],
                )
            ],
            live_brokers=[
                ib.UpdateMetadataRequest_UpdateMetadataBroker(
                    id=1,
                    endpoints=[
                        ib.UpdateMetadataRequest_UpdateMetadataEndpoint(
                            port=9092, host="h1", listener="IN", security_protocol=0
                        )
                    ],
                    rack=None,
                )
            ],
        ),
        7,
        "00000001 00000002 0000000000000003"
        f"02 04666f6f {ID}"
        "02 00000004 00000002 00000001 00000005 02 00000001 00000006 03 00000001 00000007 02 00000007 00 00"
        "02 00000001 02 00002384 036831 03494e 0000 00 00 00"
        "00",
    ),
    (ib.UpdateMetadataResponse(error_code=77), 7, "004d 00"),
    (
        ib.ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout_ms=30000,
            topic_data=[
                ib.ProduceRequest_TopicProduceData(
                    topic_id=TOPIC_ID,
                    partition_data=[ib.ProduceRequest_PartitionProduceData(index=4, records=b"\xca\xfe")],
                )
            ],
        ),
        9,
        f"00 ffff 00007530 02 {ID} 02 00000004 03cafe 00 00 00",
    ),
    (
        ib.ProduceResponse(
            responses=[
                ib.ProduceResponse_TopicProduceResponse(
                    topic_id=TOPIC_ID,
                    partition_responses=[
                        ib.ProduceResponse_PartitionProduceResponse(
                            index=4,
                            error_code=87,
                            base_offset=-1,
                            log_append_time_ms=-1,
                            log_start_offset=3,
                            record_errors=[
                                ib.ProduceResponse_BatchIndexAndErrorMessage(
                                    batch_index=2, batch_index_error_message="bad"
                                )
                            ],
                            error_message=None,
                        )
                    ],
                )
            ],
            throttle_time_ms=1,
        ),
        9,
        f"02 {ID} 02 00000004 0057 ffffffffffffffff ffffffffffffffff 0000000000000003"
        "02 00000002 04626164 00 00 00 00 00000001 00",
    ),
    (
        ib.VoteRequest(
            cluster_id="c",
            topics=[
                ib.VoteRequest_TopicData(
                    topic_id=Uuid.METADATA,
                    partitions=[
                        ib.VoteRequest_PartitionData(
                            partition_index=0,
                            candidate_epoch=8,
                            candidate_id=1,
                            last_offset_epoch=7,
                            last_offset=55,
                        )
                    ],
                )
            ],
        ),
        0,
        f"0263 02 {SENTINEL} 02 00000000 00000008 00000001 00000007 0000000000000037 00 00 00",
    ),
    (
        ib.VoteResponse(
            error_code=0,
            topics=[
                ib.VoteResponse_TopicData(
                    topic_id=Uuid.METADATA,
                    partitions=[
                        ib.VoteResponse_PartitionData(
                            partition_index=0, error_code=0, leader_id=-1, leader_epoch=8, vote_granted=True
                        )
                    ],
                )
            ],
        ),
        0,
        f"0000 02 {SENTINEL} 02 00000000 0000 ffffffff 00000008 01 00 00 00",
    ),
    (
        ib.BeginQuorumEpochRequest(
            cluster_id="c",
            topics=[
                ib.BeginQuorumEpochRequest_TopicData(
                    topic_id=Uuid.METADATA,
                    partitions=[
                        ib.BeginQuorumEpochRequest_PartitionData(partition_index=0, leader_id=1, leader_epoch=8)
                    ],
                )
            ],
        ),
        0,
        f"000163 00000001 {SENTINEL} 00000001 00000000 00000001 00000008",
    ),
    (
        ib.BeginQuorumEpochResponse(
            error_code=0,
            topics=[
                ib.BeginQuorumEpochResponse_TopicData(
                    topic_id=Uuid.METADATA,
                    partitions=[
                        ib.BeginQuorumEpochResponse_PartitionData(
                            partition_index=0, error_code=74, leader_id=2, leader_epoch=9
                        )
                    ],
                )
            ],
        ),
        0,
        f"0000 00000001 {SENTINEL} 00000001 00000000 004a 00000002 00000009",
    ),
    (
        ib.EndQuorumEpochRequest(
            cluster_id=None,
            topics=[
                ib.EndQuorumEpochRequest_TopicData(
                    topic_id=Uuid.METADATA,
                    partitions=[
                        ib.EndQuorumEpochRequest_PartitionData(
                            partition_index=0, leader_id=1, leader_epoch=8, preferred_successors=[3, 2]
                        )
                    ],
                )
            ],
        ),
        0,
        f"ffff 00000001 {SENTINEL} 00000001 00000000 00000001 00000008 00000002 00000003 00000002",
    ),
    (
        ib.EndQuorumEpochResponse(
            error_code=104,
            topics=[
                ib.EndQuorumEpochResponse_TopicData(
                    topic_id=Uuid.METADATA,
                    partitions=[
                        ib.EndQuorumEpochResponse_PartitionData(
                            partition_index=0, error_code=0, leader_id=1, leader_epoch=8
                        )
                    ],
                )
            ],
        ),
        0,
        f"0068 00000001 {SENTINEL} 00000001 00000000 0000 00000001 00000008",
    ),
]


BY_NAME = ("LeaderAndIsr", "StopReplica", "UpdateMetadata", "Fetch", "ListOffsets", "OffsetForLeaderEpoch")
"""Messages that brokers also use in the previous version."""
QUORUM = ("Vote", "BeginQuorumEpoch", "EndQuorumEpoch")
"""Messages with a version 1 of pybroker, which brokers use among themselves: directory ids, pre-votes, addresses."""


@pytest.mark.checklist("D4", "D22", "D24")
@pytest.mark.checklist(*range(51, 58), *range(60, 64), 76, *range(83, 86), *range(87, 92), 96, 97, 99, 100)
@pytest.mark.checklist(77, *range(102, 105), 106, 107, *range(191, 198), 220, "R9", "X2", "X4", "X5")
@pytest.mark.checklist("X12", "X13", "X14", "X15", "X16")
@pytest.mark.parametrize(("message", "version", "text"), GOLDEN, ids=[type(row[0]).__name__ for row in GOLDEN])
def test_bytes_are_the_texts(message: Any, version: int, text: str) -> None:
    body = bytes.fromhex(text)
    assert native.encode(message, version).hex() == body.hex()
    name = type(message).__name__
    schema = native.message_schema(name, interbroker=True)
    assert schema is not None
    assert schema.max_version == version + name.startswith(QUORUM)
    assert schema.min_version == version - name.startswith(BY_NAME)
    assert schema.api_key is not None
    request = schema.kind == "request"
    assert native.decode(schema.api_key, version, body, request, interbroker=True) == message


OURS = ("AlterPartition", "Envelope", "ControlledShutdown", "UpdateCluster", "RestoreReplicas", "CloseTopics",
        "ReopenTopics", "SubmitEvent", "IngestAppend", "IngestOrder", "VerifyTransaction",
        "EndTransaction", "AppendDeadLetters", "ProbeBroker", "StagedReplicas", "FetchSnapshot")  # fmt: skip
"""Fields of Kafka's later versions, by id here, and messages that Kafka lacks: they are not in KIP-516."""


def test_every_inter_broker_message_of_the_text_has_its_bytes() -> None:
    names = {name for name in native.message_names(interbroker=True) if not name.startswith(OURS)}
    assert {type(message).__name__ for message, _, _ in GOLDEN} == names


QUORUM_GOLDEN: list[tuple[Any, str]] = [
    (
        ib.VoteRequest(
            cluster_id="c",
            voter_id=3,
            topics=[
                ib.VoteRequest_TopicData(
                    topic_id=TOPIC_ID,
                    partitions=[
                        ib.VoteRequest_PartitionData(
                            partition_index=0,
                            candidate_epoch=8,
                            candidate_id=1,
                            candidate_directory_id=Uuid.METADATA,
                            voter_directory_id=TOPIC_ID,
                            last_offset_epoch=7,
                            last_offset=55,
                            pre_vote=True,
                        )
                    ],
                )
            ],
        ),
        f"0263 00000003 02 {ID} 02 00000000 00000008 00000001 {SENTINEL} {ID} 00000007 0000000000000037 01 00 00 00",
    ),
    (
        ib.VoteResponse(
            topics=[
                ib.VoteResponse_TopicData(
                    topic_id=TOPIC_ID,
                    partitions=[
                        ib.VoteResponse_PartitionData(
                            partition_index=0, error_code=125, leader_id=2, leader_epoch=8, vote_granted=False
                        )
                    ],
                )
            ],
            node_endpoints=[ib.VoteResponse_NodeEndpoint(node_id=2, host="h", port=65535)],
        ),
        f"0000 02 {ID} 02 00000000 007d 00000002 00000008 00 00 00 01 00 0a 02 00000002 0268 ffff 00",
    ),
    (
        ib.BeginQuorumEpochRequest(
            cluster_id="c",
            topics=[
                ib.BeginQuorumEpochRequest_TopicData(
                    topic_id=TOPIC_ID,
                    partitions=[
                        ib.BeginQuorumEpochRequest_PartitionData(
                            partition_index=0, leader_id=1, leader_directory_id=Uuid.METADATA, leader_epoch=8
                        )
                    ],
                )
            ],
            leader_endpoints=[ib.BeginQuorumEpochRequest_LeaderEndpoint(name="C", host="h", port=9093)],
        ),
        f"0263 ffffffff 02 {ID} 02 00000000 {'00' * 16} 00000001 {SENTINEL} 00000008 00 00 02 0243 0268 2385 00 00",
    ),
    (
        ib.EndQuorumEpochRequest(
            cluster_id="c",
            topics=[
                ib.EndQuorumEpochRequest_TopicData(
                    topic_id=TOPIC_ID,
                    partitions=[
                        ib.EndQuorumEpochRequest_PartitionData(
                            partition_index=0,
                            leader_id=1,
                            leader_directory_id=Uuid.METADATA,
                            leader_epoch=8,
                            preferred_successors=[3],
                        )
                    ],
                )
            ],
        ),
        f"0263 02 {ID} 02 00000000 00000001 {SENTINEL} 00000008 02 00000003 00 00 01 00",
    ),
    (
        ib.FetchSnapshotRequest(
            cluster_id="c",
            replica_id=3,
            max_bytes=1000,
            topics=[
                ib.FetchSnapshotRequest_TopicSnapshot(
                    topic_id=TOPIC_ID,
                    partitions=[
                        ib.FetchSnapshotRequest_PartitionSnapshot(
                            partition=0,
                            current_leader_epoch=8,
                            snapshot_id=ib.FetchSnapshotRequest_SnapshotId(end_offset=55, epoch=7),
                            position=16,
                            replica_directory_id=Uuid.METADATA,
                        )
                    ],
                )
            ],
        ),
        f"00000003 000003e8 02 {ID} 02 00000000 00000008 0000000000000037 00000007 00 0000000000000010"
        f"01 00 10 {SENTINEL} 00 01 00 02 0263",
    ),
]


@pytest.mark.parametrize(("message", "text"), QUORUM_GOLDEN, ids=[type(row[0]).__name__ for row in QUORUM_GOLDEN])
def test_bytes_of_the_quorums_version_1(message: Any, text: str) -> None:
    body = bytes.fromhex(text)
    assert native.encode(message, 1).hex() == body.hex()
    schema = native.message_schema(type(message).__name__, interbroker=True)
    assert schema is not None
    assert schema.api_key is not None
    assert native.decode(schema.api_key, 1, body, schema.kind == "request", interbroker=True) == message


@pytest.mark.checklist(10, 109)
@pytest.mark.parametrize("length", [16, 100, 249])
def test_produce_by_id_is_smaller_than_by_a_name_of_more_than_15_characters(length: int) -> None:
    def produce(**topic: Any) -> int:
        data = [messages.ProduceRequest_PartitionProduceData(index=4, records=b"\xca\xfe")]
        topics = [messages.ProduceRequest_TopicProduceData(partition_data=data, **topic)]
        version = 13 if "topic_id" in topic else 12
        return len(native.encode(messages.ProduceRequest(acks=-1, topic_data=topics), version))

    # A name costs its length and one byte (two from 127 on), an id 16. (The text counts the two bytes of old lengths.)
    saved = produce(name="x" * length) - produce(topic_id=TOPIC_ID)
    assert saved == length + (1 if length < 127 else 2) - 16


@pytest.mark.checklist("R9", "D4", "D22")
def test_listeners_do_not_mix_the_registries() -> None:
    stop, request, response = (
        next(message for message, _, _ in GOLDEN if isinstance(message, kind))
        for kind in (ib.StopReplicaRequest, ib.FetchRequest, ib.FetchResponse)
    )
    with pytest.raises(native.CodecError):
        native.decode(5, 4, native.encode(stop, 4), True)
    # Fetch v13 has the same request in both registries; the response differs: released Kafka has tagged fields there.
    assert type(native.decode(1, 13, native.encode(request, 13), True)) is not type(request)
    with pytest.raises(native.CodecError):
        native.decode(1, 13, native.encode(response, 13), False)


@pytest.mark.checklist(67, 68, "R9")
@pytest.mark.parametrize("kind", ["Request", "Response"])
@pytest.mark.parametrize("api", BY_NAME)
def test_versions_before_topic_ids_are_released_kafkas(api: str, kind: str) -> None:
    """The messages of a broker below 2.8 are equal to Kafka's byte for byte, in both directions."""
    name, request = api + kind, kind == "Request"
    schema = native.message_schema(name, interbroker=True)
    assert schema is not None
    assert schema.api_key is not None
    version, random = schema.min_version, RandomMessages(4)
    for _ in range(50):
        body = native.encode(random.make(name, version), version)
        read = native.decode(schema.api_key, version, body, request, interbroker=True)
        assert native.encode(read, version) == body
