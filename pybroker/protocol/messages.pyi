"""The classes of pybroker.protocol.messages. Written by native/protocol/schema/write_stubs.py."""

import msgspec

from pybroker.native import Uuid
from pybroker.protocol.interbroker import (
    LeaderAndIsrRequest as LeaderAndIsrRequest,
)
from pybroker.protocol.interbroker import (
    LeaderAndIsrRequest_LeaderAndIsrLiveLeader as LeaderAndIsrRequest_LeaderAndIsrLiveLeader,
)
from pybroker.protocol.interbroker import (
    LeaderAndIsrRequest_LeaderAndIsrPartitionState as LeaderAndIsrRequest_LeaderAndIsrPartitionState,
)
from pybroker.protocol.interbroker import (
    LeaderAndIsrRequest_LeaderAndIsrTopicState as LeaderAndIsrRequest_LeaderAndIsrTopicState,
)
from pybroker.protocol.interbroker import (
    LeaderAndIsrResponse as LeaderAndIsrResponse,
)
from pybroker.protocol.interbroker import (
    LeaderAndIsrResponse_LeaderAndIsrPartitionError as LeaderAndIsrResponse_LeaderAndIsrPartitionError,
)
from pybroker.protocol.interbroker import (
    LeaderAndIsrResponse_LeaderAndIsrTopicError as LeaderAndIsrResponse_LeaderAndIsrTopicError,
)
from pybroker.protocol.interbroker import (
    LeaderAndIsrResponse_NamedPartitionError as LeaderAndIsrResponse_NamedPartitionError,
)
from pybroker.protocol.interbroker import (
    StopReplicaRequest as StopReplicaRequest,
)
from pybroker.protocol.interbroker import (
    StopReplicaRequest_StopReplicaPartitionState as StopReplicaRequest_StopReplicaPartitionState,
)
from pybroker.protocol.interbroker import (
    StopReplicaRequest_StopReplicaTopicState as StopReplicaRequest_StopReplicaTopicState,
)
from pybroker.protocol.interbroker import (
    StopReplicaResponse as StopReplicaResponse,
)
from pybroker.protocol.interbroker import (
    StopReplicaResponse_NamedPartitionError as StopReplicaResponse_NamedPartitionError,
)
from pybroker.protocol.interbroker import (
    StopReplicaResponse_StopReplicaPartitionError as StopReplicaResponse_StopReplicaPartitionError,
)
from pybroker.protocol.interbroker import (
    StopReplicaResponse_StopReplicaTopicError as StopReplicaResponse_StopReplicaTopicError,
)
from pybroker.protocol.interbroker import (
    UpdateMetadataRequest as UpdateMetadataRequest,
)
from pybroker.protocol.interbroker import (
    UpdateMetadataRequest_UpdateMetadataBroker as UpdateMetadataRequest_UpdateMetadataBroker,
)
from pybroker.protocol.interbroker import (
    UpdateMetadataRequest_UpdateMetadataEndpoint as UpdateMetadataRequest_UpdateMetadataEndpoint,
)
from pybroker.protocol.interbroker import (
    UpdateMetadataRequest_UpdateMetadataPartitionState as UpdateMetadataRequest_UpdateMetadataPartitionState,
)
from pybroker.protocol.interbroker import (
    UpdateMetadataRequest_UpdateMetadataTopicState as UpdateMetadataRequest_UpdateMetadataTopicState,
)
from pybroker.protocol.interbroker import (
    UpdateMetadataResponse as UpdateMetadataResponse,
)

class StoredGroup(msgspec.Struct):
    """Data, versions 0-4."""

    protocol_type: str = ""
    generation: int = 0
    protocol: str | None = ""
    leader: str | None = ""
    current_state_timestamp: int = -1
    members: list[StoredGroup_MemberMetadata] = []
    formed_topics: list[StoredGroup_FormedTopic] = []

class StoredGroup_MemberMetadata(msgspec.Struct):
    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: int = -1
    session_timeout: int = 0
    subscription: bytes = b""
    assignment: bytes = b""

class StoredGroup_FormedTopic(msgspec.Struct):
    name: str = ""
    topic_id: Uuid = Uuid.ZERO

class StoredOffset(msgspec.Struct):
    """Data, versions 0-4."""

    offset: int = 0
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp: int = 0
    expire_timestamp: int = -1
    topic_id: Uuid = Uuid.ZERO
    own_expire_timestamp: int = -1

class AccessControlEntryRecord(msgspec.Struct):
    """Data, versions 0-0."""

    id: Uuid = Uuid.ZERO
    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 0
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0

class BrokerRegistrationChangeRecord(msgspec.Struct):
    """Data, versions 0-3."""

    broker_id: int = 0
    broker_epoch: int = 0
    fenced: int = 0
    in_controlled_shutdown: int = 0
    log_dirs: list[Uuid] = []
    cordoned_log_dirs: list[Uuid] | None = None

class ClearElrRecord(msgspec.Struct):
    """Data, versions 0-0."""

    topic_name: str = ""

class ClientQuotaRecord(msgspec.Struct):
    """Data, versions 0-0."""

    entity: list[ClientQuotaRecord_EntityData] = []
    key: str = ""
    value: float = 0.0
    remove: bool = False
    text: str = ""

class ClientQuotaRecord_EntityData(msgspec.Struct):
    entity_type: str = ""
    entity_name: str | None = ""

class ConfigRecord(msgspec.Struct):
    """Data, versions 0-0."""

    resource_type: int = 0
    resource_name: str = ""
    name: str = ""
    value: str | None = ""

class DelegationTokenRecord(msgspec.Struct):
    """Data, versions 0-0."""

    owner: str = ""
    requester: str = ""
    renewers: list[str] = []
    issue_timestamp: int = 0
    max_timestamp: int = 0
    expiration_timestamp: int = 0
    token_id: str = ""
    version: int = -1

class FeatureLevelRecord(msgspec.Struct):
    """Data, versions 0-0."""

    name: str = ""
    feature_level: int = 0
    removed: bool = False

class NoOpRecord(msgspec.Struct):
    """Data, versions 0-0."""

    broker_epochs: list[NoOpRecord_BrokerEpoch] = []
    topics: list[NoOpRecord_TopicDetails] = []
    config_versions: list[NoOpRecord_ConfigVersion] = []
    config_entries: list[NoOpRecord_ConfigEntry] = []
    acl_versions: list[NoOpRecord_AclVersion] = []
    features_version: int = -2
    epoch_floors: list[NoOpRecord_EpochFloor] = []
    leftovers: list[NoOpRecord_Leftover] = []
    dropped_orders: list[str] = []
    raised: bool = False
    deletions: list[NoOpRecord_Deletion] = []
    deletion_data: list[NoOpRecord_DeletionData] = []
    forgotten_deletions: list[Uuid] = []
    ingests: list[NoOpRecord_Ingest] = []
    committed_ingests: list[NoOpRecord_Ingest] = []
    ended_ingests: list[NoOpRecord_IngestKey] = []
    forgotten_ingests: list[NoOpRecord_IngestSeries] = []
    ingest_folders: list[NoOpRecord_IngestFolder] = []
    removed_ingest_folders: list[str] = []
    cluster: NoOpRecord_ClusterDetails | None = None
    broker_runs: list[NoOpRecord_BrokerRun] = []
    staged: list[NoOpRecord_StagedMark] = []
    unstaged: list[NoOpRecord_StagedKey] = []
    outcomes: list[NoOpRecord_RequestOutcome] = []
    forgotten_outcomes: list[Uuid] = []

class NoOpRecord_BrokerEpoch(msgspec.Struct):
    broker_id: int = 0
    broker_epoch: int = 0

class NoOpRecord_TopicDetails(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    created_ms: int = 0
    node_version: int = 0
    config_version: int = 0
    lineage: NoOpRecord_Lineage = ...
    departed: list[NoOpRecord_PartitionRemovals] = []

class NoOpRecord_Lineage(msgspec.Struct):
    events: list[NoOpRecord_TopicEvent] = []
    first_epoch: int = 0
    lives: list[NoOpRecord_EpochRange] = []
    start_offsets: list[int] = []

class NoOpRecord_PartitionRemovals(msgspec.Struct):
    partition_id: int = 0
    removals: list[NoOpRecord_ReplicaRemoval] = []

class NoOpRecord_ReplicaRemoval(msgspec.Struct):
    broker_id: int = 0
    leader_epoch: int = 0

class NoOpRecord_ConfigVersion(msgspec.Struct):
    resource_type: int = 0
    resource_name: str = ""
    version: int = 0

class NoOpRecord_ConfigEntry(msgspec.Struct):
    resource_type: int = 0
    resource_name: str = ""
    name: str = ""
    value: str | None = ""

class NoOpRecord_AclVersion(msgspec.Struct):
    resource_type: int = 0
    pattern_type: int = 0
    resource_name: str = ""
    version: int = 0

class NoOpRecord_EpochFloor(msgspec.Struct):
    topic_name: str = ""
    leader_epoch: int = 0

class NoOpRecord_Leftover(msgspec.Struct):
    topic_name: str = ""
    partitions: int = 0

class NoOpRecord_Deletion(msgspec.Struct):
    topic_name: str = ""
    topic_id: Uuid = Uuid.ZERO
    state: str = ""
    created_ms: int = 0
    deleted_ms: int = 0
    deleted_by: str = ""
    remove_after_ms: int = 0
    config: list[NoOpRecord_Setting] = []
    leader_epoch_max: int = 0
    how: str = ""
    lineage: NoOpRecord_Lineage = ...
    successor: Uuid = Uuid.ZERO
    restore_as: str | None = ""
    restored_by: str = ""
    restored_ms: int = 0
    offsets_for: Uuid = Uuid.ZERO
    by_order: bool = False
    missing: list[int] | None = []
    closed: bool = False
    outcomes: list[NoOpRecord_TransactionOutcome] = []
    pieces: int = 0
    unregistered: list[int] = []
    offsets_given: list[str] = []
    delay_max_ms: int = 0
    same_data: bool = False

class NoOpRecord_Setting(msgspec.Struct):
    name: str = ""
    value: str = ""

class NoOpRecord_TransactionOutcome(msgspec.Struct):
    producer_id: int = 0
    producer_epoch: int = 0
    coordinator_epoch: int = 0
    committed: bool = False
    version: int = 0
    partitions: list[int] = []

class NoOpRecord_DeletionData(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[NoOpRecord_DeletedPartition] = []
    ends: list[NoOpRecord_LogRange] = []
    isr: list[list[int]] = []
    departed: list[NoOpRecord_DepartedBrokers] = []
    offsets: list[NoOpRecord_DeletedOffset] = []

class NoOpRecord_DeletedPartition(msgspec.Struct):
    partition_id: int = 0
    replicas: list[int] = []

class NoOpRecord_LogRange(msgspec.Struct):
    start_offset: int = 0
    end_offset: int = 0

class NoOpRecord_DepartedBrokers(msgspec.Struct):
    partition_id: int = 0
    brokers: list[int] = []

class NoOpRecord_DeletedOffset(msgspec.Struct):
    group: str = ""
    partition_id: int = 0
    offset: int = 0
    leader_epoch: int = 0
    metadata: str = ""
    commit_timestamp_ms: int = 0
    expire_timestamp_ms: int = 0
    log_offset: int = 0

class NoOpRecord_Ingest(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    ingest_id: str = ""
    batch_id: int = 0
    epoch: int = 0
    state: str = ""
    ttl_ms: int = 0
    created_ms: int = 0
    config: list[NoOpRecord_Setting] = []
    committed_ms: int = 0
    partitions: list[NoOpRecord_IngestPartition] = []
    plan: int = 0
    reopened: int = 0
    touched_ms: int = 0

class NoOpRecord_IngestKey(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    ingest_id: str = ""
    batch_id: int = 0

class NoOpRecord_IngestSeries(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    ingest_id: str = ""
    stream: bool = False

class NoOpRecord_IngestFolder(msgspec.Struct):
    path: str = ""
    topic_id: Uuid = Uuid.ZERO

class NoOpRecord_ClusterDetails(msgspec.Struct):
    controller_epoch: int = 0
    topic_ids: bool = False
    unclean_elections: bool = False
    damaged_topics: list[NoOpRecord_DamagedTopic] = []
    damaged_ingests: list[str] = []
    delete_orders: list[str] = []
    end_offset: int = 0

class NoOpRecord_DamagedTopic(msgspec.Struct):
    topic_name: str = ""
    reason: str = ""

class NoOpRecord_BrokerRun(msgspec.Struct):
    broker_id: int = 0
    boot_id: str = ""
    flush_mode: str = ""
    directory_ids: list[str] = []
    gone: list[str] = []
    stopped: bool = False
    suspect: bool = False
    topic_ids: bool = False

class NoOpRecord_StagedMark(msgspec.Struct):
    broker_id: int = 0
    topic_id: Uuid = Uuid.ZERO
    topic_name: str = ""
    staged_ms: int = 0
    remove_after_ms: int = 0
    boot_id: str = ""
    monotonic_ms: int = 0
    left_ms: int = 0
    promised: bool = False

class NoOpRecord_StagedKey(msgspec.Struct):
    broker_id: int = 0
    topic_id: Uuid = Uuid.ZERO

class NoOpRecord_RequestOutcome(msgspec.Struct):
    request_id: Uuid = Uuid.ZERO
    at_ms: int = 0
    event: str = ""
    reply: bytes | None = b""

class NoOpRecord_TopicEvent(msgspec.Struct):
    what: str = ""
    at_ms: int = 0
    by: str = ""
    name: str = ""

class NoOpRecord_EpochRange(msgspec.Struct):
    first_epoch: int = 0
    last_epoch: int = 0

class NoOpRecord_IngestPartition(msgspec.Struct):
    partition_id: int = 0
    rows: int = 0
    bytes: int = 0
    base_offset: int = 0
    end_offset: int = 0

class PartitionChangeRecord(msgspec.Struct):
    """Data, versions 0-2."""

    partition_id: int = 0
    topic_id: Uuid = Uuid.ZERO
    isr: list[int] | None = None
    leader: int = -2
    replicas: list[int] | None = None
    removing_replicas: list[int] | None = None
    adding_replicas: list[int] | None = None
    leader_recovery_state: int = -1
    eligible_leader_replicas: list[int] | None = None
    last_known_elr: list[int] | None = None
    directories: list[Uuid] | None = None
    controller_epoch: int = -1
    suspect: list[PartitionChangeRecord_LogEnd] | None = None
    young: int = -1
    offline: list[int] | None = None
    leader_epoch: int = -2
    partition_epoch: int = -2

class PartitionChangeRecord_LogEnd(msgspec.Struct):
    broker_id: int = 0
    epoch: int = 0
    end: int = 0

class PartitionRecord(msgspec.Struct):
    """Data, versions 0-2."""

    partition_id: int = 0
    topic_id: Uuid = Uuid.ZERO
    replicas: list[int] = []
    isr: list[int] = []
    removing_replicas: list[int] = []
    adding_replicas: list[int] = []
    leader: int = -1
    leader_recovery_state: int = 0
    leader_epoch: int = -1
    partition_epoch: int = -1
    directories: list[Uuid] = []
    eligible_leader_replicas: list[int] | None = None
    last_known_elr: list[int] | None = None
    controller_epoch: int = 0
    suspect: list[PartitionRecord_LogEnd] = []
    young: bool = False
    offline: list[int] = []

class PartitionRecord_LogEnd(msgspec.Struct):
    broker_id: int = 0
    epoch: int = 0
    end: int = 0

class ProducerIdsRecord(msgspec.Struct):
    """Data, versions 0-0."""

    broker_id: int = 0
    broker_epoch: int = 0
    next_producer_id: int = 0

class RegisterBrokerRecord(msgspec.Struct):
    """Data, versions 0-4."""

    broker_id: int = 0
    is_migrating_zk_broker: bool = False
    incarnation_id: Uuid = Uuid.ZERO
    broker_epoch: int = 0
    end_points: list[RegisterBrokerRecord_BrokerEndpoint] = []
    features: list[RegisterBrokerRecord_BrokerFeature] = []
    rack: str | None = ""
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: list[Uuid] = []
    cordoned_log_dirs: list[Uuid] | None = None
    emptied: bool = False
    log_dir_paths: list[str] = []
    cordoned_paths: list[str] = []

class RegisterBrokerRecord_BrokerEndpoint(msgspec.Struct):
    name: str = ""
    host: str = ""
    port: int = 0
    security_protocol: int = 0

class RegisterBrokerRecord_BrokerFeature(msgspec.Struct):
    name: str = ""
    min_supported_version: int = 0
    max_supported_version: int = 0

class RemoveAccessControlEntryRecord(msgspec.Struct):
    """Data, versions 0-0."""

    id: Uuid = Uuid.ZERO
    resource_type: int = 0
    pattern_type: int = 0
    resource_name: str = ""

class RemoveDelegationTokenRecord(msgspec.Struct):
    """Data, versions 0-0."""

    token_id: str = ""

class RemoveTopicRecord(msgspec.Struct):
    """Data, versions 0-0."""

    topic_id: Uuid = Uuid.ZERO

class RemoveUserScramCredentialRecord(msgspec.Struct):
    """Data, versions 0-0."""

    name: str = ""
    mechanism: int = 0

class TopicRecord(msgspec.Struct):
    """Data, versions 0-0."""

    name: str = ""
    topic_id: Uuid = Uuid.ZERO

class UnregisterBrokerRecord(msgspec.Struct):
    """Data, versions 0-0."""

    broker_id: int = 0
    broker_epoch: int = 0

class UserScramCredentialRecord(msgspec.Struct):
    """Data, versions 0-0."""

    name: str = ""
    mechanism: int = 0
    salt: bytes = b""
    stored_key: bytes = b""
    server_key: bytes = b""
    iterations: int = 0

class StoredTransactionKey(msgspec.Struct):
    """Data, versions 0-0."""

    transactional_id: str = ""

class StoredTransaction(msgspec.Struct):
    """Data, versions 0-1."""

    producer_id: int = 0
    previous_producer_id: int = -1
    next_producer_id: int = -1
    producer_epoch: int = 0
    next_producer_epoch: int = -1
    transaction_timeout_ms: int = 0
    transaction_status: int = 0
    transaction_partitions: list[StoredTransaction_PartitionsSchema] | None = []
    transaction_last_update_timestamp_ms: int = 0
    transaction_start_timestamp_ms: int = 0
    client_transaction_version: int = 0

class StoredTransaction_PartitionsSchema(msgspec.Struct):
    topic: str = ""
    partition_ids: list[int] = []
    topic_id: Uuid = Uuid.ZERO

class AbortedTxn(msgspec.Struct):
    """Data, versions 0-0."""

    producer_id: int = 0
    first_offset: int = 0
    last_offset: int = 0
    last_stable_offset: int = 0

class ConsumerGroupCurrentMemberAssignmentKey(msgspec.Struct):
    """Data, versions 0-0."""

    group_id: str = ""
    member_id: str = ""

class ConsumerGroupCurrentMemberAssignmentValue(msgspec.Struct):
    """Data, versions 0-0."""

    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: int = 0
    assigned_partitions: list[ConsumerGroupCurrentMemberAssignmentValue_TopicPartitions] = []
    partitions_pending_revocation: list[ConsumerGroupCurrentMemberAssignmentValue_TopicPartitions] = []

class ConsumerGroupCurrentMemberAssignmentValue_TopicPartitions(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[int] = []
    assignment_epochs: list[int] | None = []

class ConsumerGroupMemberMetadataKey(msgspec.Struct):
    """Data, versions 0-0."""

    group_id: str = ""
    member_id: str = ""

class ConsumerGroupMemberMetadataValue(msgspec.Struct):
    """Data, versions 0-0."""

    instance_id: str | None = ""
    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = []
    subscribed_topic_regex: str | None = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = ""
    classic_member_metadata: ConsumerGroupMemberMetadataValue_ClassicMemberMetadata | None = ...

class ConsumerGroupMemberMetadataValue_ClassicMemberMetadata(msgspec.Struct):
    session_timeout_ms: int = 0
    supported_protocols: list[ConsumerGroupMemberMetadataValue_ClassicProtocol] = []

class ConsumerGroupMemberMetadataValue_ClassicProtocol(msgspec.Struct):
    name: str = ""
    metadata: bytes = b""

class ConsumerGroupMetadataKey(msgspec.Struct):
    """Data, versions 0-0."""

    group_id: str = ""

class ConsumerGroupMetadataValue(msgspec.Struct):
    """Data, versions 0-0."""

    epoch: int = 0
    metadata_hash: int = 0

class ConsumerGroupRegularExpressionKey(msgspec.Struct):
    """Data, versions 0-0."""

    group_id: str = ""
    regular_expression: str = ""

class ConsumerGroupRegularExpressionValue(msgspec.Struct):
    """Data, versions 0-0."""

    topics: list[str] = []
    version: int = 0
    timestamp: int = 0

class ConsumerGroupTargetAssignmentMemberKey(msgspec.Struct):
    """Data, versions 0-0."""

    group_id: str = ""
    member_id: str = ""

class ConsumerGroupTargetAssignmentMemberValue(msgspec.Struct):
    """Data, versions 0-0."""

    topic_partitions: list[ConsumerGroupTargetAssignmentMemberValue_TopicPartition] = []

class ConsumerGroupTargetAssignmentMemberValue_TopicPartition(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[int] = []

class ConsumerGroupTargetAssignmentMetadataKey(msgspec.Struct):
    """Data, versions 0-0."""

    group_id: str = ""

class ConsumerGroupTargetAssignmentMetadataValue(msgspec.Struct):
    """Data, versions 0-0."""

    assignment_epoch: int = 0
    assignment_timestamp: int = 0

class ConsumerProtocolAssignment(msgspec.Struct):
    """Data, versions 0-3."""

    assigned_partitions: list[ConsumerProtocolAssignment_TopicPartition] = []
    user_data: bytes | None = None

class ConsumerProtocolAssignment_TopicPartition(msgspec.Struct):
    topic: str = ""
    partitions: list[int] = []

class ConsumerProtocolSubscription(msgspec.Struct):
    """Data, versions 0-3."""

    topics: list[str] = []
    user_data: bytes | None = None
    owned_partitions: list[ConsumerProtocolSubscription_TopicPartition] = []
    generation_id: int = -1
    rack_id: str | None = None

class ConsumerProtocolSubscription_TopicPartition(msgspec.Struct):
    topic: str = ""
    partitions: list[int] = []

class ControlRecordTypeSchema(msgspec.Struct):
    """Data, versions 0-0."""

    type: int = 0

class DefaultPrincipalData(msgspec.Struct):
    """Data, versions 0-0."""

    type: str = ""
    name: str = ""
    token_authenticated: bool = False

class EndTxnMarker(msgspec.Struct):
    """Data, versions 0-0."""

    coordinator_epoch: int = 0

class GroupMetadataKey(msgspec.Struct):
    """Data, versions 0-0."""

    group: str = ""

class GroupMetadataValue(msgspec.Struct):
    """Data, versions 0-4."""

    protocol_type: str = ""
    generation: int = 0
    protocol: str | None = ""
    leader: str | None = ""
    current_state_timestamp: int = -1
    members: list[GroupMetadataValue_MemberMetadata] = []

class GroupMetadataValue_MemberMetadata(msgspec.Struct):
    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: int = -1
    session_timeout: int = 0
    subscription: bytes = b""
    assignment: bytes = b""

class KRaftVersionRecord(msgspec.Struct):
    """Data, versions 0-0."""

    version: int = 0
    kraft_version: int = 0

class LeaderChangeMessage(msgspec.Struct):
    """Data, versions 0-1."""

    version: int = 0
    leader_id: int = 0
    voters: list[LeaderChangeMessage_Voter] = []
    granting_voters: list[LeaderChangeMessage_Voter] = []

class LeaderChangeMessage_Voter(msgspec.Struct):
    voter_id: int = 0
    voter_directory_id: Uuid = Uuid.ZERO

class OffsetCommitKey(msgspec.Struct):
    """Data, versions 0-0."""

    group: str = ""
    topic: str = ""
    partition: int = 0

class OffsetCommitValue(msgspec.Struct):
    """Data, versions 0-4."""

    offset: int = 0
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp: int = 0
    expire_timestamp: int = -1
    topic_id: Uuid = Uuid.ZERO

class ShareGroupCurrentMemberAssignmentKey(msgspec.Struct):
    """Data, versions 0-0."""

    group_id: str = ""
    member_id: str = ""

class ShareGroupCurrentMemberAssignmentValue(msgspec.Struct):
    """Data, versions 0-0."""

    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: int = 0
    assigned_partitions: list[ShareGroupCurrentMemberAssignmentValue_TopicPartitions] = []

class ShareGroupCurrentMemberAssignmentValue_TopicPartitions(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[int] = []

class ShareGroupMemberMetadataKey(msgspec.Struct):
    """Data, versions 0-0."""

    group_id: str = ""
    member_id: str = ""

class ShareGroupMemberMetadataValue(msgspec.Struct):
    """Data, versions 0-0."""

    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = []

class ShareGroupMetadataKey(msgspec.Struct):
    """Data, versions 0-0."""

    group_id: str = ""

class ShareGroupMetadataValue(msgspec.Struct):
    """Data, versions 0-0."""

    epoch: int = 0
    metadata_hash: int = 0

class ShareGroupStatePartitionMetadataKey(msgspec.Struct):
    """Data, versions 0-0."""

    group_id: str = ""

class ShareGroupStatePartitionMetadataValue(msgspec.Struct):
    """Data, versions 0-0."""

    initializing_topics: list[ShareGroupStatePartitionMetadataValue_TopicPartitionsInfo] = []
    initialized_topics: list[ShareGroupStatePartitionMetadataValue_TopicPartitionsInfo] = []
    deleting_topics: list[ShareGroupStatePartitionMetadataValue_TopicInfo] = []

class ShareGroupStatePartitionMetadataValue_TopicPartitionsInfo(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    topic_name: str = ""
    partitions: list[int] = []

class ShareGroupStatePartitionMetadataValue_TopicInfo(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    topic_name: str = ""

class ShareGroupTargetAssignmentMemberKey(msgspec.Struct):
    """Data, versions 0-0."""

    group_id: str = ""
    member_id: str = ""

class ShareGroupTargetAssignmentMemberValue(msgspec.Struct):
    """Data, versions 0-0."""

    topic_partitions: list[ShareGroupTargetAssignmentMemberValue_TopicPartition] = []

class ShareGroupTargetAssignmentMemberValue_TopicPartition(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[int] = []

class ShareGroupTargetAssignmentMetadataKey(msgspec.Struct):
    """Data, versions 0-0."""

    group_id: str = ""

class ShareGroupTargetAssignmentMetadataValue(msgspec.Struct):
    """Data, versions 0-0."""

    assignment_epoch: int = 0
    assignment_timestamp: int = 0

class ShareSnapshotKey(msgspec.Struct):
    """Data, versions 0-0."""

    group_id: str = ""
    topic_id: Uuid = Uuid.ZERO
    partition: int = 0

class ShareSnapshotValue(msgspec.Struct):
    """Data, versions 0-0."""

    snapshot_epoch: int = 0
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = 0
    delivery_complete_count: int = -1
    create_timestamp: int = 0
    write_timestamp: int = 0
    state_batches: list[ShareSnapshotValue_StateBatch] = []

class ShareSnapshotValue_StateBatch(msgspec.Struct):
    first_offset: int = 0
    last_offset: int = 0
    delivery_state: int = 0
    delivery_count: int = 0

class ShareUpdateKey(msgspec.Struct):
    """Data, versions 0-0."""

    group_id: str = ""
    topic_id: Uuid = Uuid.ZERO
    partition: int = 0

class ShareUpdateValue(msgspec.Struct):
    """Data, versions 0-0."""

    snapshot_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = 0
    delivery_complete_count: int = -1
    state_batches: list[ShareUpdateValue_StateBatch] = []

class ShareUpdateValue_StateBatch(msgspec.Struct):
    first_offset: int = 0
    last_offset: int = 0
    delivery_state: int = 0
    delivery_count: int = 0

class SnapshotFooterRecord(msgspec.Struct):
    """Data, versions 0-0."""

    version: int = 0

class SnapshotHeaderRecord(msgspec.Struct):
    """Data, versions 0-0."""

    version: int = 0
    last_contained_log_timestamp: int = 0

class StreamsGroupCurrentMemberAssignmentKey(msgspec.Struct):
    """Data, versions 0-0."""

    group_id: str = ""
    member_id: str = ""

class StreamsGroupCurrentMemberAssignmentValue(msgspec.Struct):
    """Data, versions 0-0."""

    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: int = 0
    active_tasks: list[StreamsGroupCurrentMemberAssignmentValue_TaskIds] = []
    standby_tasks: list[StreamsGroupCurrentMemberAssignmentValue_TaskIds] = []
    warmup_tasks: list[StreamsGroupCurrentMemberAssignmentValue_TaskIds] = []
    active_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue_TaskIds] = []
    standby_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue_TaskIds] = []
    warmup_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue_TaskIds] = []

class StreamsGroupCurrentMemberAssignmentValue_TaskIds(msgspec.Struct):
    subtopology_id: str = ""
    partitions: list[int] = []
    assignment_epochs: list[int] | None = []

class StreamsGroupMemberMetadataKey(msgspec.Struct):
    """Data, versions 0-0."""

    group_id: str = ""
    member_id: str = ""

class StreamsGroupMemberMetadataValue(msgspec.Struct):
    """Data, versions 0-0."""

    instance_id: str | None = ""
    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = 0
    process_id: str = ""
    user_endpoint: StreamsGroupMemberMetadataValue_Endpoint | None = None
    client_tags: list[StreamsGroupMemberMetadataValue_KeyValue] = []

class StreamsGroupMemberMetadataValue_Endpoint(msgspec.Struct):
    host: str = ""
    port: int = 0

class StreamsGroupMemberMetadataValue_KeyValue(msgspec.Struct):
    key: str = ""
    value: str = ""

class StreamsGroupMetadataKey(msgspec.Struct):
    """Data, versions 0-0."""

    group_id: str = ""

class StreamsGroupMetadataValue(msgspec.Struct):
    """Data, versions 0-0."""

    epoch: int = 0
    metadata_hash: int = 0
    validated_topology_epoch: int = -1
    last_assignment_configs: list[StreamsGroupMetadataValue_LastAssignmentConfig] | None = []
    stored_description_topology_epoch: int = -1
    failed_description_topology_epoch: int = -1

class StreamsGroupMetadataValue_LastAssignmentConfig(msgspec.Struct):
    key: str = ""
    value: str = ""

class StreamsGroupTargetAssignmentMemberKey(msgspec.Struct):
    """Data, versions 0-0."""

    group_id: str = ""
    member_id: str = ""

class StreamsGroupTargetAssignmentMemberValue(msgspec.Struct):
    """Data, versions 0-0."""

    active_tasks: list[StreamsGroupTargetAssignmentMemberValue_TaskIds] = []
    standby_tasks: list[StreamsGroupTargetAssignmentMemberValue_TaskIds] = []
    warmup_tasks: list[StreamsGroupTargetAssignmentMemberValue_TaskIds] = []

class StreamsGroupTargetAssignmentMemberValue_TaskIds(msgspec.Struct):
    subtopology_id: str = ""
    partitions: list[int] = []

class StreamsGroupTargetAssignmentMetadataKey(msgspec.Struct):
    """Data, versions 0-0."""

    group_id: str = ""

class StreamsGroupTargetAssignmentMetadataValue(msgspec.Struct):
    """Data, versions 0-0."""

    assignment_epoch: int = 0
    assignment_timestamp: int = 0

class StreamsGroupTopologyKey(msgspec.Struct):
    """Data, versions 0-0."""

    group_id: str = ""

class StreamsGroupTopologyValue(msgspec.Struct):
    """Data, versions 0-0."""

    epoch: int = 0
    subtopologies: list[StreamsGroupTopologyValue_Subtopology] = []

class StreamsGroupTopologyValue_Subtopology(msgspec.Struct):
    subtopology_id: str = ""
    source_topics: list[str] = []
    source_topic_regex: list[str] = []
    state_changelog_topics: list[StreamsGroupTopologyValue_TopicInfo] = []
    repartition_sink_topics: list[str] = []
    repartition_source_topics: list[StreamsGroupTopologyValue_TopicInfo] = []
    copartition_groups: list[StreamsGroupTopologyValue_CopartitionGroup] = []

class StreamsGroupTopologyValue_TopicInfo(msgspec.Struct):
    name: str = ""
    partitions: int = 0
    replication_factor: int = 0
    topic_configs: list[StreamsGroupTopologyValue_TopicConfig] = []

class StreamsGroupTopologyValue_CopartitionGroup(msgspec.Struct):
    source_topics: list[int] = []
    source_topic_regex: list[int] = []
    repartition_source_topics: list[int] = []

class StreamsGroupTopologyValue_TopicConfig(msgspec.Struct):
    key: str = ""
    value: str = ""

class VotersRecord(msgspec.Struct):
    """Data, versions 0-0."""

    version: int = 0
    voters: list[VotersRecord_Voter] = []

class VotersRecord_Voter(msgspec.Struct):
    voter_id: int = 0
    voter_directory_id: Uuid = Uuid.ZERO
    endpoints: list[VotersRecord_Endpoint] = []
    kraft_version_feature: VotersRecord_KRaftVersionFeature = ...

class VotersRecord_Endpoint(msgspec.Struct):
    name: str = ""
    host: str = ""
    port: int = 0

class VotersRecord_KRaftVersionFeature(msgspec.Struct):
    min_supported_version: int = 0
    max_supported_version: int = 0

class RequestHeader(msgspec.Struct):
    """Header, versions 0-2."""

    request_api_key: int = 0
    request_api_version: int = 0
    correlation_id: int = 0
    client_id: str | None = ""

class ResponseHeader(msgspec.Struct):
    """Header, versions 0-1."""

    correlation_id: int = 0

class ProduceRequest(msgspec.Struct):
    """Request, key 0, versions 0-13."""

    transactional_id: str | None = None
    acks: int = 0
    timeout_ms: int = 0
    topic_data: list[ProduceRequest_TopicProduceData] = []

class ProduceRequest_TopicProduceData(msgspec.Struct):
    name: str = ""
    topic_id: Uuid = Uuid.ZERO
    partition_data: list[ProduceRequest_PartitionProduceData] = []

class ProduceRequest_PartitionProduceData(msgspec.Struct):
    index: int = 0
    records: bytes | None = None

class ProduceResponse(msgspec.Struct):
    """Response, key 0, versions 0-13."""

    responses: list[ProduceResponse_TopicProduceResponse] = []
    throttle_time_ms: int = 0
    node_endpoints: list[ProduceResponse_NodeEndpoint] = []

class ProduceResponse_TopicProduceResponse(msgspec.Struct):
    name: str = ""
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
    current_leader: ProduceResponse_LeaderIdAndEpoch = ...

class ProduceResponse_BatchIndexAndErrorMessage(msgspec.Struct):
    batch_index: int = 0
    batch_index_error_message: str | None = None

class ProduceResponse_LeaderIdAndEpoch(msgspec.Struct):
    leader_id: int = -1
    leader_epoch: int = -1

class ProduceResponse_NodeEndpoint(msgspec.Struct):
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None

class FetchRequest(msgspec.Struct):
    """Request, key 1, versions 0-18."""

    cluster_id: str | None = None
    replica_id: int = -1
    replica_state: FetchRequest_ReplicaState = ...
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2147483647
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = -1
    topics: list[FetchRequest_FetchTopic] = []
    forgotten_topics_data: list[FetchRequest_ForgottenTopic] = []
    rack_id: str = ""

class FetchRequest_ReplicaState(msgspec.Struct):
    replica_id: int = -1
    replica_epoch: int = -1

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
    high_watermark: int = 9223372036854775807

class FetchRequest_ForgottenTopic(msgspec.Struct):
    topic: str = ""
    topic_id: Uuid = Uuid.ZERO
    partitions: list[int] = []

class FetchResponse(msgspec.Struct):
    """Response, key 1, versions 0-18."""

    throttle_time_ms: int = 0
    error_code: int = 0
    session_id: int = 0
    responses: list[FetchResponse_FetchableTopicResponse] = []
    node_endpoints: list[FetchResponse_NodeEndpoint] = []

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

class FetchResponse_NodeEndpoint(msgspec.Struct):
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None

class ListOffsetsRequest(msgspec.Struct):
    """Request, key 2, versions 0-11."""

    replica_id: int = 0
    isolation_level: int = 0
    topics: list[ListOffsetsRequest_ListOffsetsTopic] = []
    timeout_ms: int = 0

class ListOffsetsRequest_ListOffsetsTopic(msgspec.Struct):
    name: str = ""
    partitions: list[ListOffsetsRequest_ListOffsetsPartition] = []
    topic_id: Uuid = Uuid.ZERO

class ListOffsetsRequest_ListOffsetsPartition(msgspec.Struct):
    partition_index: int = 0
    current_leader_epoch: int = -1
    timestamp: int = 0
    max_num_offsets: int = 1

class ListOffsetsResponse(msgspec.Struct):
    """Response, key 2, versions 0-11."""

    throttle_time_ms: int = 0
    topics: list[ListOffsetsResponse_ListOffsetsTopicResponse] = []

class ListOffsetsResponse_ListOffsetsTopicResponse(msgspec.Struct):
    name: str = ""
    partitions: list[ListOffsetsResponse_ListOffsetsPartitionResponse] = []
    topic_id: Uuid = Uuid.ZERO

class ListOffsetsResponse_ListOffsetsPartitionResponse(msgspec.Struct):
    partition_index: int = 0
    error_code: int = 0
    old_style_offsets: list[int] = []
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1

class MetadataRequest(msgspec.Struct):
    """Request, key 3, versions 0-13."""

    topics: list[MetadataRequest_MetadataRequestTopic] | None = []
    allow_auto_topic_creation: bool = True
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False

class MetadataRequest_MetadataRequestTopic(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    name: str | None = ""

class MetadataResponse(msgspec.Struct):
    """Response, key 3, versions 0-13."""

    throttle_time_ms: int = 0
    brokers: list[MetadataResponse_MetadataResponseBroker] = []
    cluster_id: str | None = None
    controller_id: int = -1
    topics: list[MetadataResponse_MetadataResponseTopic] = []
    cluster_authorized_operations: int = -2147483648
    error_code: int = 0

class MetadataResponse_MetadataResponseBroker(msgspec.Struct):
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None

class MetadataResponse_MetadataResponseTopic(msgspec.Struct):
    error_code: int = 0
    name: str | None = ""
    topic_id: Uuid = Uuid.ZERO
    is_internal: bool = False
    partitions: list[MetadataResponse_MetadataResponsePartition] = []
    topic_authorized_operations: int = -2147483648

class MetadataResponse_MetadataResponsePartition(msgspec.Struct):
    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1
    replica_nodes: list[int] = []
    isr_nodes: list[int] = []
    offline_replicas: list[int] = []

class ControlledShutdownRequest(msgspec.Struct):
    """Request, key 7, versions 0-3."""

    broker_id: int = 0
    broker_epoch: int = -1

class ControlledShutdownResponse(msgspec.Struct):
    """Response, key 7, versions 0-3."""

    error_code: int = 0
    remaining_partitions: list[ControlledShutdownResponse_RemainingPartition] = []

class ControlledShutdownResponse_RemainingPartition(msgspec.Struct):
    topic_name: str = ""
    partition_index: int = 0

class OffsetCommitRequest(msgspec.Struct):
    """Request, key 8, versions 0-10."""

    group_id: str = ""
    generation_id_or_member_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    retention_time_ms: int = -1
    topics: list[OffsetCommitRequest_OffsetCommitRequestTopic] = []

class OffsetCommitRequest_OffsetCommitRequestTopic(msgspec.Struct):
    name: str = ""
    topic_id: Uuid = Uuid.ZERO
    partitions: list[OffsetCommitRequest_OffsetCommitRequestPartition] = []

class OffsetCommitRequest_OffsetCommitRequestPartition(msgspec.Struct):
    partition_index: int = 0
    committed_offset: int = 0
    commit_timestamp: int = -1
    committed_leader_epoch: int = -1
    committed_metadata: str | None = ""

class OffsetCommitResponse(msgspec.Struct):
    """Response, key 8, versions 0-10."""

    throttle_time_ms: int = 0
    topics: list[OffsetCommitResponse_OffsetCommitResponseTopic] = []

class OffsetCommitResponse_OffsetCommitResponseTopic(msgspec.Struct):
    name: str = ""
    topic_id: Uuid = Uuid.ZERO
    partitions: list[OffsetCommitResponse_OffsetCommitResponsePartition] = []

class OffsetCommitResponse_OffsetCommitResponsePartition(msgspec.Struct):
    partition_index: int = 0
    error_code: int = 0

class OffsetFetchRequest(msgspec.Struct):
    """Request, key 9, versions 0-10."""

    group_id: str = ""
    topics: list[OffsetFetchRequest_OffsetFetchRequestTopic] | None = []
    groups: list[OffsetFetchRequest_OffsetFetchRequestGroup] = []
    require_stable: bool = False

class OffsetFetchRequest_OffsetFetchRequestTopic(msgspec.Struct):
    name: str = ""
    partition_indexes: list[int] = []

class OffsetFetchRequest_OffsetFetchRequestGroup(msgspec.Struct):
    group_id: str = ""
    member_id: str | None = None
    member_epoch: int = -1
    topics: list[OffsetFetchRequest_OffsetFetchRequestTopics] | None = []

class OffsetFetchRequest_OffsetFetchRequestTopics(msgspec.Struct):
    name: str = ""
    topic_id: Uuid = Uuid.ZERO
    partition_indexes: list[int] = []

class OffsetFetchResponse(msgspec.Struct):
    """Response, key 9, versions 0-10."""

    throttle_time_ms: int = 0
    topics: list[OffsetFetchResponse_OffsetFetchResponseTopic] = []
    error_code: int = 0
    groups: list[OffsetFetchResponse_OffsetFetchResponseGroup] = []

class OffsetFetchResponse_OffsetFetchResponseTopic(msgspec.Struct):
    name: str = ""
    partitions: list[OffsetFetchResponse_OffsetFetchResponsePartition] = []

class OffsetFetchResponse_OffsetFetchResponsePartition(msgspec.Struct):
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = ""
    error_code: int = 0

class OffsetFetchResponse_OffsetFetchResponseGroup(msgspec.Struct):
    group_id: str = ""
    topics: list[OffsetFetchResponse_OffsetFetchResponseTopics] = []
    error_code: int = 0

class OffsetFetchResponse_OffsetFetchResponseTopics(msgspec.Struct):
    name: str = ""
    topic_id: Uuid = Uuid.ZERO
    partitions: list[OffsetFetchResponse_OffsetFetchResponsePartitions] = []

class OffsetFetchResponse_OffsetFetchResponsePartitions(msgspec.Struct):
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = ""
    error_code: int = 0

class FindCoordinatorRequest(msgspec.Struct):
    """Request, key 10, versions 0-6."""

    key: str = ""
    key_type: int = 0
    coordinator_keys: list[str] = []

class FindCoordinatorResponse(msgspec.Struct):
    """Response, key 10, versions 0-6."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    node_id: int = 0
    host: str = ""
    port: int = 0
    coordinators: list[FindCoordinatorResponse_Coordinator] = []

class FindCoordinatorResponse_Coordinator(msgspec.Struct):
    key: str = ""
    node_id: int = 0
    host: str = ""
    port: int = 0
    error_code: int = 0
    error_message: str | None = ""

class JoinGroupRequest(msgspec.Struct):
    """Request, key 11, versions 0-9."""

    group_id: str = ""
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str = ""
    protocols: list[JoinGroupRequest_JoinGroupRequestProtocol] = []
    reason: str | None = None

class JoinGroupRequest_JoinGroupRequestProtocol(msgspec.Struct):
    name: str = ""
    metadata: bytes = b""

class JoinGroupResponse(msgspec.Struct):
    """Response, key 11, versions 0-9."""

    throttle_time_ms: int = 0
    error_code: int = 0
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = ""
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = ""
    members: list[JoinGroupResponse_JoinGroupResponseMember] = []

class JoinGroupResponse_JoinGroupResponseMember(msgspec.Struct):
    member_id: str = ""
    group_instance_id: str | None = None
    metadata: bytes = b""

class HeartbeatRequest(msgspec.Struct):
    """Request, key 12, versions 0-4."""

    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None

class HeartbeatResponse(msgspec.Struct):
    """Response, key 12, versions 0-4."""

    throttle_time_ms: int = 0
    error_code: int = 0

class LeaveGroupRequest(msgspec.Struct):
    """Request, key 13, versions 0-5."""

    group_id: str = ""
    member_id: str = ""
    members: list[LeaveGroupRequest_MemberIdentity] = []

class LeaveGroupRequest_MemberIdentity(msgspec.Struct):
    member_id: str = ""
    group_instance_id: str | None = None
    reason: str | None = None

class LeaveGroupResponse(msgspec.Struct):
    """Response, key 13, versions 0-5."""

    throttle_time_ms: int = 0
    error_code: int = 0
    members: list[LeaveGroupResponse_MemberResponse] = []

class LeaveGroupResponse_MemberResponse(msgspec.Struct):
    member_id: str = ""
    group_instance_id: str | None = ""
    error_code: int = 0

class SyncGroupRequest(msgspec.Struct):
    """Request, key 14, versions 0-5."""

    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: list[SyncGroupRequest_SyncGroupRequestAssignment] = []

class SyncGroupRequest_SyncGroupRequestAssignment(msgspec.Struct):
    member_id: str = ""
    assignment: bytes = b""

class SyncGroupResponse(msgspec.Struct):
    """Response, key 14, versions 0-5."""

    throttle_time_ms: int = 0
    error_code: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""

class DescribeGroupsRequest(msgspec.Struct):
    """Request, key 15, versions 0-6."""

    groups: list[str] = []
    include_authorized_operations: bool = False

class DescribeGroupsResponse(msgspec.Struct):
    """Response, key 15, versions 0-6."""

    throttle_time_ms: int = 0
    groups: list[DescribeGroupsResponse_DescribedGroup] = []

class DescribeGroupsResponse_DescribedGroup(msgspec.Struct):
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: list[DescribeGroupsResponse_DescribedGroupMember] = []
    authorized_operations: int = -2147483648

class DescribeGroupsResponse_DescribedGroupMember(msgspec.Struct):
    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""

class ListGroupsRequest(msgspec.Struct):
    """Request, key 16, versions 0-5."""

    states_filter: list[str] = []
    types_filter: list[str] = []

class ListGroupsResponse(msgspec.Struct):
    """Response, key 16, versions 0-5."""

    throttle_time_ms: int = 0
    error_code: int = 0
    groups: list[ListGroupsResponse_ListedGroup] = []

class ListGroupsResponse_ListedGroup(msgspec.Struct):
    group_id: str = ""
    protocol_type: str = ""
    group_state: str = ""
    group_type: str = ""

class SaslHandshakeRequest(msgspec.Struct):
    """Request, key 17, versions 0-1."""

    mechanism: str = ""

class SaslHandshakeResponse(msgspec.Struct):
    """Response, key 17, versions 0-1."""

    error_code: int = 0
    mechanisms: list[str] = []

class ApiVersionsRequest(msgspec.Struct):
    """Request, key 18, versions 0-5."""

    client_software_name: str = ""
    client_software_version: str = ""
    cluster_id: str | None = None
    node_id: int = -1

class ApiVersionsResponse(msgspec.Struct):
    """Response, key 18, versions 0-5."""

    error_code: int = 0
    api_keys: list[ApiVersionsResponse_ApiVersion] = []
    throttle_time_ms: int = 0
    supported_features: list[ApiVersionsResponse_SupportedFeatureKey] = []
    finalized_features_epoch: int = -1
    finalized_features: list[ApiVersionsResponse_FinalizedFeatureKey] = []
    zk_migration_ready: bool = False

class ApiVersionsResponse_ApiVersion(msgspec.Struct):
    api_key: int = 0
    min_version: int = 0
    max_version: int = 0

class ApiVersionsResponse_SupportedFeatureKey(msgspec.Struct):
    name: str = ""
    min_version: int = 0
    max_version: int = 0

class ApiVersionsResponse_FinalizedFeatureKey(msgspec.Struct):
    name: str = ""
    max_version_level: int = 0
    min_version_level: int = 0

class CreateTopicsRequest(msgspec.Struct):
    """Request, key 19, versions 0-7."""

    topics: list[CreateTopicsRequest_CreatableTopic] = []
    timeout_ms: int = 60000
    validate_only: bool = False

class CreateTopicsRequest_CreatableTopic(msgspec.Struct):
    name: str = ""
    num_partitions: int = 0
    replication_factor: int = 0
    assignments: list[CreateTopicsRequest_CreatableReplicaAssignment] = []
    configs: list[CreateTopicsRequest_CreatableTopicConfig] = []

class CreateTopicsRequest_CreatableReplicaAssignment(msgspec.Struct):
    partition_index: int = 0
    broker_ids: list[int] = []

class CreateTopicsRequest_CreatableTopicConfig(msgspec.Struct):
    name: str = ""
    value: str | None = ""

class CreateTopicsResponse(msgspec.Struct):
    """Response, key 19, versions 0-7."""

    throttle_time_ms: int = 0
    topics: list[CreateTopicsResponse_CreatableTopicResult] = []

class CreateTopicsResponse_CreatableTopicResult(msgspec.Struct):
    name: str = ""
    topic_id: Uuid = Uuid.ZERO
    error_code: int = 0
    error_message: str | None = ""
    topic_config_error_code: int = 0
    num_partitions: int = -1
    replication_factor: int = -1
    configs: list[CreateTopicsResponse_CreatableTopicConfigs] | None = []

class CreateTopicsResponse_CreatableTopicConfigs(msgspec.Struct):
    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False

class DeleteTopicsRequest(msgspec.Struct):
    """Request, key 20, versions 0-6."""

    topics: list[DeleteTopicsRequest_DeleteTopicState] = []
    topic_names: list[str] = []
    timeout_ms: int = 0

class DeleteTopicsRequest_DeleteTopicState(msgspec.Struct):
    name: str | None = None
    topic_id: Uuid = Uuid.ZERO

class DeleteTopicsResponse(msgspec.Struct):
    """Response, key 20, versions 0-6."""

    throttle_time_ms: int = 0
    responses: list[DeleteTopicsResponse_DeletableTopicResult] = []

class DeleteTopicsResponse_DeletableTopicResult(msgspec.Struct):
    name: str | None = ""
    topic_id: Uuid = Uuid.ZERO
    error_code: int = 0
    error_message: str | None = None

class DeleteRecordsRequest(msgspec.Struct):
    """Request, key 21, versions 0-2."""

    topics: list[DeleteRecordsRequest_DeleteRecordsTopic] = []
    timeout_ms: int = 0

class DeleteRecordsRequest_DeleteRecordsTopic(msgspec.Struct):
    name: str = ""
    partitions: list[DeleteRecordsRequest_DeleteRecordsPartition] = []
    topic_id: Uuid = Uuid.ZERO

class DeleteRecordsRequest_DeleteRecordsPartition(msgspec.Struct):
    partition_index: int = 0
    offset: int = 0

class DeleteRecordsResponse(msgspec.Struct):
    """Response, key 21, versions 0-2."""

    throttle_time_ms: int = 0
    topics: list[DeleteRecordsResponse_DeleteRecordsTopicResult] = []

class DeleteRecordsResponse_DeleteRecordsTopicResult(msgspec.Struct):
    name: str = ""
    partitions: list[DeleteRecordsResponse_DeleteRecordsPartitionResult] = []
    topic_id: Uuid = Uuid.ZERO

class DeleteRecordsResponse_DeleteRecordsPartitionResult(msgspec.Struct):
    partition_index: int = 0
    low_watermark: int = 0
    error_code: int = 0

class InitProducerIdRequest(msgspec.Struct):
    """Request, key 22, versions 0-6."""

    transactional_id: str | None = ""
    transaction_timeout_ms: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    enable2_pc: bool = False
    keep_prepared_txn: bool = False

class InitProducerIdResponse(msgspec.Struct):
    """Response, key 22, versions 0-6."""

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = 0
    ongoing_txn_producer_id: int = -1
    ongoing_txn_producer_epoch: int = -1

class OffsetForLeaderEpochRequest(msgspec.Struct):
    """Request, key 23, versions 0-4."""

    replica_id: int = -2
    topics: list[OffsetForLeaderEpochRequest_OffsetForLeaderTopic] = []

class OffsetForLeaderEpochRequest_OffsetForLeaderTopic(msgspec.Struct):
    topic: str = ""
    partitions: list[OffsetForLeaderEpochRequest_OffsetForLeaderPartition] = []
    topic_id: Uuid = Uuid.ZERO

class OffsetForLeaderEpochRequest_OffsetForLeaderPartition(msgspec.Struct):
    partition: int = 0
    current_leader_epoch: int = -1
    leader_epoch: int = 0

class OffsetForLeaderEpochResponse(msgspec.Struct):
    """Response, key 23, versions 0-4."""

    throttle_time_ms: int = 0
    topics: list[OffsetForLeaderEpochResponse_OffsetForLeaderTopicResult] = []

class OffsetForLeaderEpochResponse_OffsetForLeaderTopicResult(msgspec.Struct):
    topic: str = ""
    partitions: list[OffsetForLeaderEpochResponse_EpochEndOffset] = []
    topic_id: Uuid = Uuid.ZERO

class OffsetForLeaderEpochResponse_EpochEndOffset(msgspec.Struct):
    error_code: int = 0
    partition: int = 0
    leader_epoch: int = -1
    end_offset: int = -1

class AddPartitionsToTxnRequest(msgspec.Struct):
    """Request, key 24, versions 0-5."""

    transactions: list[AddPartitionsToTxnRequest_AddPartitionsToTxnTransaction] = []
    v3_and_below_transactional_id: str = ""
    v3_and_below_producer_id: int = 0
    v3_and_below_producer_epoch: int = 0
    v3_and_below_topics: list[AddPartitionsToTxnRequest_AddPartitionsToTxnTopic] = []

class AddPartitionsToTxnRequest_AddPartitionsToTxnTransaction(msgspec.Struct):
    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    verify_only: bool = False
    topics: list[AddPartitionsToTxnRequest_AddPartitionsToTxnTopic] = []

class AddPartitionsToTxnRequest_AddPartitionsToTxnTopic(msgspec.Struct):
    name: str = ""
    partitions: list[int] = []
    topic_id: Uuid = Uuid.ZERO

class AddPartitionsToTxnResponse(msgspec.Struct):
    """Response, key 24, versions 0-5."""

    throttle_time_ms: int = 0
    error_code: int = 0
    results_by_transaction: list[AddPartitionsToTxnResponse_AddPartitionsToTxnResult] = []
    results_by_topic_v3_and_below: list[AddPartitionsToTxnResponse_AddPartitionsToTxnTopicResult] = []

class AddPartitionsToTxnResponse_AddPartitionsToTxnResult(msgspec.Struct):
    transactional_id: str = ""
    topic_results: list[AddPartitionsToTxnResponse_AddPartitionsToTxnTopicResult] = []

class AddPartitionsToTxnResponse_AddPartitionsToTxnTopicResult(msgspec.Struct):
    name: str = ""
    results_by_partition: list[AddPartitionsToTxnResponse_AddPartitionsToTxnPartitionResult] = []
    topic_id: Uuid = Uuid.ZERO

class AddPartitionsToTxnResponse_AddPartitionsToTxnPartitionResult(msgspec.Struct):
    partition_index: int = 0
    partition_error_code: int = 0

class AddOffsetsToTxnRequest(msgspec.Struct):
    """Request, key 25, versions 0-4."""

    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    group_id: str = ""

class AddOffsetsToTxnResponse(msgspec.Struct):
    """Response, key 25, versions 0-4."""

    throttle_time_ms: int = 0
    error_code: int = 0

class EndTxnRequest(msgspec.Struct):
    """Request, key 26, versions 0-5."""

    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    committed: bool = False

class EndTxnResponse(msgspec.Struct):
    """Response, key 26, versions 0-5."""

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = -1

class WriteTxnMarkersRequest(msgspec.Struct):
    """Request, key 27, versions 0-2."""

    markers: list[WriteTxnMarkersRequest_WritableTxnMarker] = []

class WriteTxnMarkersRequest_WritableTxnMarker(msgspec.Struct):
    producer_id: int = 0
    producer_epoch: int = 0
    transaction_result: bool = False
    topics: list[WriteTxnMarkersRequest_WritableTxnMarkerTopic] = []
    coordinator_epoch: int = 0
    transaction_version: int = 0

class WriteTxnMarkersRequest_WritableTxnMarkerTopic(msgspec.Struct):
    name: str = ""
    partition_indexes: list[int] = []
    topic_id: Uuid = Uuid.ZERO

class WriteTxnMarkersResponse(msgspec.Struct):
    """Response, key 27, versions 0-2."""

    markers: list[WriteTxnMarkersResponse_WritableTxnMarkerResult] = []

class WriteTxnMarkersResponse_WritableTxnMarkerResult(msgspec.Struct):
    producer_id: int = 0
    topics: list[WriteTxnMarkersResponse_WritableTxnMarkerTopicResult] = []

class WriteTxnMarkersResponse_WritableTxnMarkerTopicResult(msgspec.Struct):
    name: str = ""
    partitions: list[WriteTxnMarkersResponse_WritableTxnMarkerPartitionResult] = []
    topic_id: Uuid = Uuid.ZERO

class WriteTxnMarkersResponse_WritableTxnMarkerPartitionResult(msgspec.Struct):
    partition_index: int = 0
    error_code: int = 0

class TxnOffsetCommitRequest(msgspec.Struct):
    """Request, key 28, versions 0-6."""

    transactional_id: str = ""
    group_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    generation_id_or_member_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    topics: list[TxnOffsetCommitRequest_TxnOffsetCommitRequestTopic] = []

class TxnOffsetCommitRequest_TxnOffsetCommitRequestTopic(msgspec.Struct):
    name: str = ""
    topic_id: Uuid = Uuid.ZERO
    partitions: list[TxnOffsetCommitRequest_TxnOffsetCommitRequestPartition] = []

class TxnOffsetCommitRequest_TxnOffsetCommitRequestPartition(msgspec.Struct):
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    committed_metadata: str | None = ""

class TxnOffsetCommitResponse(msgspec.Struct):
    """Response, key 28, versions 0-6."""

    throttle_time_ms: int = 0
    topics: list[TxnOffsetCommitResponse_TxnOffsetCommitResponseTopic] = []

class TxnOffsetCommitResponse_TxnOffsetCommitResponseTopic(msgspec.Struct):
    name: str = ""
    topic_id: Uuid = Uuid.ZERO
    partitions: list[TxnOffsetCommitResponse_TxnOffsetCommitResponsePartition] = []

class TxnOffsetCommitResponse_TxnOffsetCommitResponsePartition(msgspec.Struct):
    partition_index: int = 0
    error_code: int = 0

class DescribeAclsRequest(msgspec.Struct):
    """Request, key 29, versions 0-3."""

    resource_type_filter: int = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: int = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: int = 0
    permission_type: int = 0

class DescribeAclsResponse(msgspec.Struct):
    """Response, key 29, versions 0-3."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    resources: list[DescribeAclsResponse_DescribeAclsResource] = []

class DescribeAclsResponse_DescribeAclsResource(msgspec.Struct):
    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 3
    acls: list[DescribeAclsResponse_AclDescription] = []

class DescribeAclsResponse_AclDescription(msgspec.Struct):
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0

class CreateAclsRequest(msgspec.Struct):
    """Request, key 30, versions 0-3."""

    creations: list[CreateAclsRequest_AclCreation] = []

class CreateAclsRequest_AclCreation(msgspec.Struct):
    resource_type: int = 0
    resource_name: str = ""
    resource_pattern_type: int = 3
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0

class CreateAclsResponse(msgspec.Struct):
    """Response, key 30, versions 0-3."""

    throttle_time_ms: int = 0
    results: list[CreateAclsResponse_AclCreationResult] = []

class CreateAclsResponse_AclCreationResult(msgspec.Struct):
    error_code: int = 0
    error_message: str | None = ""

class DeleteAclsRequest(msgspec.Struct):
    """Request, key 31, versions 0-3."""

    filters: list[DeleteAclsRequest_DeleteAclsFilter] = []

class DeleteAclsRequest_DeleteAclsFilter(msgspec.Struct):
    resource_type_filter: int = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: int = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: int = 0
    permission_type: int = 0

class DeleteAclsResponse(msgspec.Struct):
    """Response, key 31, versions 0-3."""

    throttle_time_ms: int = 0
    filter_results: list[DeleteAclsResponse_DeleteAclsFilterResult] = []

class DeleteAclsResponse_DeleteAclsFilterResult(msgspec.Struct):
    error_code: int = 0
    error_message: str | None = ""
    matching_acls: list[DeleteAclsResponse_DeleteAclsMatchingAcl] = []

class DeleteAclsResponse_DeleteAclsMatchingAcl(msgspec.Struct):
    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 3
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0

class DescribeConfigsRequest(msgspec.Struct):
    """Request, key 32, versions 0-4."""

    resources: list[DescribeConfigsRequest_DescribeConfigsResource] = []
    include_synonyms: bool = False
    include_documentation: bool = False

class DescribeConfigsRequest_DescribeConfigsResource(msgspec.Struct):
    resource_type: int = 0
    resource_name: str = ""
    configuration_keys: list[str] | None = []
    topic_id: Uuid = Uuid.ZERO

class DescribeConfigsResponse(msgspec.Struct):
    """Response, key 32, versions 0-4."""

    throttle_time_ms: int = 0
    results: list[DescribeConfigsResponse_DescribeConfigsResult] = []

class DescribeConfigsResponse_DescribeConfigsResult(msgspec.Struct):
    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""
    configs: list[DescribeConfigsResponse_DescribeConfigsResourceResult] = []
    topic_id: Uuid = Uuid.ZERO

class DescribeConfigsResponse_DescribeConfigsResourceResult(msgspec.Struct):
    name: str = ""
    value: str | None = ""
    read_only: bool = False
    is_default: bool = False
    config_source: int = -1
    is_sensitive: bool = False
    synonyms: list[DescribeConfigsResponse_DescribeConfigsSynonym] = []
    config_type: int = 0
    documentation: str | None = ""

class DescribeConfigsResponse_DescribeConfigsSynonym(msgspec.Struct):
    name: str = ""
    value: str | None = ""
    source: int = 0

class AlterConfigsRequest(msgspec.Struct):
    """Request, key 33, versions 0-2."""

    resources: list[AlterConfigsRequest_AlterConfigsResource] = []
    validate_only: bool = False

class AlterConfigsRequest_AlterConfigsResource(msgspec.Struct):
    resource_type: int = 0
    resource_name: str = ""
    configs: list[AlterConfigsRequest_AlterableConfig] = []
    topic_id: Uuid = Uuid.ZERO

class AlterConfigsRequest_AlterableConfig(msgspec.Struct):
    name: str = ""
    value: str | None = ""

class AlterConfigsResponse(msgspec.Struct):
    """Response, key 33, versions 0-2."""

    throttle_time_ms: int = 0
    responses: list[AlterConfigsResponse_AlterConfigsResourceResponse] = []

class AlterConfigsResponse_AlterConfigsResourceResponse(msgspec.Struct):
    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""
    topic_id: Uuid = Uuid.ZERO

class AlterReplicaLogDirsRequest(msgspec.Struct):
    """Request, key 34, versions 0-2."""

    dirs: list[AlterReplicaLogDirsRequest_AlterReplicaLogDir] = []

class AlterReplicaLogDirsRequest_AlterReplicaLogDir(msgspec.Struct):
    path: str = ""
    topics: list[AlterReplicaLogDirsRequest_AlterReplicaLogDirTopic] = []

class AlterReplicaLogDirsRequest_AlterReplicaLogDirTopic(msgspec.Struct):
    name: str = ""
    partitions: list[int] = []
    topic_id: Uuid = Uuid.ZERO

class AlterReplicaLogDirsResponse(msgspec.Struct):
    """Response, key 34, versions 0-2."""

    throttle_time_ms: int = 0
    results: list[AlterReplicaLogDirsResponse_AlterReplicaLogDirTopicResult] = []

class AlterReplicaLogDirsResponse_AlterReplicaLogDirTopicResult(msgspec.Struct):
    topic_name: str = ""
    partitions: list[AlterReplicaLogDirsResponse_AlterReplicaLogDirPartitionResult] = []
    topic_id: Uuid = Uuid.ZERO

class AlterReplicaLogDirsResponse_AlterReplicaLogDirPartitionResult(msgspec.Struct):
    partition_index: int = 0
    error_code: int = 0

class DescribeLogDirsRequest(msgspec.Struct):
    """Request, key 35, versions 0-5."""

    topics: list[DescribeLogDirsRequest_DescribableLogDirTopic] | None = []

class DescribeLogDirsRequest_DescribableLogDirTopic(msgspec.Struct):
    topic: str = ""
    partitions: list[int] = []
    topic_id: Uuid = Uuid.ZERO

class DescribeLogDirsResponse(msgspec.Struct):
    """Response, key 35, versions 0-5."""

    throttle_time_ms: int = 0
    error_code: int = 0
    results: list[DescribeLogDirsResponse_DescribeLogDirsResult] = []

class DescribeLogDirsResponse_DescribeLogDirsResult(msgspec.Struct):
    error_code: int = 0
    log_dir: str = ""
    topics: list[DescribeLogDirsResponse_DescribeLogDirsTopic] = []
    total_bytes: int = -1
    usable_bytes: int = -1
    is_cordoned: bool = False

class DescribeLogDirsResponse_DescribeLogDirsTopic(msgspec.Struct):
    name: str = ""
    partitions: list[DescribeLogDirsResponse_DescribeLogDirsPartition] = []
    topic_id: Uuid = Uuid.ZERO

class DescribeLogDirsResponse_DescribeLogDirsPartition(msgspec.Struct):
    partition_index: int = 0
    partition_size: int = 0
    offset_lag: int = 0
    is_future_key: bool = False

class SaslAuthenticateRequest(msgspec.Struct):
    """Request, key 36, versions 0-2."""

    auth_bytes: bytes = b""

class SaslAuthenticateResponse(msgspec.Struct):
    """Response, key 36, versions 0-2."""

    error_code: int = 0
    error_message: str | None = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0

class CreatePartitionsRequest(msgspec.Struct):
    """Request, key 37, versions 0-3."""

    topics: list[CreatePartitionsRequest_CreatePartitionsTopic] = []
    timeout_ms: int = 0
    validate_only: bool = False

class CreatePartitionsRequest_CreatePartitionsTopic(msgspec.Struct):
    name: str = ""
    count: int = 0
    assignments: list[CreatePartitionsRequest_CreatePartitionsAssignment] | None = []
    topic_id: Uuid = Uuid.ZERO

class CreatePartitionsRequest_CreatePartitionsAssignment(msgspec.Struct):
    broker_ids: list[int] = []

class CreatePartitionsResponse(msgspec.Struct):
    """Response, key 37, versions 0-3."""

    throttle_time_ms: int = 0
    results: list[CreatePartitionsResponse_CreatePartitionsTopicResult] = []

class CreatePartitionsResponse_CreatePartitionsTopicResult(msgspec.Struct):
    name: str = ""
    error_code: int = 0
    error_message: str | None = None
    topic_id: Uuid = Uuid.ZERO

class CreateDelegationTokenRequest(msgspec.Struct):
    """Request, key 38, versions 0-3."""

    owner_principal_type: str | None = ""
    owner_principal_name: str | None = ""
    renewers: list[CreateDelegationTokenRequest_CreatableRenewers] = []
    max_lifetime_ms: int = 0

class CreateDelegationTokenRequest_CreatableRenewers(msgspec.Struct):
    principal_type: str = ""
    principal_name: str = ""

class CreateDelegationTokenResponse(msgspec.Struct):
    """Response, key 38, versions 0-3."""

    error_code: int = 0
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: str = ""
    token_requester_principal_name: str = ""
    issue_timestamp_ms: int = 0
    expiry_timestamp_ms: int = 0
    max_timestamp_ms: int = 0
    token_id: str = ""
    hmac: bytes = b""
    throttle_time_ms: int = 0

class RenewDelegationTokenRequest(msgspec.Struct):
    """Request, key 39, versions 0-2."""

    hmac: bytes = b""
    renew_period_ms: int = 0

class RenewDelegationTokenResponse(msgspec.Struct):
    """Response, key 39, versions 0-2."""

    error_code: int = 0
    expiry_timestamp_ms: int = 0
    throttle_time_ms: int = 0

class ExpireDelegationTokenRequest(msgspec.Struct):
    """Request, key 40, versions 0-2."""

    hmac: bytes = b""
    expiry_time_period_ms: int = 0

class ExpireDelegationTokenResponse(msgspec.Struct):
    """Response, key 40, versions 0-2."""

    error_code: int = 0
    expiry_timestamp_ms: int = 0
    throttle_time_ms: int = 0

class DescribeDelegationTokenRequest(msgspec.Struct):
    """Request, key 41, versions 0-3."""

    owners: list[DescribeDelegationTokenRequest_DescribeDelegationTokenOwner] | None = []

class DescribeDelegationTokenRequest_DescribeDelegationTokenOwner(msgspec.Struct):
    principal_type: str = ""
    principal_name: str = ""

class DescribeDelegationTokenResponse(msgspec.Struct):
    """Response, key 41, versions 0-3."""

    error_code: int = 0
    tokens: list[DescribeDelegationTokenResponse_DescribedDelegationToken] = []
    throttle_time_ms: int = 0

class DescribeDelegationTokenResponse_DescribedDelegationToken(msgspec.Struct):
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: str = ""
    token_requester_principal_name: str = ""
    issue_timestamp: int = 0
    expiry_timestamp: int = 0
    max_timestamp: int = 0
    token_id: str = ""
    hmac: bytes = b""
    renewers: list[DescribeDelegationTokenResponse_DescribedDelegationTokenRenewer] = []

class DescribeDelegationTokenResponse_DescribedDelegationTokenRenewer(msgspec.Struct):
    principal_type: str = ""
    principal_name: str = ""

class DeleteGroupsRequest(msgspec.Struct):
    """Request, key 42, versions 0-3."""

    groups_names: list[str] = []

class DeleteGroupsResponse(msgspec.Struct):
    """Response, key 42, versions 0-3."""

    throttle_time_ms: int = 0
    results: list[DeleteGroupsResponse_DeletableGroupResult] = []

class DeleteGroupsResponse_DeletableGroupResult(msgspec.Struct):
    group_id: str = ""
    error_code: int = 0
    error_message: str | None = None

class ElectLeadersRequest(msgspec.Struct):
    """Request, key 43, versions 0-2."""

    election_type: int = 0
    topic_partitions: list[ElectLeadersRequest_TopicPartitions] | None = []
    timeout_ms: int = 60000

class ElectLeadersRequest_TopicPartitions(msgspec.Struct):
    topic: str = ""
    partitions: list[int] = []
    topic_id: Uuid = Uuid.ZERO

class ElectLeadersResponse(msgspec.Struct):
    """Response, key 43, versions 0-2."""

    throttle_time_ms: int = 0
    error_code: int = 0
    replica_election_results: list[ElectLeadersResponse_ReplicaElectionResult] = []

class ElectLeadersResponse_ReplicaElectionResult(msgspec.Struct):
    topic: str = ""
    partition_result: list[ElectLeadersResponse_PartitionResult] = []
    topic_id: Uuid = Uuid.ZERO

class ElectLeadersResponse_PartitionResult(msgspec.Struct):
    partition_id: int = 0
    error_code: int = 0
    error_message: str | None = ""

class IncrementalAlterConfigsRequest(msgspec.Struct):
    """Request, key 44, versions 0-1."""

    resources: list[IncrementalAlterConfigsRequest_AlterConfigsResource] = []
    validate_only: bool = False

class IncrementalAlterConfigsRequest_AlterConfigsResource(msgspec.Struct):
    resource_type: int = 0
    resource_name: str = ""
    configs: list[IncrementalAlterConfigsRequest_AlterableConfig] = []
    topic_id: Uuid = Uuid.ZERO

class IncrementalAlterConfigsRequest_AlterableConfig(msgspec.Struct):
    name: str = ""
    config_operation: int = 0
    value: str | None = ""

class IncrementalAlterConfigsResponse(msgspec.Struct):
    """Response, key 44, versions 0-1."""

    throttle_time_ms: int = 0
    responses: list[IncrementalAlterConfigsResponse_AlterConfigsResourceResponse] = []

class IncrementalAlterConfigsResponse_AlterConfigsResourceResponse(msgspec.Struct):
    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""
    topic_id: Uuid = Uuid.ZERO

class AlterPartitionReassignmentsRequest(msgspec.Struct):
    """Request, key 45, versions 0-1."""

    timeout_ms: int = 60000
    allow_replication_factor_change: bool = True
    topics: list[AlterPartitionReassignmentsRequest_ReassignableTopic] = []

class AlterPartitionReassignmentsRequest_ReassignableTopic(msgspec.Struct):
    name: str = ""
    partitions: list[AlterPartitionReassignmentsRequest_ReassignablePartition] = []
    topic_id: Uuid = Uuid.ZERO

class AlterPartitionReassignmentsRequest_ReassignablePartition(msgspec.Struct):
    partition_index: int = 0
    replicas: list[int] | None = None

class AlterPartitionReassignmentsResponse(msgspec.Struct):
    """Response, key 45, versions 0-1."""

    throttle_time_ms: int = 0
    allow_replication_factor_change: bool = True
    error_code: int = 0
    error_message: str | None = ""
    responses: list[AlterPartitionReassignmentsResponse_ReassignableTopicResponse] = []

class AlterPartitionReassignmentsResponse_ReassignableTopicResponse(msgspec.Struct):
    name: str = ""
    partitions: list[AlterPartitionReassignmentsResponse_ReassignablePartitionResponse] = []
    topic_id: Uuid = Uuid.ZERO

class AlterPartitionReassignmentsResponse_ReassignablePartitionResponse(msgspec.Struct):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = ""

class ListPartitionReassignmentsRequest(msgspec.Struct):
    """Request, key 46, versions 0-0."""

    timeout_ms: int = 60000
    topics: list[ListPartitionReassignmentsRequest_ListPartitionReassignmentsTopics] | None = None

class ListPartitionReassignmentsRequest_ListPartitionReassignmentsTopics(msgspec.Struct):
    name: str = ""
    partition_indexes: list[int] = []
    topic_id: Uuid = Uuid.ZERO

class ListPartitionReassignmentsResponse(msgspec.Struct):
    """Response, key 46, versions 0-0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    topics: list[ListPartitionReassignmentsResponse_OngoingTopicReassignment] = []

class ListPartitionReassignmentsResponse_OngoingTopicReassignment(msgspec.Struct):
    name: str = ""
    partitions: list[ListPartitionReassignmentsResponse_OngoingPartitionReassignment] = []
    topic_id: Uuid = Uuid.ZERO

class ListPartitionReassignmentsResponse_OngoingPartitionReassignment(msgspec.Struct):
    partition_index: int = 0
    replicas: list[int] = []
    adding_replicas: list[int] = []
    removing_replicas: list[int] = []

class OffsetDeleteRequest(msgspec.Struct):
    """Request, key 47, versions 0-0."""

    group_id: str = ""
    topics: list[OffsetDeleteRequest_OffsetDeleteRequestTopic] = []

class OffsetDeleteRequest_OffsetDeleteRequestTopic(msgspec.Struct):
    name: str = ""
    partitions: list[OffsetDeleteRequest_OffsetDeleteRequestPartition] = []

class OffsetDeleteRequest_OffsetDeleteRequestPartition(msgspec.Struct):
    partition_index: int = 0

class OffsetDeleteResponse(msgspec.Struct):
    """Response, key 47, versions 0-0."""

    error_code: int = 0
    throttle_time_ms: int = 0
    topics: list[OffsetDeleteResponse_OffsetDeleteResponseTopic] = []

class OffsetDeleteResponse_OffsetDeleteResponseTopic(msgspec.Struct):
    name: str = ""
    partitions: list[OffsetDeleteResponse_OffsetDeleteResponsePartition] = []

class OffsetDeleteResponse_OffsetDeleteResponsePartition(msgspec.Struct):
    partition_index: int = 0
    error_code: int = 0

class DescribeClientQuotasRequest(msgspec.Struct):
    """Request, key 48, versions 0-1."""

    components: list[DescribeClientQuotasRequest_ComponentData] = []
    strict: bool = False

class DescribeClientQuotasRequest_ComponentData(msgspec.Struct):
    entity_type: str = ""
    match_type: int = 0
    match: str | None = ""

class DescribeClientQuotasResponse(msgspec.Struct):
    """Response, key 48, versions 0-1."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    entries: list[DescribeClientQuotasResponse_EntryData] | None = []

class DescribeClientQuotasResponse_EntryData(msgspec.Struct):
    entity: list[DescribeClientQuotasResponse_EntityData] = []
    values: list[DescribeClientQuotasResponse_ValueData] = []

class DescribeClientQuotasResponse_EntityData(msgspec.Struct):
    entity_type: str = ""
    entity_name: str | None = ""

class DescribeClientQuotasResponse_ValueData(msgspec.Struct):
    key: str = ""
    value: float = 0.0

class AlterClientQuotasRequest(msgspec.Struct):
    """Request, key 49, versions 0-1."""

    entries: list[AlterClientQuotasRequest_EntryData] = []
    validate_only: bool = False

class AlterClientQuotasRequest_EntryData(msgspec.Struct):
    entity: list[AlterClientQuotasRequest_EntityData] = []
    ops: list[AlterClientQuotasRequest_OpData] = []

class AlterClientQuotasRequest_EntityData(msgspec.Struct):
    entity_type: str = ""
    entity_name: str | None = ""

class AlterClientQuotasRequest_OpData(msgspec.Struct):
    key: str = ""
    value: float = 0.0
    remove: bool = False

class AlterClientQuotasResponse(msgspec.Struct):
    """Response, key 49, versions 0-1."""

    throttle_time_ms: int = 0
    entries: list[AlterClientQuotasResponse_EntryData] = []

class AlterClientQuotasResponse_EntryData(msgspec.Struct):
    error_code: int = 0
    error_message: str | None = ""
    entity: list[AlterClientQuotasResponse_EntityData] = []

class AlterClientQuotasResponse_EntityData(msgspec.Struct):
    entity_type: str = ""
    entity_name: str | None = ""

class DescribeUserScramCredentialsRequest(msgspec.Struct):
    """Request, key 50, versions 0-0."""

    users: list[DescribeUserScramCredentialsRequest_UserName] | None = []

class DescribeUserScramCredentialsRequest_UserName(msgspec.Struct):
    name: str = ""

class DescribeUserScramCredentialsResponse(msgspec.Struct):
    """Response, key 50, versions 0-0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    results: list[DescribeUserScramCredentialsResponse_DescribeUserScramCredentialsResult] = []

class DescribeUserScramCredentialsResponse_DescribeUserScramCredentialsResult(msgspec.Struct):
    user: str = ""
    error_code: int = 0
    error_message: str | None = ""
    credential_infos: list[DescribeUserScramCredentialsResponse_CredentialInfo] = []

class DescribeUserScramCredentialsResponse_CredentialInfo(msgspec.Struct):
    mechanism: int = 0
    iterations: int = 0

class AlterUserScramCredentialsRequest(msgspec.Struct):
    """Request, key 51, versions 0-0."""

    deletions: list[AlterUserScramCredentialsRequest_ScramCredentialDeletion] = []
    upsertions: list[AlterUserScramCredentialsRequest_ScramCredentialUpsertion] = []

class AlterUserScramCredentialsRequest_ScramCredentialDeletion(msgspec.Struct):
    name: str = ""
    mechanism: int = 0

class AlterUserScramCredentialsRequest_ScramCredentialUpsertion(msgspec.Struct):
    name: str = ""
    mechanism: int = 0
    iterations: int = 0
    salt: bytes = b""
    salted_password: bytes = b""

class AlterUserScramCredentialsResponse(msgspec.Struct):
    """Response, key 51, versions 0-0."""

    throttle_time_ms: int = 0
    results: list[AlterUserScramCredentialsResponse_AlterUserScramCredentialsResult] = []

class AlterUserScramCredentialsResponse_AlterUserScramCredentialsResult(msgspec.Struct):
    user: str = ""
    error_code: int = 0
    error_message: str | None = ""

class VoteRequest(msgspec.Struct):
    """Request, key 52, versions 0-2."""

    cluster_id: str | None = None
    voter_id: int = -1
    topics: list[VoteRequest_TopicData] = []

class VoteRequest_TopicData(msgspec.Struct):
    topic_name: str = ""
    partitions: list[VoteRequest_PartitionData] = []

class VoteRequest_PartitionData(msgspec.Struct):
    partition_index: int = 0
    replica_epoch: int = 0
    replica_id: int = 0
    replica_directory_id: Uuid = Uuid.ZERO
    voter_directory_id: Uuid = Uuid.ZERO
    last_offset_epoch: int = 0
    last_offset: int = 0
    pre_vote: bool = False

class VoteResponse(msgspec.Struct):
    """Response, key 52, versions 0-2."""

    error_code: int = 0
    topics: list[VoteResponse_TopicData] = []
    node_endpoints: list[VoteResponse_NodeEndpoint] = []

class VoteResponse_TopicData(msgspec.Struct):
    topic_name: str = ""
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
    topic_name: str = ""
    partitions: list[BeginQuorumEpochRequest_PartitionData] = []

class BeginQuorumEpochRequest_PartitionData(msgspec.Struct):
    partition_index: int = 0
    voter_directory_id: Uuid = Uuid.ZERO
    leader_id: int = 0
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
    topic_name: str = ""
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
    topic_name: str = ""
    partitions: list[EndQuorumEpochRequest_PartitionData] = []

class EndQuorumEpochRequest_PartitionData(msgspec.Struct):
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = 0
    preferred_successors: list[int] = []
    preferred_candidates: list[EndQuorumEpochRequest_ReplicaInfo] = []

class EndQuorumEpochRequest_ReplicaInfo(msgspec.Struct):
    candidate_id: int = 0
    candidate_directory_id: Uuid = Uuid.ZERO

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
    topic_name: str = ""
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

class DescribeQuorumRequest(msgspec.Struct):
    """Request, key 55, versions 0-2."""

    topics: list[DescribeQuorumRequest_TopicData] = []

class DescribeQuorumRequest_TopicData(msgspec.Struct):
    topic_name: str = ""
    partitions: list[DescribeQuorumRequest_PartitionData] = []

class DescribeQuorumRequest_PartitionData(msgspec.Struct):
    partition_index: int = 0

class DescribeQuorumResponse(msgspec.Struct):
    """Response, key 55, versions 0-2."""

    error_code: int = 0
    error_message: str | None = ""
    topics: list[DescribeQuorumResponse_TopicData] = []
    nodes: list[DescribeQuorumResponse_Node] = []

class DescribeQuorumResponse_TopicData(msgspec.Struct):
    topic_name: str = ""
    partitions: list[DescribeQuorumResponse_PartitionData] = []

class DescribeQuorumResponse_PartitionData(msgspec.Struct):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = ""
    leader_id: int = 0
    leader_epoch: int = 0
    high_watermark: int = 0
    current_voters: list[DescribeQuorumResponse_ReplicaState] = []
    observers: list[DescribeQuorumResponse_ReplicaState] = []

class DescribeQuorumResponse_ReplicaState(msgspec.Struct):
    replica_id: int = 0
    replica_directory_id: Uuid = Uuid.ZERO
    log_end_offset: int = 0
    last_fetch_timestamp: int = -1
    last_caught_up_timestamp: int = -1

class DescribeQuorumResponse_Node(msgspec.Struct):
    node_id: int = 0
    listeners: list[DescribeQuorumResponse_Listener] = []

class DescribeQuorumResponse_Listener(msgspec.Struct):
    name: str = ""
    host: str = ""
    port: int = 0

class AlterPartitionRequest(msgspec.Struct):
    """Request, key 56, versions 0-3."""

    broker_id: int = 0
    broker_epoch: int = -1
    topics: list[AlterPartitionRequest_TopicData] = []

class AlterPartitionRequest_TopicData(msgspec.Struct):
    topic_name: str = ""
    topic_id: Uuid = Uuid.ZERO
    partitions: list[AlterPartitionRequest_PartitionData] = []

class AlterPartitionRequest_PartitionData(msgspec.Struct):
    partition_index: int = 0
    leader_epoch: int = 0
    new_isr: list[int] = []
    new_isr_with_epochs: list[AlterPartitionRequest_BrokerState] = []
    leader_recovery_state: int = 0
    partition_epoch: int = 0

class AlterPartitionRequest_BrokerState(msgspec.Struct):
    broker_id: int = 0
    broker_epoch: int = -1

class AlterPartitionResponse(msgspec.Struct):
    """Response, key 56, versions 0-3."""

    throttle_time_ms: int = 0
    error_code: int = 0
    topics: list[AlterPartitionResponse_TopicData] = []

class AlterPartitionResponse_TopicData(msgspec.Struct):
    topic_name: str = ""
    topic_id: Uuid = Uuid.ZERO
    partitions: list[AlterPartitionResponse_PartitionData] = []

class AlterPartitionResponse_PartitionData(msgspec.Struct):
    partition_index: int = 0
    error_code: int = 0
    leader_id: int = 0
    leader_epoch: int = 0
    isr: list[int] = []
    leader_recovery_state: int = 0
    partition_epoch: int = 0

class UpdateFeaturesRequest(msgspec.Struct):
    """Request, key 57, versions 0-2."""

    timeout_ms: int = 60000
    feature_updates: list[UpdateFeaturesRequest_FeatureUpdateKey] = []
    validate_only: bool = False

class UpdateFeaturesRequest_FeatureUpdateKey(msgspec.Struct):
    feature: str = ""
    max_version_level: int = 0
    allow_downgrade: bool = False
    upgrade_type: int = 1

class UpdateFeaturesResponse(msgspec.Struct):
    """Response, key 57, versions 0-2."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    results: list[UpdateFeaturesResponse_UpdatableFeatureResult] = []

class UpdateFeaturesResponse_UpdatableFeatureResult(msgspec.Struct):
    feature: str = ""
    error_code: int = 0
    error_message: str | None = ""

class EnvelopeRequest(msgspec.Struct):
    """Request, key 58, versions 0-0."""

    request_data: bytes = b""
    request_principal: bytes | None = b""
    client_host_address: bytes = b""

class EnvelopeResponse(msgspec.Struct):
    """Response, key 58, versions 0-0."""

    response_data: bytes | None = None
    error_code: int = 0

class FetchSnapshotRequest(msgspec.Struct):
    """Request, key 59, versions 0-1."""

    cluster_id: str | None = None
    replica_id: int = -1
    max_bytes: int = 2147483647
    topics: list[FetchSnapshotRequest_TopicSnapshot] = []

class FetchSnapshotRequest_TopicSnapshot(msgspec.Struct):
    name: str = ""
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
    """Response, key 59, versions 0-1."""

    throttle_time_ms: int = 0
    error_code: int = 0
    topics: list[FetchSnapshotResponse_TopicSnapshot] = []
    node_endpoints: list[FetchSnapshotResponse_NodeEndpoint] = []

class FetchSnapshotResponse_TopicSnapshot(msgspec.Struct):
    name: str = ""
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

class DescribeClusterRequest(msgspec.Struct):
    """Request, key 60, versions 0-2."""

    include_cluster_authorized_operations: bool = False
    endpoint_type: int = 1
    include_fenced_brokers: bool = False

class DescribeClusterResponse(msgspec.Struct):
    """Response, key 60, versions 0-2."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    endpoint_type: int = 1
    cluster_id: str = ""
    controller_id: int = -1
    brokers: list[DescribeClusterResponse_DescribeClusterBroker] = []
    cluster_authorized_operations: int = -2147483648

class DescribeClusterResponse_DescribeClusterBroker(msgspec.Struct):
    broker_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None
    is_fenced: bool = False

class DescribeProducersRequest(msgspec.Struct):
    """Request, key 61, versions 0-0."""

    topics: list[DescribeProducersRequest_TopicRequest] = []

class DescribeProducersRequest_TopicRequest(msgspec.Struct):
    name: str = ""
    partition_indexes: list[int] = []
    topic_id: Uuid = Uuid.ZERO

class DescribeProducersResponse(msgspec.Struct):
    """Response, key 61, versions 0-0."""

    throttle_time_ms: int = 0
    topics: list[DescribeProducersResponse_TopicResponse] = []

class DescribeProducersResponse_TopicResponse(msgspec.Struct):
    name: str = ""
    partitions: list[DescribeProducersResponse_PartitionResponse] = []
    topic_id: Uuid = Uuid.ZERO

class DescribeProducersResponse_PartitionResponse(msgspec.Struct):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    active_producers: list[DescribeProducersResponse_ProducerState] = []

class DescribeProducersResponse_ProducerState(msgspec.Struct):
    producer_id: int = 0
    producer_epoch: int = 0
    last_sequence: int = -1
    last_timestamp: int = -1
    coordinator_epoch: int = 0
    current_txn_start_offset: int = -1

class BrokerRegistrationRequest(msgspec.Struct):
    """Request, key 62, versions 0-4."""

    broker_id: int = 0
    cluster_id: str = ""
    incarnation_id: Uuid = Uuid.ZERO
    listeners: list[BrokerRegistrationRequest_Listener] = []
    features: list[BrokerRegistrationRequest_Feature] = []
    rack: str | None = ""
    is_migrating_zk_broker: bool = False
    log_dirs: list[Uuid] = []
    previous_broker_epoch: int = -1

class BrokerRegistrationRequest_Listener(msgspec.Struct):
    name: str = ""
    host: str = ""
    port: int = 0
    security_protocol: int = 0

class BrokerRegistrationRequest_Feature(msgspec.Struct):
    name: str = ""
    min_supported_version: int = 0
    max_supported_version: int = 0

class BrokerRegistrationResponse(msgspec.Struct):
    """Response, key 62, versions 0-4."""

    throttle_time_ms: int = 0
    error_code: int = 0
    broker_epoch: int = -1

class BrokerHeartbeatRequest(msgspec.Struct):
    """Request, key 63, versions 0-2."""

    broker_id: int = 0
    broker_epoch: int = -1
    current_metadata_offset: int = 0
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: list[Uuid] = []
    cordoned_log_dirs: list[Uuid] | None = None

class BrokerHeartbeatResponse(msgspec.Struct):
    """Response, key 63, versions 0-2."""

    throttle_time_ms: int = 0
    error_code: int = 0
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False

class UnregisterBrokerRequest(msgspec.Struct):
    """Request, key 64, versions 0-0."""

    broker_id: int = 0

class UnregisterBrokerResponse(msgspec.Struct):
    """Response, key 64, versions 0-0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""

class DescribeTransactionsRequest(msgspec.Struct):
    """Request, key 65, versions 0-0."""

    transactional_ids: list[str] = []

class DescribeTransactionsResponse(msgspec.Struct):
    """Response, key 65, versions 0-0."""

    throttle_time_ms: int = 0
    transaction_states: list[DescribeTransactionsResponse_TransactionState] = []

class DescribeTransactionsResponse_TransactionState(msgspec.Struct):
    error_code: int = 0
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: int = 0
    transaction_start_time_ms: int = 0
    producer_id: int = 0
    producer_epoch: int = 0
    topics: list[DescribeTransactionsResponse_TopicData] = []

class DescribeTransactionsResponse_TopicData(msgspec.Struct):
    topic: str = ""
    partitions: list[int] = []

class ListTransactionsRequest(msgspec.Struct):
    """Request, key 66, versions 0-2."""

    state_filters: list[str] = []
    producer_id_filters: list[int] = []
    duration_filter: int = -1
    transactional_id_pattern: str | None = None

class ListTransactionsResponse(msgspec.Struct):
    """Response, key 66, versions 0-2."""

    throttle_time_ms: int = 0
    error_code: int = 0
    unknown_state_filters: list[str] = []
    transaction_states: list[ListTransactionsResponse_TransactionState] = []

class ListTransactionsResponse_TransactionState(msgspec.Struct):
    transactional_id: str = ""
    producer_id: int = 0
    transaction_state: str = ""

class AllocateProducerIdsRequest(msgspec.Struct):
    """Request, key 67, versions 0-0."""

    broker_id: int = 0
    broker_epoch: int = -1

class AllocateProducerIdsResponse(msgspec.Struct):
    """Response, key 67, versions 0-0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id_start: int = 0
    producer_id_len: int = 0

class ConsumerGroupHeartbeatRequest(msgspec.Struct):
    """Request, key 68, versions 0-1."""

    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: list[str] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: list[ConsumerGroupHeartbeatRequest_TopicPartitions] | None = None

class ConsumerGroupHeartbeatRequest_TopicPartitions(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[int] = []

class ConsumerGroupHeartbeatResponse(msgspec.Struct):
    """Response, key 68, versions 0-1."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: ConsumerGroupHeartbeatResponse_Assignment | None = None

class ConsumerGroupHeartbeatResponse_Assignment(msgspec.Struct):
    topic_partitions: list[ConsumerGroupHeartbeatResponse_TopicPartitions] = []

class ConsumerGroupHeartbeatResponse_TopicPartitions(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[int] = []

class ConsumerGroupDescribeRequest(msgspec.Struct):
    """Request, key 69, versions 0-1."""

    group_ids: list[str] = []
    include_authorized_operations: bool = False

class ConsumerGroupDescribeResponse(msgspec.Struct):
    """Response, key 69, versions 0-1."""

    throttle_time_ms: int = 0
    groups: list[ConsumerGroupDescribeResponse_DescribedGroup] = []

class ConsumerGroupDescribeResponse_DescribedGroup(msgspec.Struct):
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: list[ConsumerGroupDescribeResponse_Member] = []
    authorized_operations: int = -2147483648

class ConsumerGroupDescribeResponse_Member(msgspec.Struct):
    member_id: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: int = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = []
    subscribed_topic_regex: str | None = None
    assignment: ConsumerGroupDescribeResponse_Assignment = ...
    target_assignment: ConsumerGroupDescribeResponse_Assignment = ...
    member_type: int = -1

class ConsumerGroupDescribeResponse_Assignment(msgspec.Struct):
    topic_partitions: list[ConsumerGroupDescribeResponse_TopicPartitions] = []

class ConsumerGroupDescribeResponse_TopicPartitions(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    topic_name: str = ""
    partitions: list[int] = []

class ControllerRegistrationRequest(msgspec.Struct):
    """Request, key 70, versions 0-0."""

    controller_id: int = 0
    incarnation_id: Uuid = Uuid.ZERO
    zk_migration_ready: bool = False
    listeners: list[ControllerRegistrationRequest_Listener] = []
    features: list[ControllerRegistrationRequest_Feature] = []

class ControllerRegistrationRequest_Listener(msgspec.Struct):
    name: str = ""
    host: str = ""
    port: int = 0
    security_protocol: int = 0

class ControllerRegistrationRequest_Feature(msgspec.Struct):
    name: str = ""
    min_supported_version: int = 0
    max_supported_version: int = 0

class ControllerRegistrationResponse(msgspec.Struct):
    """Response, key 70, versions 0-0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""

class GetTelemetrySubscriptionsRequest(msgspec.Struct):
    """Request, key 71, versions 0-0."""

    client_instance_id: Uuid = Uuid.ZERO

class GetTelemetrySubscriptionsResponse(msgspec.Struct):
    """Response, key 71, versions 0-0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    client_instance_id: Uuid = Uuid.ZERO
    subscription_id: int = 0
    accepted_compression_types: list[int] = []
    push_interval_ms: int = 0
    telemetry_max_bytes: int = 0
    delta_temporality: bool = False
    requested_metrics: list[str] = []

class PushTelemetryRequest(msgspec.Struct):
    """Request, key 72, versions 0-0."""

    client_instance_id: Uuid = Uuid.ZERO
    subscription_id: int = 0
    terminating: bool = False
    compression_type: int = 0
    metrics: bytes = b""

class PushTelemetryResponse(msgspec.Struct):
    """Response, key 72, versions 0-0."""

    throttle_time_ms: int = 0
    error_code: int = 0

class AssignReplicasToDirsRequest(msgspec.Struct):
    """Request, key 73, versions 0-0."""

    broker_id: int = 0
    broker_epoch: int = -1
    directories: list[AssignReplicasToDirsRequest_DirectoryData] = []

class AssignReplicasToDirsRequest_DirectoryData(msgspec.Struct):
    id: Uuid = Uuid.ZERO
    topics: list[AssignReplicasToDirsRequest_TopicData] = []

class AssignReplicasToDirsRequest_TopicData(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[AssignReplicasToDirsRequest_PartitionData] = []

class AssignReplicasToDirsRequest_PartitionData(msgspec.Struct):
    partition_index: int = 0

class AssignReplicasToDirsResponse(msgspec.Struct):
    """Response, key 73, versions 0-0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    directories: list[AssignReplicasToDirsResponse_DirectoryData] = []

class AssignReplicasToDirsResponse_DirectoryData(msgspec.Struct):
    id: Uuid = Uuid.ZERO
    topics: list[AssignReplicasToDirsResponse_TopicData] = []

class AssignReplicasToDirsResponse_TopicData(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[AssignReplicasToDirsResponse_PartitionData] = []

class AssignReplicasToDirsResponse_PartitionData(msgspec.Struct):
    partition_index: int = 0
    error_code: int = 0

class ListConfigResourcesRequest(msgspec.Struct):
    """Request, key 74, versions 0-1."""

    resource_types: list[int] = []

class ListConfigResourcesResponse(msgspec.Struct):
    """Response, key 74, versions 0-1."""

    throttle_time_ms: int = 0
    error_code: int = 0
    config_resources: list[ListConfigResourcesResponse_ConfigResource] = []

class ListConfigResourcesResponse_ConfigResource(msgspec.Struct):
    resource_name: str = ""
    resource_type: int = 16

class DescribeTopicPartitionsRequest(msgspec.Struct):
    """Request, key 75, versions 0-0."""

    topics: list[DescribeTopicPartitionsRequest_TopicRequest] = []
    response_partition_limit: int = 2000
    cursor: DescribeTopicPartitionsRequest_Cursor | None = None

class DescribeTopicPartitionsRequest_TopicRequest(msgspec.Struct):
    name: str = ""

class DescribeTopicPartitionsRequest_Cursor(msgspec.Struct):
    topic_name: str = ""
    partition_index: int = 0

class DescribeTopicPartitionsResponse(msgspec.Struct):
    """Response, key 75, versions 0-0."""

    throttle_time_ms: int = 0
    topics: list[DescribeTopicPartitionsResponse_DescribeTopicPartitionsResponseTopic] = []
    next_cursor: DescribeTopicPartitionsResponse_Cursor | None = None

class DescribeTopicPartitionsResponse_DescribeTopicPartitionsResponseTopic(msgspec.Struct):
    error_code: int = 0
    name: str | None = ""
    topic_id: Uuid = Uuid.ZERO
    is_internal: bool = False
    partitions: list[DescribeTopicPartitionsResponse_DescribeTopicPartitionsResponsePartition] = []
    topic_authorized_operations: int = -2147483648

class DescribeTopicPartitionsResponse_DescribeTopicPartitionsResponsePartition(msgspec.Struct):
    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1
    replica_nodes: list[int] = []
    isr_nodes: list[int] = []
    eligible_leader_replicas: list[int] | None = None
    last_known_elr: list[int] | None = None
    offline_replicas: list[int] = []

class DescribeTopicPartitionsResponse_Cursor(msgspec.Struct):
    topic_name: str = ""
    partition_index: int = 0

class ShareGroupHeartbeatRequest(msgspec.Struct):
    """Request, key 76, versions 1-1."""

    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    rack_id: str | None = None
    subscribed_topic_names: list[str] | None = None

class ShareGroupHeartbeatResponse(msgspec.Struct):
    """Response, key 76, versions 1-1."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: ShareGroupHeartbeatResponse_Assignment | None = None

class ShareGroupHeartbeatResponse_Assignment(msgspec.Struct):
    topic_partitions: list[ShareGroupHeartbeatResponse_TopicPartitions] = []

class ShareGroupHeartbeatResponse_TopicPartitions(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[int] = []

class ShareGroupDescribeRequest(msgspec.Struct):
    """Request, key 77, versions 1-1."""

    group_ids: list[str] = []
    include_authorized_operations: bool = False

class ShareGroupDescribeResponse(msgspec.Struct):
    """Response, key 77, versions 1-1."""

    throttle_time_ms: int = 0
    groups: list[ShareGroupDescribeResponse_DescribedGroup] = []

class ShareGroupDescribeResponse_DescribedGroup(msgspec.Struct):
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: list[ShareGroupDescribeResponse_Member] = []
    authorized_operations: int = -2147483648

class ShareGroupDescribeResponse_Member(msgspec.Struct):
    member_id: str = ""
    rack_id: str | None = None
    member_epoch: int = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = []
    assignment: ShareGroupDescribeResponse_Assignment = ...

class ShareGroupDescribeResponse_Assignment(msgspec.Struct):
    topic_partitions: list[ShareGroupDescribeResponse_TopicPartitions] = []

class ShareGroupDescribeResponse_TopicPartitions(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    topic_name: str = ""
    partitions: list[int] = []

class ShareFetchRequest(msgspec.Struct):
    """Request, key 78, versions 1-2."""

    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: int = 0
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2147483647
    max_records: int = 0
    batch_size: int = 0
    share_acquire_mode: int = 0
    is_renew_ack: bool = False
    topics: list[ShareFetchRequest_FetchTopic] = []
    forgotten_topics_data: list[ShareFetchRequest_ForgottenTopic] = []

class ShareFetchRequest_FetchTopic(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[ShareFetchRequest_FetchPartition] = []

class ShareFetchRequest_FetchPartition(msgspec.Struct):
    partition_index: int = 0
    acknowledgement_batches: list[ShareFetchRequest_AcknowledgementBatch] = []

class ShareFetchRequest_AcknowledgementBatch(msgspec.Struct):
    first_offset: int = 0
    last_offset: int = 0
    acknowledge_types: list[int] = []

class ShareFetchRequest_ForgottenTopic(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[int] = []

class ShareFetchResponse(msgspec.Struct):
    """Response, key 78, versions 1-2."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: int = 0
    responses: list[ShareFetchResponse_ShareFetchableTopicResponse] = []
    node_endpoints: list[ShareFetchResponse_NodeEndpoint] = []

class ShareFetchResponse_ShareFetchableTopicResponse(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[ShareFetchResponse_PartitionData] = []

class ShareFetchResponse_PartitionData(msgspec.Struct):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    acknowledge_error_code: int = 0
    acknowledge_error_message: str | None = None
    current_leader: ShareFetchResponse_LeaderIdAndEpoch = ...
    records: bytes | None = None
    acquired_records: list[ShareFetchResponse_AcquiredRecords] = []

class ShareFetchResponse_LeaderIdAndEpoch(msgspec.Struct):
    leader_id: int = 0
    leader_epoch: int = 0

class ShareFetchResponse_AcquiredRecords(msgspec.Struct):
    first_offset: int = 0
    last_offset: int = 0
    delivery_count: int = 0

class ShareFetchResponse_NodeEndpoint(msgspec.Struct):
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None

class ShareAcknowledgeRequest(msgspec.Struct):
    """Request, key 79, versions 1-2."""

    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: int = 0
    is_renew_ack: bool = False
    topics: list[ShareAcknowledgeRequest_AcknowledgeTopic] = []

class ShareAcknowledgeRequest_AcknowledgeTopic(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[ShareAcknowledgeRequest_AcknowledgePartition] = []

class ShareAcknowledgeRequest_AcknowledgePartition(msgspec.Struct):
    partition_index: int = 0
    acknowledgement_batches: list[ShareAcknowledgeRequest_AcknowledgementBatch] = []

class ShareAcknowledgeRequest_AcknowledgementBatch(msgspec.Struct):
    first_offset: int = 0
    last_offset: int = 0
    acknowledge_types: list[int] = []

class ShareAcknowledgeResponse(msgspec.Struct):
    """Response, key 79, versions 1-2."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: int = 0
    responses: list[ShareAcknowledgeResponse_ShareAcknowledgeTopicResponse] = []
    node_endpoints: list[ShareAcknowledgeResponse_NodeEndpoint] = []

class ShareAcknowledgeResponse_ShareAcknowledgeTopicResponse(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[ShareAcknowledgeResponse_PartitionData] = []

class ShareAcknowledgeResponse_PartitionData(msgspec.Struct):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    current_leader: ShareAcknowledgeResponse_LeaderIdAndEpoch = ...

class ShareAcknowledgeResponse_LeaderIdAndEpoch(msgspec.Struct):
    leader_id: int = 0
    leader_epoch: int = 0

class ShareAcknowledgeResponse_NodeEndpoint(msgspec.Struct):
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None

class AddRaftVoterRequest(msgspec.Struct):
    """Request, key 80, versions 0-1."""

    cluster_id: str | None = ""
    timeout_ms: int = 0
    voter_id: int = 0
    voter_directory_id: Uuid = Uuid.ZERO
    listeners: list[AddRaftVoterRequest_Listener] = []
    ack_when_committed: bool = True

class AddRaftVoterRequest_Listener(msgspec.Struct):
    name: str = ""
    host: str = ""
    port: int = 0

class AddRaftVoterResponse(msgspec.Struct):
    """Response, key 80, versions 0-1."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""

class RemoveRaftVoterRequest(msgspec.Struct):
    """Request, key 81, versions 0-0."""

    cluster_id: str | None = ""
    voter_id: int = 0
    voter_directory_id: Uuid = Uuid.ZERO

class RemoveRaftVoterResponse(msgspec.Struct):
    """Response, key 81, versions 0-0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""

class UpdateRaftVoterRequest(msgspec.Struct):
    """Request, key 82, versions 0-0."""

    cluster_id: str | None = ""
    current_leader_epoch: int = 0
    voter_id: int = 0
    voter_directory_id: Uuid = Uuid.ZERO
    listeners: list[UpdateRaftVoterRequest_Listener] = []
    kraft_version_feature: UpdateRaftVoterRequest_KRaftVersionFeature = ...

class UpdateRaftVoterRequest_Listener(msgspec.Struct):
    name: str = ""
    host: str = ""
    port: int = 0

class UpdateRaftVoterRequest_KRaftVersionFeature(msgspec.Struct):
    min_supported_version: int = 0
    max_supported_version: int = 0

class UpdateRaftVoterResponse(msgspec.Struct):
    """Response, key 82, versions 0-0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    current_leader: UpdateRaftVoterResponse_CurrentLeader = ...

class UpdateRaftVoterResponse_CurrentLeader(msgspec.Struct):
    leader_id: int = -1
    leader_epoch: int = -1
    host: str = ""
    port: int = 0

class InitializeShareGroupStateRequest(msgspec.Struct):
    """Request, key 83, versions 0-0."""

    group_id: str = ""
    topics: list[InitializeShareGroupStateRequest_InitializeStateData] = []

class InitializeShareGroupStateRequest_InitializeStateData(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[InitializeShareGroupStateRequest_PartitionData] = []

class InitializeShareGroupStateRequest_PartitionData(msgspec.Struct):
    partition: int = 0
    state_epoch: int = 0
    start_offset: int = 0

class InitializeShareGroupStateResponse(msgspec.Struct):
    """Response, key 83, versions 0-0."""

    results: list[InitializeShareGroupStateResponse_InitializeStateResult] = []

class InitializeShareGroupStateResponse_InitializeStateResult(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[InitializeShareGroupStateResponse_PartitionResult] = []

class InitializeShareGroupStateResponse_PartitionResult(msgspec.Struct):
    partition: int = 0
    error_code: int = 0
    error_message: str | None = None

class ReadShareGroupStateRequest(msgspec.Struct):
    """Request, key 84, versions 0-0."""

    group_id: str = ""
    topics: list[ReadShareGroupStateRequest_ReadStateData] = []

class ReadShareGroupStateRequest_ReadStateData(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[ReadShareGroupStateRequest_PartitionData] = []

class ReadShareGroupStateRequest_PartitionData(msgspec.Struct):
    partition: int = 0
    leader_epoch: int = 0

class ReadShareGroupStateResponse(msgspec.Struct):
    """Response, key 84, versions 0-0."""

    results: list[ReadShareGroupStateResponse_ReadStateResult] = []

class ReadShareGroupStateResponse_ReadStateResult(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[ReadShareGroupStateResponse_PartitionResult] = []

class ReadShareGroupStateResponse_PartitionResult(msgspec.Struct):
    partition: int = 0
    error_code: int = 0
    error_message: str | None = None
    state_epoch: int = 0
    start_offset: int = 0
    state_batches: list[ReadShareGroupStateResponse_StateBatch] = []

class ReadShareGroupStateResponse_StateBatch(msgspec.Struct):
    first_offset: int = 0
    last_offset: int = 0
    delivery_state: int = 0
    delivery_count: int = 0

class WriteShareGroupStateRequest(msgspec.Struct):
    """Request, key 85, versions 0-1."""

    group_id: str = ""
    topics: list[WriteShareGroupStateRequest_WriteStateData] = []

class WriteShareGroupStateRequest_WriteStateData(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[WriteShareGroupStateRequest_PartitionData] = []

class WriteShareGroupStateRequest_PartitionData(msgspec.Struct):
    partition: int = 0
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = 0
    delivery_complete_count: int = -1
    state_batches: list[WriteShareGroupStateRequest_StateBatch] = []

class WriteShareGroupStateRequest_StateBatch(msgspec.Struct):
    first_offset: int = 0
    last_offset: int = 0
    delivery_state: int = 0
    delivery_count: int = 0

class WriteShareGroupStateResponse(msgspec.Struct):
    """Response, key 85, versions 0-1."""

    results: list[WriteShareGroupStateResponse_WriteStateResult] = []

class WriteShareGroupStateResponse_WriteStateResult(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[WriteShareGroupStateResponse_PartitionResult] = []

class WriteShareGroupStateResponse_PartitionResult(msgspec.Struct):
    partition: int = 0
    error_code: int = 0
    error_message: str | None = None

class DeleteShareGroupStateRequest(msgspec.Struct):
    """Request, key 86, versions 0-0."""

    group_id: str = ""
    topics: list[DeleteShareGroupStateRequest_DeleteStateData] = []

class DeleteShareGroupStateRequest_DeleteStateData(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[DeleteShareGroupStateRequest_PartitionData] = []

class DeleteShareGroupStateRequest_PartitionData(msgspec.Struct):
    partition: int = 0

class DeleteShareGroupStateResponse(msgspec.Struct):
    """Response, key 86, versions 0-0."""

    results: list[DeleteShareGroupStateResponse_DeleteStateResult] = []

class DeleteShareGroupStateResponse_DeleteStateResult(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[DeleteShareGroupStateResponse_PartitionResult] = []

class DeleteShareGroupStateResponse_PartitionResult(msgspec.Struct):
    partition: int = 0
    error_code: int = 0
    error_message: str | None = None

class ReadShareGroupStateSummaryRequest(msgspec.Struct):
    """Request, key 87, versions 0-1."""

    group_id: str = ""
    topics: list[ReadShareGroupStateSummaryRequest_ReadStateSummaryData] = []

class ReadShareGroupStateSummaryRequest_ReadStateSummaryData(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[ReadShareGroupStateSummaryRequest_PartitionData] = []

class ReadShareGroupStateSummaryRequest_PartitionData(msgspec.Struct):
    partition: int = 0
    leader_epoch: int = 0

class ReadShareGroupStateSummaryResponse(msgspec.Struct):
    """Response, key 87, versions 0-1."""

    results: list[ReadShareGroupStateSummaryResponse_ReadStateSummaryResult] = []

class ReadShareGroupStateSummaryResponse_ReadStateSummaryResult(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    partitions: list[ReadShareGroupStateSummaryResponse_PartitionResult] = []

class ReadShareGroupStateSummaryResponse_PartitionResult(msgspec.Struct):
    partition: int = 0
    error_code: int = 0
    error_message: str | None = None
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = 0
    delivery_complete_count: int = -1

class StreamsGroupHeartbeatRequest(msgspec.Struct):
    """Request, key 88, versions 0-1."""

    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    endpoint_information_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology: StreamsGroupHeartbeatRequest_Topology | None = None
    active_tasks: list[StreamsGroupHeartbeatRequest_TaskIds] | None = None
    standby_tasks: list[StreamsGroupHeartbeatRequest_TaskIds] | None = None
    warmup_tasks: list[StreamsGroupHeartbeatRequest_TaskIds] | None = None
    process_id: str | None = None
    user_endpoint: StreamsGroupHeartbeatRequest_Endpoint | None = None
    client_tags: list[StreamsGroupHeartbeatRequest_KeyValue] | None = None
    task_offsets: list[StreamsGroupHeartbeatRequest_TaskOffset] | None = None
    task_end_offsets: list[StreamsGroupHeartbeatRequest_TaskOffset] | None = None
    shutdown_application: bool = False

class StreamsGroupHeartbeatRequest_Topology(msgspec.Struct):
    epoch: int = 0
    subtopologies: list[StreamsGroupHeartbeatRequest_Subtopology] = []

class StreamsGroupHeartbeatRequest_Subtopology(msgspec.Struct):
    subtopology_id: str = ""
    source_topics: list[str] = []
    source_topic_regex: list[str] = []
    state_changelog_topics: list[StreamsGroupHeartbeatRequest_TopicInfo] = []
    repartition_sink_topics: list[str] = []
    repartition_source_topics: list[StreamsGroupHeartbeatRequest_TopicInfo] = []
    copartition_groups: list[StreamsGroupHeartbeatRequest_CopartitionGroup] = []

class StreamsGroupHeartbeatRequest_TopicInfo(msgspec.Struct):
    name: str = ""
    partitions: int = 0
    replication_factor: int = 0
    topic_configs: list[StreamsGroupHeartbeatRequest_KeyValue] = []

class StreamsGroupHeartbeatRequest_CopartitionGroup(msgspec.Struct):
    source_topics: list[int] = []
    source_topic_regex: list[int] = []
    repartition_source_topics: list[int] = []

class StreamsGroupHeartbeatRequest_TaskIds(msgspec.Struct):
    subtopology_id: str = ""
    partitions: list[int] = []

class StreamsGroupHeartbeatRequest_Endpoint(msgspec.Struct):
    host: str = ""
    port: int = 0

class StreamsGroupHeartbeatRequest_KeyValue(msgspec.Struct):
    key: str = ""
    value: str = ""

class StreamsGroupHeartbeatRequest_TaskOffset(msgspec.Struct):
    subtopology_id: str = ""
    partition: int = 0
    offset: int = 0

class StreamsGroupHeartbeatResponse(msgspec.Struct):
    """Response, key 88, versions 0-1."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str = ""
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    acceptable_recovery_lag_legacy: int = 0
    task_offset_interval_ms: int = 0
    acceptable_recovery_lag: int = -1
    status: list[StreamsGroupHeartbeatResponse_Status] | None = []
    active_tasks: list[StreamsGroupHeartbeatResponse_TaskIds] | None = None
    standby_tasks: list[StreamsGroupHeartbeatResponse_TaskIds] | None = None
    warmup_tasks: list[StreamsGroupHeartbeatResponse_TaskIds] | None = None
    topology_description_required: bool = False
    endpoint_information_epoch: int = 0
    partitions_by_user_endpoint: list[StreamsGroupHeartbeatResponse_EndpointToPartitions] | None = None

class StreamsGroupHeartbeatResponse_Status(msgspec.Struct):
    status_code: int = 0
    status_detail: str = ""

class StreamsGroupHeartbeatResponse_TaskIds(msgspec.Struct):
    subtopology_id: str = ""
    partitions: list[int] = []

class StreamsGroupHeartbeatResponse_EndpointToPartitions(msgspec.Struct):
    user_endpoint: StreamsGroupHeartbeatResponse_Endpoint = ...
    active_partitions: list[StreamsGroupHeartbeatResponse_TopicPartition] = []
    standby_partitions: list[StreamsGroupHeartbeatResponse_TopicPartition] = []

class StreamsGroupHeartbeatResponse_Endpoint(msgspec.Struct):
    host: str = ""
    port: int = 0

class StreamsGroupHeartbeatResponse_TopicPartition(msgspec.Struct):
    topic: str = ""
    partitions: list[int] = []

class StreamsGroupDescribeRequest(msgspec.Struct):
    """Request, key 89, versions 0-1."""

    group_ids: list[str] = []
    include_authorized_operations: bool = False
    include_topology_description: bool = False

class StreamsGroupDescribeResponse(msgspec.Struct):
    """Response, key 89, versions 0-1."""

    throttle_time_ms: int = 0
    groups: list[StreamsGroupDescribeResponse_DescribedGroup] = []

class StreamsGroupDescribeResponse_DescribedGroup(msgspec.Struct):
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    topology: StreamsGroupDescribeResponse_Topology | None = None
    members: list[StreamsGroupDescribeResponse_Member] = []
    authorized_operations: int = -2147483648
    topology_description: StreamsGroupDescribeResponse_TopologyDescription | None = None
    topology_description_status: int = 0
    assignor_name: str | None = None

class StreamsGroupDescribeResponse_Topology(msgspec.Struct):
    epoch: int = 0
    subtopologies: list[StreamsGroupDescribeResponse_Subtopology] | None = None

class StreamsGroupDescribeResponse_Subtopology(msgspec.Struct):
    subtopology_id: str = ""
    source_topics: list[str] = []
    repartition_sink_topics: list[str] = []
    state_changelog_topics: list[StreamsGroupDescribeResponse_TopicInfo] = []
    repartition_source_topics: list[StreamsGroupDescribeResponse_TopicInfo] = []

class StreamsGroupDescribeResponse_TopicInfo(msgspec.Struct):
    name: str = ""
    partitions: int = 0
    replication_factor: int = 0
    topic_configs: list[StreamsGroupDescribeResponse_KeyValue] = []

class StreamsGroupDescribeResponse_Member(msgspec.Struct):
    member_id: str = ""
    member_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topology_epoch: int = 0
    process_id: str = ""
    user_endpoint: StreamsGroupDescribeResponse_Endpoint | None = None
    client_tags: list[StreamsGroupDescribeResponse_KeyValue] = []
    task_offsets: list[StreamsGroupDescribeResponse_TaskOffset] = []
    task_end_offsets: list[StreamsGroupDescribeResponse_TaskOffset] = []
    assignment: StreamsGroupDescribeResponse_Assignment = ...
    target_assignment: StreamsGroupDescribeResponse_Assignment = ...
    is_classic: bool = False

class StreamsGroupDescribeResponse_Endpoint(msgspec.Struct):
    host: str = ""
    port: int = 0

class StreamsGroupDescribeResponse_KeyValue(msgspec.Struct):
    key: str = ""
    value: str = ""

class StreamsGroupDescribeResponse_TaskOffset(msgspec.Struct):
    subtopology_id: str = ""
    partition: int = 0
    offset: int = 0

class StreamsGroupDescribeResponse_Assignment(msgspec.Struct):
    active_tasks: list[StreamsGroupDescribeResponse_TaskIds] = []
    standby_tasks: list[StreamsGroupDescribeResponse_TaskIds] = []
    warmup_tasks: list[StreamsGroupDescribeResponse_TaskIds] = []

class StreamsGroupDescribeResponse_TopologyDescription(msgspec.Struct):
    subtopologies: list[StreamsGroupDescribeResponse_TopologyDescriptionSubtopology] = []
    global_stores: list[StreamsGroupDescribeResponse_TopologyDescriptionGlobalStore] = []

class StreamsGroupDescribeResponse_TopologyDescriptionSubtopology(msgspec.Struct):
    subtopology_id: str = ""
    nodes: list[StreamsGroupDescribeResponse_TopologyDescriptionNode] = []

class StreamsGroupDescribeResponse_TopologyDescriptionNode(msgspec.Struct):
    name: str = ""
    node_type: int = 0
    source_topics: list[str] = []
    sink_topic: str | None = None
    stores: list[str] = []
    successors: list[str] = []

class StreamsGroupDescribeResponse_TopologyDescriptionGlobalStore(msgspec.Struct):
    source: StreamsGroupDescribeResponse_TopologyDescriptionNode = ...
    processor: StreamsGroupDescribeResponse_TopologyDescriptionNode = ...

class StreamsGroupDescribeResponse_TaskIds(msgspec.Struct):
    subtopology_id: str = ""
    partitions: list[int] = []

class DescribeShareGroupOffsetsRequest(msgspec.Struct):
    """Request, key 90, versions 0-1."""

    groups: list[DescribeShareGroupOffsetsRequest_DescribeShareGroupOffsetsRequestGroup] = []

class DescribeShareGroupOffsetsRequest_DescribeShareGroupOffsetsRequestGroup(msgspec.Struct):
    group_id: str = ""
    topics: list[DescribeShareGroupOffsetsRequest_DescribeShareGroupOffsetsRequestTopic] | None = []

class DescribeShareGroupOffsetsRequest_DescribeShareGroupOffsetsRequestTopic(msgspec.Struct):
    topic_name: str = ""
    partitions: list[int] = []

class DescribeShareGroupOffsetsResponse(msgspec.Struct):
    """Response, key 90, versions 0-1."""

    throttle_time_ms: int = 0
    groups: list[DescribeShareGroupOffsetsResponse_DescribeShareGroupOffsetsResponseGroup] = []

class DescribeShareGroupOffsetsResponse_DescribeShareGroupOffsetsResponseGroup(msgspec.Struct):
    group_id: str = ""
    topics: list[DescribeShareGroupOffsetsResponse_DescribeShareGroupOffsetsResponseTopic] = []
    error_code: int = 0
    error_message: str | None = None

class DescribeShareGroupOffsetsResponse_DescribeShareGroupOffsetsResponseTopic(msgspec.Struct):
    topic_name: str = ""
    topic_id: Uuid = Uuid.ZERO
    partitions: list[DescribeShareGroupOffsetsResponse_DescribeShareGroupOffsetsResponsePartition] = []

class DescribeShareGroupOffsetsResponse_DescribeShareGroupOffsetsResponsePartition(msgspec.Struct):
    partition_index: int = 0
    start_offset: int = 0
    leader_epoch: int = 0
    lag: int = -1
    error_code: int = 0
    error_message: str | None = None

class AlterShareGroupOffsetsRequest(msgspec.Struct):
    """Request, key 91, versions 0-0."""

    group_id: str = ""
    topics: list[AlterShareGroupOffsetsRequest_AlterShareGroupOffsetsRequestTopic] = []

class AlterShareGroupOffsetsRequest_AlterShareGroupOffsetsRequestTopic(msgspec.Struct):
    topic_name: str = ""
    partitions: list[AlterShareGroupOffsetsRequest_AlterShareGroupOffsetsRequestPartition] = []

class AlterShareGroupOffsetsRequest_AlterShareGroupOffsetsRequestPartition(msgspec.Struct):
    partition_index: int = 0
    start_offset: int = 0

class AlterShareGroupOffsetsResponse(msgspec.Struct):
    """Response, key 91, versions 0-0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    responses: list[AlterShareGroupOffsetsResponse_AlterShareGroupOffsetsResponseTopic] = []

class AlterShareGroupOffsetsResponse_AlterShareGroupOffsetsResponseTopic(msgspec.Struct):
    topic_name: str = ""
    topic_id: Uuid = Uuid.ZERO
    partitions: list[AlterShareGroupOffsetsResponse_AlterShareGroupOffsetsResponsePartition] = []

class AlterShareGroupOffsetsResponse_AlterShareGroupOffsetsResponsePartition(msgspec.Struct):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None

class DeleteShareGroupOffsetsRequest(msgspec.Struct):
    """Request, key 92, versions 0-0."""

    group_id: str = ""
    topics: list[DeleteShareGroupOffsetsRequest_DeleteShareGroupOffsetsRequestTopic] = []

class DeleteShareGroupOffsetsRequest_DeleteShareGroupOffsetsRequestTopic(msgspec.Struct):
    topic_name: str = ""

class DeleteShareGroupOffsetsResponse(msgspec.Struct):
    """Response, key 92, versions 0-0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    responses: list[DeleteShareGroupOffsetsResponse_DeleteShareGroupOffsetsResponseTopic] = []

class DeleteShareGroupOffsetsResponse_DeleteShareGroupOffsetsResponseTopic(msgspec.Struct):
    topic_name: str = ""
    topic_id: Uuid = Uuid.ZERO
    error_code: int = 0
    error_message: str | None = None

class StreamsGroupTopologyDescriptionUpdateRequest(msgspec.Struct):
    """Request, key 93, versions 0-0."""

    group_id: str = ""
    member_id: str = ""
    topology_epoch: int = 0
    topology_description: StreamsGroupTopologyDescriptionUpdateRequest_TopologyDescription = ...

class StreamsGroupTopologyDescriptionUpdateRequest_TopologyDescription(msgspec.Struct):
    subtopologies: list[StreamsGroupTopologyDescriptionUpdateRequest_TopologyDescriptionSubtopology] = []
    global_stores: list[StreamsGroupTopologyDescriptionUpdateRequest_TopologyDescriptionGlobalStore] = []

class StreamsGroupTopologyDescriptionUpdateRequest_TopologyDescriptionSubtopology(msgspec.Struct):
    subtopology_id: str = ""
    nodes: list[StreamsGroupTopologyDescriptionUpdateRequest_TopologyDescriptionNode] = []

class StreamsGroupTopologyDescriptionUpdateRequest_TopologyDescriptionNode(msgspec.Struct):
    name: str = ""
    node_type: int = 0
    source_topics: list[str] = []
    sink_topic: str | None = None
    stores: list[str] = []
    successors: list[str] = []

class StreamsGroupTopologyDescriptionUpdateRequest_TopologyDescriptionGlobalStore(msgspec.Struct):
    source: StreamsGroupTopologyDescriptionUpdateRequest_TopologyDescriptionNode = ...
    processor: StreamsGroupTopologyDescriptionUpdateRequest_TopologyDescriptionNode = ...

class StreamsGroupTopologyDescriptionUpdateResponse(msgspec.Struct):
    """Response, key 93, versions 0-0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None

class UnregisterControllerRequest(msgspec.Struct):
    """Request, key 94, versions 0-0."""

    controller_id: int = 0

class UnregisterControllerResponse(msgspec.Struct):
    """Response, key 94, versions 0-0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""

class ListTopicsRequest(msgspec.Struct):
    """Request, key 32142, versions 0-1."""

    list_internal: bool = False
    prefix: str = ""
    after: str | None = None
    limit: int = 0

class ListTopicsResponse(msgspec.Struct):
    """Response, key 32142, versions 0-1."""

    error_code: int = 0
    topic_listing: list[ListTopicsResponse_TopicListing] = []
    next: str | None = None
    throttle_time_ms: int = 0

class ListTopicsResponse_TopicListing(msgspec.Struct):
    name: str = ""
    topic_id: Uuid = Uuid.ZERO
    internal: bool = False

class UndeleteTopicsRequest(msgspec.Struct):
    """Request, key 32143, versions 0-0."""

    topics: list[UndeleteTopicsRequest_UndeletableTopic] = []
    timeout_ms: int = 0

class UndeleteTopicsRequest_UndeletableTopic(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    new_name: str | None = None

class UndeleteTopicsResponse(msgspec.Struct):
    """Response, key 32143, versions 0-0."""

    throttle_time_ms: int = 0
    topics: list[UndeleteTopicsResponse_UndeletedTopicResult] = []

class UndeleteTopicsResponse_UndeletedTopicResult(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    name: str | None = None
    error_code: int = 0
    error_message: str | None = None

class TruncateTopicsRequest(msgspec.Struct):
    """Request, key 32144, versions 0-0."""

    topics: list[TruncateTopicsRequest_TruncatableTopic] = []
    timeout_ms: int = 0

class TruncateTopicsRequest_TruncatableTopic(msgspec.Struct):
    name: str | None = None
    topic_id: Uuid = Uuid.ZERO
    keep_offsets: bool = False

class TruncateTopicsResponse(msgspec.Struct):
    """Response, key 32144, versions 0-0."""

    throttle_time_ms: int = 0
    topics: list[TruncateTopicsResponse_TruncatedTopicResult] = []

class TruncateTopicsResponse_TruncatedTopicResult(msgspec.Struct):
    name: str | None = None
    topic_id: Uuid = Uuid.ZERO
    old_topic_id: Uuid = Uuid.ZERO
    error_code: int = 0
    error_message: str | None = None

class DescribeTopicHistoryRequest(msgspec.Struct):
    """Request, key 32145, versions 0-0."""

    topics: list[DescribeTopicHistoryRequest_HistoryTopic] = []

class DescribeTopicHistoryRequest_HistoryTopic(msgspec.Struct):
    name: str | None = None
    topic_id: Uuid = Uuid.ZERO

class DescribeTopicHistoryResponse(msgspec.Struct):
    """Response, key 32145, versions 0-0."""

    throttle_time_ms: int = 0
    topics: list[DescribeTopicHistoryResponse_HistoryTopicResult] = []

class DescribeTopicHistoryResponse_HistoryTopicResult(msgspec.Struct):
    name: str | None = None
    topic_id: Uuid = Uuid.ZERO
    error_code: int = 0
    error_message: str | None = None
    incarnations: list[DescribeTopicHistoryResponse_HistoryIncarnation] = []

class DescribeTopicHistoryResponse_HistoryIncarnation(msgspec.Struct):
    name: str = ""
    topic_id: Uuid = Uuid.ZERO
    state: str = ""
    created_ms: int = -1
    created_by: str | None = None
    created_how: str = ""
    deleted_ms: int = -1
    deleted_by: str | None = None
    deleted_how: str | None = None
    successor_id: Uuid = Uuid.ZERO
    events: list[DescribeTopicHistoryResponse_HistoryEvent] = []
    partitions: list[DescribeTopicHistoryResponse_HistoryPartition] = []

class DescribeTopicHistoryResponse_HistoryEvent(msgspec.Struct):
    what: str = ""
    at_ms: int = 0
    by: str = ""
    name: str = ""

class DescribeTopicHistoryResponse_HistoryPartition(msgspec.Struct):
    partition_index: int = 0
    log_start_offset: int = -1
    log_end_offset: int = -1

class DescribeDeletionsRequest(msgspec.Struct):
    """Request, key 32146, versions 0-1."""

    topics: list[DescribeDeletionsRequest_DeletionFilter] | None = None

class DescribeDeletionsRequest_DeletionFilter(msgspec.Struct):
    name: str | None = None
    topic_id: Uuid = Uuid.ZERO

class DescribeDeletionsResponse(msgspec.Struct):
    """Response, key 32146, versions 0-1."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    deletions: list[DescribeDeletionsResponse_Deletion] = []

class DescribeDeletionsResponse_Deletion(msgspec.Struct):
    name: str = ""
    topic_id: Uuid = Uuid.ZERO
    state: str = ""
    how: str = ""
    deleted_ms: int = -1
    deleted_by: str = ""
    remaining_ms: int = -1
    size_bytes: int = -1
    remove_after_ms: int = -1
    undeletable: bool = False
    partitions: list[DescribeDeletionsResponse_DeletionPartition] = []

class DescribeDeletionsResponse_DeletionPartition(msgspec.Struct):
    partition_index: int = 0
    broker_id: int = 0
    state: str = ""
    log_dir: str | None = None
    size_bytes: int = -1
    remaining_ms: int = -1

class DescribeClusterStateRequest(msgspec.Struct):
    """Request, key 32147, versions 0-0."""

    partitions_max: int = 1000

class DescribeClusterStateResponse(msgspec.Struct):
    """Response, key 32147, versions 0-0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    broker_id: int = -1
    store_session: str = ""
    controller_id: int = -1
    controller_epoch: int = -1
    topics: int = 0
    partitions: int = 0
    offline_partitions: int = 0
    under_replicated_partitions: int = 0
    under_min_isr_partitions: int = 0
    at_min_isr_partitions: int = 0
    reassigning_partitions: int = 0
    too_few_replicas_partitions: int = 0
    brokers: list[DescribeClusterStateResponse_BrokerState] = []
    conditions: list[DescribeClusterStateResponse_PartitionCondition] = []
    damaged_topics: list[DescribeClusterStateResponse_DamagedTopic] = []
    wrong_roles: list[DescribeClusterStateResponse_WrongRole] = []
    quorum: list[DescribeClusterStateResponse_QuorumNode] = []

class DescribeClusterStateResponse_BrokerState(msgspec.Struct):
    broker_id: int = 0
    broker_epoch: int = -1
    rack: str | None = None
    leaving: bool = False
    leaders: int = 0
    replicas: int = 0

class DescribeClusterStateResponse_PartitionCondition(msgspec.Struct):
    name: str = ""
    topic_id: Uuid = Uuid.ZERO
    partition_index: int = 0
    leader_id: int = -1
    leader_epoch: int = -1
    replica_nodes: list[int] = []
    isr_nodes: list[int] = []
    adding_nodes: list[int] = []
    removing_nodes: list[int] = []
    min_isr: int = 0
    replicas_wanted: int = 0

class DescribeClusterStateResponse_DamagedTopic(msgspec.Struct):
    name: str = ""
    reason: str = ""

class DescribeClusterStateResponse_WrongRole(msgspec.Struct):
    name: str = ""
    topic_id: Uuid = Uuid.ZERO
    partition_index: int = 0
    leader_epoch: int = -1
    found: str = ""

class DescribeClusterStateResponse_QuorumNode(msgspec.Struct):
    role: str = ""
    epoch: int = -1
    leader_id: int = -1
    high_watermark: int = -1
    log_end_offset: int = -1
    voters: list[DescribeClusterStateResponse_QuorumVoter] = []

class DescribeClusterStateResponse_QuorumVoter(msgspec.Struct):
    voter_id: int = 0
    log_end_offset: int = -1
    ms_since_fetch: int = -1
    ms_since_caught_up: int = -1

class DeleteOffsetsRequest(msgspec.Struct):
    """Request, key 32148, versions 0-0."""

    group_id: str = ""
    topics: list[DeleteOffsetsRequest_DeleteOffsetsTopic] = []

class DeleteOffsetsRequest_DeleteOffsetsTopic(msgspec.Struct):
    name: str = ""
    topic_id: Uuid = Uuid.ZERO
    partitions: list[DeleteOffsetsRequest_DeleteOffsetsPartition] = []

class DeleteOffsetsRequest_DeleteOffsetsPartition(msgspec.Struct):
    partition_index: int = 0

class DeleteOffsetsResponse(msgspec.Struct):
    """Response, key 32148, versions 0-0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    topics: list[DeleteOffsetsResponse_DeleteOffsetsTopicResult] = []

class DeleteOffsetsResponse_DeleteOffsetsTopicResult(msgspec.Struct):
    name: str = ""
    topic_id: Uuid = Uuid.ZERO
    partitions: list[DeleteOffsetsResponse_DeleteOffsetsPartitionResult] = []

class DeleteOffsetsResponse_DeleteOffsetsPartitionResult(msgspec.Struct):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = ""

class PurgeTopicsRequest(msgspec.Struct):
    """Request, key 32149, versions 0-0."""

    topics: list[PurgeTopicsRequest_PurgeableTopic] = []
    delay_ms: int = 0
    timeout_ms: int = 0

class PurgeTopicsRequest_PurgeableTopic(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO

class PurgeTopicsResponse(msgspec.Struct):
    """Response, key 32149, versions 0-0."""

    throttle_time_ms: int = 0
    topics: list[PurgeTopicsResponse_PurgedTopicResult] = []

class PurgeTopicsResponse_PurgedTopicResult(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    name: str | None = None
    error_code: int = 0
    error_message: str | None = None
    remove_after_ms: int = -1

class IngestBeginRequest(msgspec.Struct):
    """Request, key 32150, versions 0-0."""

    cluster_id: str = ""
    topic_id: Uuid = Uuid.ZERO
    ingest_id: str = ""
    batch_id: int = -1
    ttl_ms: int = -1
    join: bool = False

class IngestBeginResponse(msgspec.Struct):
    """Response, key 32150, versions 0-0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    state: int = 0
    epoch: int = -1
    ttl_ms: int = -1
    topic_name: str = ""
    max_message_bytes: int = 0
    compression_type: str = ""
    timestamp_type: int = 0
    keys_required: bool = False
    append_max_bytes: int = 0
    partitions: list[IngestBeginResponse_IngestBeginPartition] = []
    committed: list[IngestBeginResponse_IngestCommittedPartition] = []

class IngestBeginResponse_IngestBeginPartition(msgspec.Struct):
    partition: int = 0
    leader_id: int = -1

class IngestBeginResponse_IngestCommittedPartition(msgspec.Struct):
    partition: int = 0
    base_offset: int = 0
    end_offset: int = 0

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

class IngestCommitRequest(msgspec.Struct):
    """Request, key 32152, versions 0-0."""

    cluster_id: str = ""
    topic_id: Uuid = Uuid.ZERO
    ingest_id: str = ""
    batch_id: int = -1
    epoch: int = 0
    writers: list[IngestCommitRequest_IngestWriter] = []

class IngestCommitRequest_IngestWriter(msgspec.Struct):
    writer: int = 0
    attempt: int = 0
    partitions: list[IngestCommitRequest_IngestWriterPartition] = []

class IngestCommitRequest_IngestWriterPartition(msgspec.Struct):
    partition: int = 0
    rows: int = 0
    bytes: int = 0
    crc: int = 0

class IngestCommitResponse(msgspec.Struct):
    """Response, key 32152, versions 0-0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    state: int = 0
    repeated: bool = False
    partitions: list[IngestCommitResponse_IngestAttachedPartition] = []

class IngestCommitResponse_IngestAttachedPartition(msgspec.Struct):
    partition: int = 0
    base_offset: int = 0
    end_offset: int = 0

class IngestAbortRequest(msgspec.Struct):
    """Request, key 32153, versions 0-0."""

    cluster_id: str = ""
    topic_id: Uuid = Uuid.ZERO
    ingest_id: str = ""
    batch_id: int = -1
    epoch: int = -1

class IngestAbortResponse(msgspec.Struct):
    """Response, key 32153, versions 0-0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    state: int = 0

class ListIngestsRequest(msgspec.Struct):
    """Request, key 32154, versions 0-0."""

    topic_ids: list[Uuid] | None = []
    ingest_id: str | None = ""
    include_committed: bool = False
    after: str | None = None

class ListIngestsResponse(msgspec.Struct):
    """Response, key 32154, versions 0-0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    ingests: list[ListIngestsResponse_ListedIngest] = []
    next: str | None = None

class ListIngestsResponse_ListedIngest(msgspec.Struct):
    topic_id: Uuid = Uuid.ZERO
    topic_name: str = ""
    ingest_id: str = ""
    batch_id: int = -1
    epoch: int = 0
    state: int = 0
    created_ms: int = 0
    touched_ms: int = 0
    ttl_ms: int = 0
    writers: int = 0
    rows: int = 0
    bytes: int = 0
    partitions: list[ListIngestsResponse_ListedIngestPartition] = []

class ListIngestsResponse_ListedIngestPartition(msgspec.Struct):
    partition: int = 0
    rows: int = 0
    bytes: int = 0
    base_offset: int = -1
    end_offset: int = -1

class TransferQuorumLeaderRequest(msgspec.Struct):
    """Request, key 32155, versions 0-0."""

    successor_id: int = -1
    timeout_ms: int = 0

class TransferQuorumLeaderResponse(msgspec.Struct):
    """Response, key 32155, versions 0-0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
