"""The classes of pybroker.protocol.interbroker. Written by native/protocol/schema/write_stubs.py."""

import msgspec

from pybroker.native import Uuid

class ProduceRequest(msgspec.Struct):
    """Request, key 0, versions 9-9."""

    transactional_id: str | None = None
    acks: int = 0
    timeout_ms: int = 0
    topic_data: list[ProduceRequest_TopicProduceData] = []

class ProduceRequest_TopicProduceData(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partition_data: list[ProduceRequest_PartitionProduceData] = []

class ProduceRequest_PartitionProduceData(msgspec.Struct):
    index: int = 0
    records: bytes | None = None

class ProduceResponse(msgspec.Struct):
    """Response, key 0, versions 9-9."""

    responses: list[ProduceResponse_TopicProduceResponse] = []
    throttle_time_ms: int = 0

class ProduceResponse_TopicProduceResponse(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partition_responses: list[ProduceResponse_PartitionProduceResponse] = []

class ProduceResponse_PartitionProduceResponse(msgspec.Struct):
    index: int = 0
    error_code: int = 0
    base_offset: int = 0
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: list[ProduceResponse_BatchIndexAndErrorMessage] = []
    error_message: str | None = None

class ProduceResponse_BatchIndexAndErrorMessage(msgspec.Struct):
    batch_index: int = 0
    batch_index_error_message: str | None = None

class FetchRequest(msgspec.Struct):
    """Request, key 1, versions 12-13."""

    cluster_id: str | None = None
    replica_id: int = -1
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2147483647
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = -1
    topics: list[FetchRequest_FetchTopic] = []
    forgotten_topics_data: list[FetchRequest_ForgottenTopic] = []
    rack_id: str = ""
    replica_epoch: int = -1
    applied_offset: int = -1
    applied_version: int = -1

class FetchRequest_FetchTopic(msgspec.Struct):
    topic: str = ""
    topic_id: Uuid = Uuid.ZERO
    partitions: list[FetchRequest_FetchPartition] = []

class FetchRequest_FetchPartition(msgspec.Struct):
    partition: int = 0
    current_leader_epoch: int = -1
    fetch_offset: int = 0
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    partition_max_bytes: int = 0
    replica_directory_id: Uuid = Uuid.ZERO
    replica_high_watermark: int = 9223372036854775807

class FetchRequest_ForgottenTopic(msgspec.Struct):
    topic: str = ""
    topic_id: Uuid = Uuid.ZERO
    partitions: list[int] = []

class FetchResponse(msgspec.Struct):
    """Response, key 1, versions 12-13."""

    throttle_time_ms: int = 0
    error_code: int = 0
    session_id: int = 0
    responses: list[FetchResponse_FetchableTopicResponse] = []
    node_endpoints: list[FetchResponse_NodeEndpoint] = []
    applied_version: int = -1
    applied_offsets: list[FetchResponse_AppliedOffset] = []

class FetchResponse_FetchableTopicResponse(msgspec.Struct):
    topic: str = ""
    topic_id: Uuid = Uuid.ZERO
    partitions: list[FetchResponse_PartitionData] = []

class FetchResponse_PartitionData(msgspec.Struct):
    partition_index: int = 0
    error_code: int = 0
    high_watermark: int = 0
    last_stable_offset: int = -1
    log_start_offset: int = -1
    diverging_epoch: FetchResponse_EpochEndOffset = ...
    current_leader: FetchResponse_LeaderIdAndEpoch = ...
    snapshot_id: FetchResponse_SnapshotId = ...
    aborted_transactions: list[FetchResponse_AbortedTransaction] | None = []
    preferred_read_replica: int = -1
    records: bytes | None = None
    attach: FetchResponse_StagedAttach = ...
    quorum_snapshot: FetchResponse_QuorumSnapshot = ...

class FetchResponse_EpochEndOffset(msgspec.Struct):
    epoch: int = -1
    end_offset: int = -1

class FetchResponse_LeaderIdAndEpoch(msgspec.Struct):
    leader_id: int = -1
    leader_epoch: int = -1

class FetchResponse_SnapshotId(msgspec.Struct):
    end_offset: int = -1
    epoch: int = -1

class FetchResponse_AbortedTransaction(msgspec.Struct):
    producer_id: int = 0
    first_offset: int = 0

class FetchResponse_StagedAttach(msgspec.Struct):
    directory: str = ""
    plan: int = -1
    base_offset: int = -1
    end_offset: int = -1
    leader_epoch: int = -1
    append_time: int = -1

class FetchResponse_QuorumSnapshot(msgspec.Struct):
    end_offset: int = -1
    epoch: int = -1

class FetchResponse_NodeEndpoint(msgspec.Struct):
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None

class FetchResponse_AppliedOffset(msgspec.Struct):
    broker_id: int = 0
    end_offset: int = 0

class ListOffsetsRequest(msgspec.Struct):
    """Request, key 2, versions 5-6."""

    replica_id: int = 0
    isolation_level: int = 0
    topics: list[ListOffsetsRequest_ListOffsetsTopic] = []

class ListOffsetsRequest_ListOffsetsTopic(msgspec.Struct):
    topic: str = ""
    topic_id: Uuid = Uuid.ZERO
    partitions: list[ListOffsetsRequest_ListOffsetsPartition] = []

class ListOffsetsRequest_ListOffsetsPartition(msgspec.Struct):
    partition_index: int = 0
    current_leader_epoch: int = -1
    timestamp: int = 0

class ListOffsetsResponse(msgspec.Struct):
    """Response, key 2, versions 5-6."""

    throttle_time_ms: int = 0
    topics: list[ListOffsetsResponse_ListOffsetsTopicResponse] = []

class ListOffsetsResponse_ListOffsetsTopicResponse(msgspec.Struct):
    topic: str = ""
    topic_id: Uuid = Uuid.ZERO
    partitions: list[ListOffsetsResponse_ListOffsetsPartitionResponse] = []

class ListOffsetsResponse_ListOffsetsPartitionResponse(msgspec.Struct):
    partition_index: int = 0
    error_code: int = 0
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1

class LeaderAndIsrRequest(msgspec.Struct):
    """Request, key 4, versions 4-5."""

    controller_id: int = 0
    controller_epoch: int = 0
    broker_epoch: int = -1
    type: int = 0
    topic_states: list[LeaderAndIsrRequest_LeaderAndIsrTopicState] = []
    live_leaders: list[LeaderAndIsrRequest_LeaderAndIsrLiveLeader] = []

class LeaderAndIsrRequest_LeaderAndIsrTopicState(msgspec.Struct):
    topic_name: str = ""
    topic_id: Uuid = Uuid.ZERO
    partition_states: list[LeaderAndIsrRequest_LeaderAndIsrPartitionState] = []

class LeaderAndIsrRequest_LeaderAndIsrPartitionState(msgspec.Struct):
    partition_index: int = 0
    controller_epoch: int = 0
    leader: int = 0
    leader_epoch: int = 0
    isr: list[int] = []
    zk_version: int = 0
    replicas: list[int] = []
    adding_replicas: list[int] = []
    removing_replicas: list[int] = []
    is_new: bool = False
    start_offset: int = 0

class LeaderAndIsrRequest_LeaderAndIsrLiveLeader(msgspec.Struct):
    broker_id: int = 0
    host_name: str = ""
    port: int = 0

class LeaderAndIsrResponse(msgspec.Struct):
    """Response, key 4, versions 4-5."""

    error_code: int = 0
    topics: list[LeaderAndIsrResponse_LeaderAndIsrTopicError] = []
    named_errors: list[LeaderAndIsrResponse_NamedPartitionError] = []

class LeaderAndIsrResponse_LeaderAndIsrTopicError(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partition_errors: list[LeaderAndIsrResponse_LeaderAndIsrPartitionError] = []

class LeaderAndIsrResponse_LeaderAndIsrPartitionError(msgspec.Struct):
    partition_index: int = 0
    error_code: int = 0

class LeaderAndIsrResponse_NamedPartitionError(msgspec.Struct):
    topic_name: str = ""
    partition_index: int = 0
    error_code: int = 0

class StopReplicaRequest(msgspec.Struct):
    """Request, key 5, versions 3-4."""

    controller_id: int = 0
    controller_epoch: int = 0
    broker_epoch: int = -1
    delete_partitions: bool = False
    topic_states: list[StopReplicaRequest_StopReplicaTopicState] = []

class StopReplicaRequest_StopReplicaTopicState(msgspec.Struct):
    topic_name: str = ""
    topic_id: Uuid = Uuid.ZERO
    partition_states: list[StopReplicaRequest_StopReplicaPartitionState] = []
    last_epoch: int = -1

class StopReplicaRequest_StopReplicaPartitionState(msgspec.Struct):
    partition_index: int = 0
    leader_epoch: int = -1
    delete_partition: bool = False

class StopReplicaResponse(msgspec.Struct):
    """Response, key 5, versions 3-4."""

    error_code: int = 0
    topics: list[StopReplicaResponse_StopReplicaTopicError] = []
    named_errors: list[StopReplicaResponse_NamedPartitionError] = []

class StopReplicaResponse_StopReplicaTopicError(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partition_errors: list[StopReplicaResponse_StopReplicaPartitionError] = []

class StopReplicaResponse_StopReplicaPartitionError(msgspec.Struct):
    partition_index: int = 0
    error_code: int = 0

class StopReplicaResponse_NamedPartitionError(msgspec.Struct):
    topic_name: str = ""
    partition_index: int = 0
    error_code: int = 0

class UpdateMetadataRequest(msgspec.Struct):
    """Request, key 6, versions 6-7."""

    controller_id: int = 0
    controller_epoch: int = 0
    broker_epoch: int = -1
    topic_states: list[UpdateMetadataRequest_UpdateMetadataTopicState] = []
    live_brokers: list[UpdateMetadataRequest_UpdateMetadataBroker] = []

class UpdateMetadataRequest_UpdateMetadataTopicState(msgspec.Struct):
    topic_name: str = ""
    topic_id: Uuid = Uuid.ZERO
    partition_states: list[UpdateMetadataRequest_UpdateMetadataPartitionState] = []

class UpdateMetadataRequest_UpdateMetadataPartitionState(msgspec.Struct):
    partition_index: int = 0
    controller_epoch: int = 0
    leader: int = 0
    leader_epoch: int = 0
    isr: list[int] = []
    zk_version: int = 0
    replicas: list[int] = []
    offline_replicas: list[int] = []

class UpdateMetadataRequest_UpdateMetadataBroker(msgspec.Struct):
    id: int = 0
    endpoints: list[UpdateMetadataRequest_UpdateMetadataEndpoint] = []
    rack: str | None = ""

class UpdateMetadataRequest_UpdateMetadataEndpoint(msgspec.Struct):
    port: int = 0
    host: str = ""
    listener: str = ""
    security_protocol: int = 0

class UpdateMetadataResponse(msgspec.Struct):
    """Response, key 6, versions 6-7."""

    error_code: int = 0

class ControlledShutdownRequest(msgspec.Struct):
    """Request, key 7, versions 3-3."""

    broker_id: int = 0
    broker_epoch: int = -1

class ControlledShutdownResponse(msgspec.Struct):
    """Response, key 7, versions 3-3."""

    error_code: int = 0
    remaining_partitions: list[ControlledShutdownResponse_RemainingPartition] = []

class ControlledShutdownResponse_RemainingPartition(msgspec.Struct):
    topic_name: str = ""
    partition_index: int = 0

class OffsetForLeaderEpochRequest(msgspec.Struct):
    """Request, key 23, versions 3-4."""

    replica_id: int = -2
    topics: list[OffsetForLeaderEpochRequest_OffsetForLeaderTopic] = []

class OffsetForLeaderEpochRequest_OffsetForLeaderTopic(msgspec.Struct):
    topic: str = ""
    topic_id: Uuid = Uuid.ZERO
    partitions: list[OffsetForLeaderEpochRequest_OffsetForLeaderPartition] = []

class OffsetForLeaderEpochRequest_OffsetForLeaderPartition(msgspec.Struct):
    partition: int = 0
    current_leader_epoch: int = -1
    leader_epoch: int = 0

class OffsetForLeaderEpochResponse(msgspec.Struct):
    """Response, key 23, versions 3-4."""

    throttle_time_ms: int = 0
    topics: list[OffsetForLeaderEpochResponse_OffsetForLeaderTopicResult] = []

class OffsetForLeaderEpochResponse_OffsetForLeaderTopicResult(msgspec.Struct):
    topic: str = ""
    topic_id: Uuid = Uuid.ZERO
    partitions: list[OffsetForLeaderEpochResponse_EpochEndOffset] = []

class OffsetForLeaderEpochResponse_EpochEndOffset(msgspec.Struct):
    error_code: int = 0
    partition: int = 0
    leader_epoch: int = -1
    end_offset: int = -1

class VoteRequest(msgspec.Struct):
    """Request, key 52, versions 0-1."""

    cluster_id: str | None = None
    voter_id: int = -1
    topics: list[VoteRequest_TopicData] = []

class VoteRequest_TopicData(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[VoteRequest_PartitionData] = []

class VoteRequest_PartitionData(msgspec.Struct):
    partition_index: int = 0
    candidate_epoch: int = 0
    candidate_id: int = 0
    candidate_directory_id: Uuid = Uuid.ZERO
    voter_directory_id: Uuid = Uuid.ZERO
    last_offset_epoch: int = 0
    last_offset: int = 0
    pre_vote: bool = False

class VoteResponse(msgspec.Struct):
    """Response, key 52, versions 0-1."""

    error_code: int = 0
    topics: list[VoteResponse_TopicData] = []
    node_endpoints: list[VoteResponse_NodeEndpoint] = []

class VoteResponse_TopicData(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[VoteResponse_PartitionData] = []

class VoteResponse_PartitionData(msgspec.Struct):
    partition_index: int = 0
    error_code: int = 0
    leader_id: int = 0
    leader_epoch: int = 0
    vote_granted: bool = False

class VoteResponse_NodeEndpoint(msgspec.Struct):
    node_id: int = 0
    host: str = ""
    port: int = 0

class BeginQuorumEpochRequest(msgspec.Struct):
    """Request, key 53, versions 0-1."""

    cluster_id: str | None = None
    voter_id: int = -1
    topics: list[BeginQuorumEpochRequest_TopicData] = []
    leader_endpoints: list[BeginQuorumEpochRequest_LeaderEndpoint] = []

class BeginQuorumEpochRequest_TopicData(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[BeginQuorumEpochRequest_PartitionData] = []

class BeginQuorumEpochRequest_PartitionData(msgspec.Struct):
    partition_index: int = 0
    voter_directory_id: Uuid = Uuid.ZERO
    leader_id: int = 0
    leader_directory_id: Uuid = Uuid.ZERO
    leader_epoch: int = 0

class BeginQuorumEpochRequest_LeaderEndpoint(msgspec.Struct):
    name: str = ""
    host: str = ""
    port: int = 0

class BeginQuorumEpochResponse(msgspec.Struct):
    """Response, key 53, versions 0-1."""

    error_code: int = 0
    topics: list[BeginQuorumEpochResponse_TopicData] = []
    node_endpoints: list[BeginQuorumEpochResponse_NodeEndpoint] = []

class BeginQuorumEpochResponse_TopicData(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[BeginQuorumEpochResponse_PartitionData] = []

class BeginQuorumEpochResponse_PartitionData(msgspec.Struct):
    partition_index: int = 0
    error_code: int = 0
    leader_id: int = 0
    leader_epoch: int = 0

class BeginQuorumEpochResponse_NodeEndpoint(msgspec.Struct):
    node_id: int = 0
    host: str = ""
    port: int = 0

class EndQuorumEpochRequest(msgspec.Struct):
    """Request, key 54, versions 0-1."""

    cluster_id: str | None = None
    topics: list[EndQuorumEpochRequest_TopicData] = []
    leader_endpoints: list[EndQuorumEpochRequest_LeaderEndpoint] = []

class EndQuorumEpochRequest_TopicData(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[EndQuorumEpochRequest_PartitionData] = []

class EndQuorumEpochRequest_PartitionData(msgspec.Struct):
    partition_index: int = 0
    leader_id: int = 0
    leader_directory_id: Uuid = Uuid.ZERO
    leader_epoch: int = 0
    preferred_successors: list[int] = []

class EndQuorumEpochRequest_LeaderEndpoint(msgspec.Struct):
    name: str = ""
    host: str = ""
    port: int = 0

class EndQuorumEpochResponse(msgspec.Struct):
    """Response, key 54, versions 0-1."""

    error_code: int = 0
    topics: list[EndQuorumEpochResponse_TopicData] = []
    node_endpoints: list[EndQuorumEpochResponse_NodeEndpoint] = []

class EndQuorumEpochResponse_TopicData(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[EndQuorumEpochResponse_PartitionData] = []

class EndQuorumEpochResponse_PartitionData(msgspec.Struct):
    partition_index: int = 0
    error_code: int = 0
    leader_id: int = 0
    leader_epoch: int = 0

class EndQuorumEpochResponse_NodeEndpoint(msgspec.Struct):
    node_id: int = 0
    host: str = ""
    port: int = 0

class AlterPartitionRequest(msgspec.Struct):
    """Request, key 56, versions 3-3."""

    broker_id: int = 0
    broker_epoch: int = -1
    topics: list[AlterPartitionRequest_AlterPartitionTopic] = []

class AlterPartitionRequest_AlterPartitionTopic(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[AlterPartitionRequest_AlterPartitionPartition] = []

class AlterPartitionRequest_AlterPartitionPartition(msgspec.Struct):
    partition_index: int = 0
    leader_epoch: int = 0
    new_isr_with_epochs: list[AlterPartitionRequest_BrokerState] = []
    leader_recovery_state: int = 0
    partition_epoch: int = 0

class AlterPartitionRequest_BrokerState(msgspec.Struct):
    broker_id: int = 0
    broker_epoch: int = -1

class AlterPartitionResponse(msgspec.Struct):
    """Response, key 56, versions 3-3."""

    throttle_time_ms: int = 0
    error_code: int = 0
    topics: list[AlterPartitionResponse_AlterPartitionTopicResult] = []

class AlterPartitionResponse_AlterPartitionTopicResult(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[AlterPartitionResponse_AlterPartitionPartitionResult] = []

class AlterPartitionResponse_AlterPartitionPartitionResult(msgspec.Struct):
    partition_index: int = 0
    error_code: int = 0
    leader_id: int = 0
    leader_epoch: int = 0
    isr: list[int] = []
    leader_recovery_state: int = 0
    partition_epoch: int = 0

class EnvelopeRequest(msgspec.Struct):
    """Request, key 58, versions 0-0."""

    request_data: bytes = b""
    request_principal: bytes | None = b""
    client_host_address: bytes = b""
    request_id: Uuid = Uuid.ZERO

class EnvelopeResponse(msgspec.Struct):
    """Response, key 58, versions 0-0."""

    response_data: bytes | None = None
    error_code: int = 0
    change_number: int = -1
    controller_epoch: int = -1

class FetchSnapshotRequest(msgspec.Struct):
    """Request, key 59, versions 1-1."""

    cluster_id: str | None = None
    replica_id: int = -1
    max_bytes: int = 2147483647
    topics: list[FetchSnapshotRequest_TopicSnapshot] = []

class FetchSnapshotRequest_TopicSnapshot(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[FetchSnapshotRequest_PartitionSnapshot] = []

class FetchSnapshotRequest_PartitionSnapshot(msgspec.Struct):
    partition: int = 0
    current_leader_epoch: int = 0
    snapshot_id: FetchSnapshotRequest_SnapshotId = ...
    position: int = 0
    replica_directory_id: Uuid = Uuid.ZERO

class FetchSnapshotRequest_SnapshotId(msgspec.Struct):
    end_offset: int = 0
    epoch: int = 0

class FetchSnapshotResponse(msgspec.Struct):
    """Response, key 59, versions 1-1."""

    throttle_time_ms: int = 0
    error_code: int = 0
    topics: list[FetchSnapshotResponse_TopicSnapshot] = []
    node_endpoints: list[FetchSnapshotResponse_NodeEndpoint] = []

class FetchSnapshotResponse_TopicSnapshot(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[FetchSnapshotResponse_PartitionSnapshot] = []

class FetchSnapshotResponse_PartitionSnapshot(msgspec.Struct):
    index: int = 0
    error_code: int = 0
    snapshot_id: FetchSnapshotResponse_SnapshotId = ...
    current_leader: FetchSnapshotResponse_LeaderIdAndEpoch = ...
    size: int = 0
    position: int = 0
    unaligned_records: bytes | None = None

class FetchSnapshotResponse_SnapshotId(msgspec.Struct):
    end_offset: int = 0
    epoch: int = 0

class FetchSnapshotResponse_LeaderIdAndEpoch(msgspec.Struct):
    leader_id: int = 0
    leader_epoch: int = 0

class FetchSnapshotResponse_NodeEndpoint(msgspec.Struct):
    node_id: int = 0
    host: str = ""
    port: int = 0

class IngestAppendRequest(msgspec.Struct):
    """Request, key 32151, versions 0-0."""

    topic_id: Uuid = Uuid.ZERO
    ingest_id: str = ""
    batch_id: int = -1
    epoch: int = 0
    writer: int = 0
    attempt: int = 0
    partitions: list[IngestAppendRequest_IngestAppendPartition] = []

class IngestAppendRequest_IngestAppendPartition(msgspec.Struct):
    partition: int = 0
    sequence: int = 0
    records: bytes | None = None

class IngestAppendResponse(msgspec.Struct):
    """Response, key 32151, versions 0-0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    partitions: list[IngestAppendResponse_IngestAppendPartitionResponse] = []

class IngestAppendResponse_IngestAppendPartitionResponse(msgspec.Struct):
    partition: int = 0
    error_code: int = 0
    error_message: str | None = ""
    next_sequence: int = -1

class UpdateClusterRequest(msgspec.Struct):
    """Request, key 32160, versions 0-0."""

    controller_id: int = 0
    controller_epoch: int = 0
    broker_epoch: int = 0
    number: int = 0
    whole: bool = False
    change: bytes = b""

class UpdateClusterResponse(msgspec.Struct):
    """Response, key 32160, versions 0-0."""

    error_code: int = 0

class RestoreReplicasRequest(msgspec.Struct):
    """Request, key 32161, versions 0-0."""

    controller_id: int = 0
    controller_epoch: int = 0
    broker_epoch: int = 0
    topic_states: list[RestoreReplicasRequest_RestoreTopicState] = []

class RestoreReplicasRequest_RestoreTopicState(msgspec.Struct):
    topic_name: str = ""
    topic_id: Uuid = Uuid.ZERO
    partitions: list[int] = []

class RestoreReplicasResponse(msgspec.Struct):
    """Response, key 32161, versions 0-0."""

    error_code: int = 0
    topics: list[RestoreReplicasResponse_RestoredTopic] = []

class RestoreReplicasResponse_RestoredTopic(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partition_errors: list[RestoreReplicasResponse_RestoredPartition] = []

class RestoreReplicasResponse_RestoredPartition(msgspec.Struct):
    partition_index: int = 0
    error_code: int = 0

class CloseTopicsRequest(msgspec.Struct):
    """Request, key 32162, versions 0-0."""

    controller_id: int = 0
    controller_epoch: int = 0
    broker_epoch: int = 0
    topics: list[Uuid] = []
    number: int = 0

class CloseTopicsResponse(msgspec.Struct):
    """Response, key 32162, versions 0-0."""

    error_code: int = 0
    topics: list[CloseTopicsResponse_ClosedTopic] = []

class CloseTopicsResponse_ClosedTopic(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    ends: list[CloseTopicsResponse_ClosedPartition] = []
    offsets: list[bytes] = []

class CloseTopicsResponse_ClosedPartition(msgspec.Struct):
    partition_index: int = 0
    log_start_offset: int = 0
    log_end_offset: int = 0

class ReopenTopicsRequest(msgspec.Struct):
    """Request, key 32163, versions 0-0."""

    controller_id: int = 0
    controller_epoch: int = 0
    broker_epoch: int = 0
    topics: list[Uuid] = []
    number: int = 0

class ReopenTopicsResponse(msgspec.Struct):
    """Response, key 32163, versions 0-0."""

    error_code: int = 0

class SubmitEventRequest(msgspec.Struct):
    """Request, key 32164, versions 0-0."""

    broker_id: int = 0
    event: bytes = b""
    timeout_ms: int = 0
    asked_ms_ago: int = 0
    client_id: str = ""
    slowed_only: bool = False

class SubmitEventResponse(msgspec.Struct):
    """Response, key 32164, versions 0-0."""

    error_code: int = 0
    error_message: str | None = ""
    reply: bytes = b""
    in_force: bool = False
    throttle_time_ms: int = 0

class IngestOrderRequest(msgspec.Struct):
    """Request, key 32165, versions 0-0."""

    order: bytes = b""
    timeout_ms: int = 0

class IngestOrderResponse(msgspec.Struct):
    """Response, key 32165, versions 0-0."""

    error_code: int = 0
    error_message: str | None = ""
    outcome: bytes = b""

class VerifyTransactionRequest(msgspec.Struct):
    """Request, key 32166, versions 0-0."""

    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    adds: bool = False
    partitions: list[VerifyTransactionRequest_TransactionPartition] = []

class VerifyTransactionRequest_TransactionPartition(msgspec.Struct):
    topic: str = ""
    topic_id: Uuid = Uuid.ZERO
    partition_index: int = 0

class VerifyTransactionResponse(msgspec.Struct):
    """Response, key 32166, versions 0-0."""

    error_code: int = 0
    partition_errors: list[int] = []

class EndTransactionRequest(msgspec.Struct):
    """Request, key 32167, versions 0-0."""

    producer_id: int = 0
    producer_epoch: int = 0
    committed: bool = False
    coordinator_epoch: int = 0
    transaction_version: int = 0
    partitions: list[EndTransactionRequest_TransactionPartition] = []

class EndTransactionRequest_TransactionPartition(msgspec.Struct):
    topic: str = ""
    topic_id: Uuid = Uuid.ZERO
    partition_index: int = 0

class EndTransactionResponse(msgspec.Struct):
    """Response, key 32167, versions 0-0."""

    error_code: int = 0
    partition_errors: list[int] = []

class AppendDeadLettersRequest(msgspec.Struct):
    """Request, key 32168, versions 0-0."""

    topic_id: Uuid = Uuid.ZERO
    partition_index: int = 0
    records: bytes = b""

class AppendDeadLettersResponse(msgspec.Struct):
    """Response, key 32168, versions 0-0."""

    error_code: int = 0

class ProbeBrokerRequest(msgspec.Struct):
    """Request, key 32170, versions 0-0."""

    broker_id: int = 0
    broker_epoch: int = 0

class ProbeBrokerResponse(msgspec.Struct):
    """Response, key 32170, versions 0-0."""

    error_code: int = 0
    refused: bool = False

class StagedReplicasRequest(msgspec.Struct):
    """Request, key 32171, versions 0-0."""

    topic_ids: list[Uuid] = []

class StagedReplicasResponse(msgspec.Struct):
    """Response, key 32171, versions 0-0."""

    error_code: int = 0
    replicas: list[StagedReplicasResponse_StagedReplica] = []

class StagedReplicasResponse_StagedReplica(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partition_index: int = 0
    log_dir: str = ""
    size_bytes: int = 0
    remaining_ms: int = 0
    removing: bool = False
