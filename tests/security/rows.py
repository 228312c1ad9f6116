"""The table of permissions: for each API key, requests that show which permission it needs. A key without a row fails
the build."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pybroker import native
from pybroker.broker.security.authorizer import CLUSTER_NAME, AclOperation, ResourceType
from pybroker.native import Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode

T, G, C, X = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID
Op = AclOperation
TOPIC_DENIED = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
GROUP_DENIED = int(ErrorCode.GROUP_AUTHORIZATION_FAILED)
CLUSTER_DENIED = int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
ID_DENIED = int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
U, TOKEN_DENIED = ResourceType.USER, int(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
DENIED = {T: TOPIC_DENIED, G: GROUP_DENIED, C: CLUSTER_DENIED, X: ID_DENIED, U: TOKEN_DENIED}

EXEMPT = {
    17: "comes before authentication",
    18: "comes before authentication",
    36: "is the authentication",
    **dict.fromkeys((55, 80, 81, 94, 32155), "served in a metadata quorum only (tests/quorum/test_voter_rights.py)"),
    39: "for the owner of a delegation token and its renewers, as in Kafka (test_delegation_tokens.py)",
    40: "for the owner of a delegation token and its renewers, as in Kafka (test_delegation_tokens.py)",
    71: "says what the client itself shall push, as in Kafka",
    72: "as in Kafka: the client has been asked for it",
}
"""Keys that need no permission, and why."""


class Grant(NamedTuple):
    """A permission on the row's topic or group, or on the cluster."""

    kind: ResourceType
    operation: AclOperation


class Row(NamedTuple):
    """One request. `needs` is the tested permission; `also` are others that the request needs and that the user always
    has."""

    key: int
    label: str
    make: Callable[[str, Uuid], Any]
    """Builds the request from the names of the row's topic and group, and the topic's id."""
    needs: Grant
    also: tuple[Grant, ...] = ()
    version: int | None = None
    hidden: Callable[[Any, str], bool] | None = None
    """For listings: returns whether the response omits the name. Other requests are judged by error codes."""
    topic: bool = True
    """Whether the topic must exist."""
    instead: Grant | None = None
    """Another sufficient permission: a user who is denied the first is denied this one, too."""
    before: Callable[[str, Uuid], Any] | None = None
    """Requests that a super user sends once before the case."""

    def resource(self, kind: ResourceType, name: str) -> str:
        """Return the name of the resource of a permission."""
        if kind == U:
            return f"User:{name}"
        return CLUSTER_NAME if kind == C else name


def _records() -> bytes:
    return native.build_batch([(None, b"x")], 1)


def _produce(name: str, topic_id: Uuid) -> Any:
    partition = m.ProduceRequest_PartitionProduceData(index=0, records=_records())
    topic = m.ProduceRequest_TopicProduceData(name=name, topic_id=topic_id, partition_data=[partition])
    return m.ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic])


def _produce_in_transaction(name: str, topic_id: Uuid) -> Any:
    request = _produce(name, topic_id)
    request.transactional_id = name
    return request


def _init_transactional(name: str, _id: Uuid) -> Any:
    return m.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000)


def _add_partitions(name: str, _id: Uuid) -> Any:
    topic = m.AddPartitionsToTxnRequest_AddPartitionsToTxnTopic(name=name, partitions=[0])
    return m.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=0,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[topic],
    )


def _verify_partitions(name: str, _id: Uuid) -> Any:
    topic = m.AddPartitionsToTxnRequest_AddPartitionsToTxnTopic(name=name, partitions=[0])
    one = m.AddPartitionsToTxnRequest_AddPartitionsToTxnTransaction(
        transactional_id=name, producer_id=0, producer_epoch=0, verify_only=True, topics=[topic]
    )
    return m.AddPartitionsToTxnRequest(transactions=[one])


def _add_offsets(name: str, _id: Uuid) -> Any:
    return m.AddOffsetsToTxnRequest(transactional_id=name, producer_id=0, producer_epoch=0, group_id=name)


def _end(name: str, _id: Uuid) -> Any:
    return m.EndTxnRequest(transactional_id=name, producer_id=0, producer_epoch=0, committed=False)


def _commit_in_transaction(name: str, topic_id: Uuid) -> Any:
    partition = m.TxnOffsetCommitRequest_TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=0)
    topic = m.TxnOffsetCommitRequest_TxnOffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=[partition])
    return m.TxnOffsetCommitRequest(
        transactional_id=name, group_id=name, producer_id=0, producer_epoch=0, topics=[topic]
    )


def _write_markers(name: str, _id: Uuid) -> Any:
    topic = m.WriteTxnMarkersRequest_WritableTxnMarkerTopic(name=name, partition_indexes=[0])
    marker = m.WriteTxnMarkersRequest_WritableTxnMarker(producer_id=1 << 40, topics=[topic])
    return m.WriteTxnMarkersRequest(markers=[marker])


def _producers(name: str, _id: Uuid) -> Any:
    topic = m.DescribeProducersRequest_TopicRequest(name=name, partition_indexes=[0])
    return m.DescribeProducersRequest(topics=[topic])


def _fetch(name: str, topic_id: Uuid) -> Any:
    partition = m.FetchRequest_FetchPartition(partition=0, partition_max_bytes=1000)
    topic = m.FetchRequest_FetchTopic(topic=name, topic_id=topic_id, partitions=[partition])
    return m.FetchRequest(topics=[topic], max_bytes=1000)


def _list_offsets(name: str, _id: Uuid, timestamp: int = -1) -> Any:
    partition = m.ListOffsetsRequest_ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    return m.ListOffsetsRequest(
        replica_id=-1, topics=[m.ListOffsetsRequest_ListOffsetsTopic(name=name, partitions=[partition])]
    )


def _metadata(name: str | None, topic_id: Uuid, *, create: bool = False) -> Any:
    topic = m.MetadataRequest_MetadataRequestTopic(name=name, topic_id=topic_id)
    return m.MetadataRequest(topics=[topic], allow_auto_topic_creation=create)


def _epochs(name: str, _id: Uuid) -> Any:
    partition = m.OffsetForLeaderEpochRequest_OffsetForLeaderPartition(partition=0, leader_epoch=0)
    topic = m.OffsetForLeaderEpochRequest_OffsetForLeaderTopic(topic=name, partitions=[partition])
    return m.OffsetForLeaderEpochRequest(topics=[topic])


def _commit(name: str, topic_id: Uuid) -> Any:
    partition = m.OffsetCommitRequest_OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
    topic = m.OffsetCommitRequest_OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=[partition])
    return m.OffsetCommitRequest(group_id=name, topics=[topic])


def _committed(name: str, topic_id: Uuid) -> Any:
    topic = m.OffsetFetchRequest_OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=[0])
    return m.OffsetFetchRequest(groups=[m.OffsetFetchRequest_OffsetFetchRequestGroup(group_id=name, topics=[topic])])


def _join(name: str, _id: Uuid) -> Any:
    protocol = m.JoinGroupRequest_JoinGroupRequestProtocol(name="range", metadata=b"")
    return m.JoinGroupRequest(
        group_id=name,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[protocol],
    )


def _consumer_heartbeat(name: str, _id: Uuid) -> Any:
    return m.ConsumerGroupHeartbeatRequest(
        group_id=name,
        member_id="m",
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=[name],
        topic_partitions=[],
    )


def _share_heartbeat(name: str, _id: Uuid) -> Any:
    return m.ShareGroupHeartbeatRequest(group_id=name, member_id="m", subscribed_topic_names=[name])


def _share_fetch(name: str, topic_id: Uuid) -> Any:
    partition = m.ShareFetchRequest_FetchPartition(partition_index=0)
    topic = m.ShareFetchRequest_FetchTopic(topic_id=topic_id, partitions=[partition])
    return m.ShareFetchRequest(
        group_id=name, member_id="m", max_bytes=1000, max_records=10, batch_size=10, topics=[topic]
    )


def _share_acknowledge(name: str, topic_id: Uuid) -> Any:
    batch = m.ShareAcknowledgeRequest_AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[1])
    partition = m.ShareAcknowledgeRequest_AcknowledgePartition(partition_index=0, acknowledgement_batches=[batch])
    topic = m.ShareAcknowledgeRequest_AcknowledgeTopic(topic_id=topic_id, partitions=[partition])
    return m.ShareAcknowledgeRequest(group_id=name, member_id="m", share_session_epoch=-1, topics=[topic])


def _share_offsets(name: str, _id: Uuid) -> Any:
    topic = m.DescribeShareGroupOffsetsRequest_DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=[0])
    group = m.DescribeShareGroupOffsetsRequest_DescribeShareGroupOffsetsRequestGroup(group_id=name, topics=[topic])
    return m.DescribeShareGroupOffsetsRequest(groups=[group])


def _alter_share_offsets(name: str, _id: Uuid) -> Any:
    partition = m.AlterShareGroupOffsetsRequest_AlterShareGroupOffsetsRequestPartition(partition_index=0)
    topic = m.AlterShareGroupOffsetsRequest_AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=[partition])
    return m.AlterShareGroupOffsetsRequest(group_id=name, topics=[topic])


def _delete_share_offsets(name: str, _id: Uuid) -> Any:
    topic = m.DeleteShareGroupOffsetsRequest_DeleteShareGroupOffsetsRequestTopic(topic_name=name)
    return m.DeleteShareGroupOffsetsRequest(group_id=name, topics=[topic])


def _streams_topology(name: str) -> m.StreamsGroupHeartbeatRequest_Topology:
    part = m.StreamsGroupHeartbeatRequest_Subtopology(subtopology_id="0", source_topics=[name])
    return m.StreamsGroupHeartbeatRequest_Topology(epoch=0, subtopologies=[part])


def _streams_heartbeat(name: str, _id: Uuid) -> Any:
    return m.StreamsGroupHeartbeatRequest(
        group_id=name,
        member_id="m",
        rebalance_timeout_ms=1000,
        topology=_streams_topology(name),
        process_id="p",
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )


def _offset_delete(name: str, _id: Uuid) -> Any:
    partition = m.OffsetDeleteRequest_OffsetDeleteRequestPartition(partition_index=0)
    topic = m.OffsetDeleteRequest_OffsetDeleteRequestTopic(name=name, partitions=[partition])
    return m.OffsetDeleteRequest(group_id=name, topics=[topic])


def _delete_offsets(name: str, topic_id: Uuid) -> Any:
    partition = m.DeleteOffsetsRequest_DeleteOffsetsPartition(partition_index=0)
    topic = m.DeleteOffsetsRequest_DeleteOffsetsTopic(topic_id=topic_id, partitions=[partition])
    return m.DeleteOffsetsRequest(group_id=name, topics=[topic])


def _create_topics(name: str, _id: Uuid) -> Any:
    topic = m.CreateTopicsRequest_CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return m.CreateTopicsRequest(topics=[topic])


def _delete_records(name: str, _id: Uuid) -> Any:
    partition = m.DeleteRecordsRequest_DeleteRecordsPartition(partition_index=0, offset=0)
    topic = m.DeleteRecordsRequest_DeleteRecordsTopic(name=name, partitions=[partition])
    return m.DeleteRecordsRequest(topics=[topic], timeout_ms=10_000)


def _describe_configs(resource_type: int, name: str) -> Any:
    resource = m.DescribeConfigsRequest_DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=None
    )
    return m.DescribeConfigsRequest(resources=[resource])


def _alter_configs(resource_type: int, name: str) -> Any:
    resource = m.AlterConfigsRequest_AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=[])
    return m.AlterConfigsRequest(resources=[resource], validate_only=True)


def _incremental(resource_type: int, name: str) -> Any:
    resource = m.IncrementalAlterConfigsRequest_AlterConfigsResource(
        resource_type=resource_type, resource_name=name, configs=[]
    )
    return m.IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)


def _any_acl(kind: type[Any]) -> Any:
    fields = {
        "resource_type_filter": 1,
        "resource_name_filter": "no such name",
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    return kind(**fields)


def _move(name: str, _id: Uuid) -> Any:
    topic = m.AlterReplicaLogDirsRequest_AlterReplicaLogDirTopic(name=name, partitions=[0])
    directory = m.AlterReplicaLogDirsRequest_AlterReplicaLogDir(path="/no such directory", topics=[topic])
    return m.AlterReplicaLogDirsRequest(dirs=[directory])


def _elect(name: str, _id: Uuid) -> Any:
    topic = m.ElectLeadersRequest_TopicPartitions(topic=name, partitions=[0])
    return m.ElectLeadersRequest(topic_partitions=[topic], timeout_ms=10_000)


def _reassign(name: str, _id: Uuid) -> Any:
    partition = m.AlterPartitionReassignmentsRequest_ReassignablePartition(partition_index=0, replicas=None)
    topic = m.AlterPartitionReassignmentsRequest_ReassignableTopic(name=name, partitions=[partition])
    return m.AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=10_000)


THIS_CLUSTER = "this cluster"
"""Placeholder for the broker's cluster id in a request."""


def _begin(name: str, topic_id: Uuid) -> Any:
    return m.IngestBeginRequest(cluster_id=THIS_CLUSTER, topic_id=topic_id, ingest_id=name, ttl_ms=60_000)


TOPIC_CONFIG, BROKER_CONFIG, GROUP_CONFIG = 2, 4, 32
_ANY_ENTRY = m.CreateAclsRequest_AclCreation(
    resource_type=T, resource_name="some name", principal="User:nobody", host="*", operation=Op.READ, permission_type=3
)

def _create_token(owner: str) -> m.CreateDelegationTokenRequest:
    return m.CreateDelegationTokenRequest(
        owner_principal_type="User", owner_principal_name=owner, renewers=[], max_lifetime_ms=-1
    )


ROWS = (
    Row(0, "by name", _produce, Grant(T, Op.WRITE), version=12),
    Row(0, "by id", _produce, Grant(T, Op.WRITE)),
    Row(0, "transactional id", _produce_in_transaction, Grant(X, Op.WRITE), also=(Grant(T, Op.WRITE),)),
    Row(1, "by name", _fetch, Grant(T, Op.READ), version=12),
    Row(1, "by id", _fetch, Grant(T, Op.READ)),
    Row(2, "end", _list_offsets, Grant(T, Op.DESCRIBE)),
    Row(2, "by time", lambda name, topic_id: _list_offsets(name, topic_id, 5), Grant(T, Op.DESCRIBE)),
    Row(3, "by name", lambda name, _: _metadata(name, Uuid.ZERO), Grant(T, Op.DESCRIBE)),
    Row(3, "by id", lambda _, topic_id: _metadata(None, topic_id), Grant(T, Op.DESCRIBE)),
    Row(
        3,
        "creates",
        lambda name, _: _metadata(name, Uuid.ZERO, create=True),
        Grant(T, Op.CREATE),
        also=(Grant(T, Op.DESCRIBE),),
        topic=False,
    ),
    Row(
        3,
        "all",
        lambda *_: m.MetadataRequest(topics=None),
        Grant(T, Op.DESCRIBE),
        hidden=lambda answer, name: name not in [topic.name for topic in answer.topics],
    ),
    Row(8, "group", _commit, Grant(G, Op.READ), also=(Grant(T, Op.READ),)),
    Row(8, "topic", _commit, Grant(T, Op.READ), also=(Grant(G, Op.READ),)),
    Row(8, "topic by name", _commit, Grant(T, Op.READ), also=(Grant(G, Op.READ),), version=9),
    Row(9, "group", _committed, Grant(G, Op.DESCRIBE), also=(Grant(T, Op.DESCRIBE),)),
    Row(9, "topic", _committed, Grant(T, Op.DESCRIBE), also=(Grant(G, Op.DESCRIBE),)),
    Row(9, "topic by name", _committed, Grant(T, Op.DESCRIBE), also=(Grant(G, Op.DESCRIBE),), version=9),
    Row(10, "group", lambda name, _: m.FindCoordinatorRequest(coordinator_keys=[name]), Grant(G, Op.DESCRIBE)),
    Row(
        10,
        "transactional id",
        lambda name, _: m.FindCoordinatorRequest(key_type=1, coordinator_keys=[name]),
        Grant(X, Op.DESCRIBE),
    ),
    Row(11, "group", _join, Grant(G, Op.READ)),
    Row(12, "group", lambda name, _: m.HeartbeatRequest(group_id=name, member_id="m"), Grant(G, Op.READ)),
    Row(
        13,
        "group",
        lambda name, _: m.LeaveGroupRequest(group_id=name, members=[m.LeaveGroupRequest_MemberIdentity(member_id="m")]),
        Grant(G, Op.READ),
    ),
    Row(
        14,
        "group",
        lambda name, _: m.SyncGroupRequest(
            group_id=name, member_id="m", protocol_type="consumer", protocol_name="range"
        ),
        Grant(G, Op.READ),
    ),
    Row(15, "group", lambda name, _: m.DescribeGroupsRequest(groups=[name]), Grant(G, Op.DESCRIBE)),
    Row(
        16,
        "group",
        lambda *_: m.ListGroupsRequest(),
        Grant(G, Op.DESCRIBE),
        hidden=lambda answer, name: name not in [group.group_id for group in answer.groups],
    ),
    Row(68, "group", _consumer_heartbeat, Grant(G, Op.READ), (Grant(T, Op.DESCRIBE),)),
    Row(68, "topic", _consumer_heartbeat, Grant(T, Op.DESCRIBE), (Grant(G, Op.READ),)),
    Row(69, "group", lambda name, _: m.ConsumerGroupDescribeRequest(group_ids=[name]), Grant(G, Op.DESCRIBE)),
    Row(76, "group", _share_heartbeat, Grant(G, Op.READ), (Grant(T, Op.DESCRIBE),)),
    Row(76, "topic", _share_heartbeat, Grant(T, Op.DESCRIBE), (Grant(G, Op.READ),)),
    Row(77, "group", lambda name, _: m.ShareGroupDescribeRequest(group_ids=[name]), Grant(G, Op.DESCRIBE)),
    Row(78, "group", _share_fetch, Grant(G, Op.READ), (Grant(T, Op.READ),)),
    Row(78, "topic", _share_fetch, Grant(T, Op.READ), (Grant(G, Op.READ),)),
    Row(79, "group", _share_acknowledge, Grant(G, Op.READ), (Grant(T, Op.READ),)),
    Row(88, "group", _streams_heartbeat, Grant(G, Op.READ), (Grant(T, Op.DESCRIBE),)),
    Row(88, "topic", _streams_heartbeat, Grant(T, Op.DESCRIBE), (Grant(G, Op.READ),)),
    Row(
        89,
        "group",
        lambda name, _: m.StreamsGroupDescribeRequest(group_ids=[name]),
        Grant(G, Op.DESCRIBE),
        (Grant(T, Op.DESCRIBE),),
    ),
    Row(
        89,
        "topic",
        lambda name, _: m.StreamsGroupDescribeRequest(group_ids=[name]),
        Grant(T, Op.DESCRIBE),
        (Grant(G, Op.DESCRIBE),),
        before=_streams_heartbeat,
    ),
    Row(
        93,
        "group",
        lambda name, _: m.StreamsGroupTopologyDescriptionUpdateRequest(group_id=name, member_id="m"),
        Grant(G, Op.READ),
    ),
    Row(90, "group", _share_offsets, Grant(G, Op.DESCRIBE), (Grant(T, Op.DESCRIBE),)),
    Row(
        91,
        "group",
        _alter_share_offsets,
        Grant(G, Op.READ),
        (Grant(T, Op.READ),),
    ),
    Row(91, "topic", _alter_share_offsets, Grant(T, Op.READ), (Grant(G, Op.READ),)),
    Row(92, "group", _delete_share_offsets, Grant(G, Op.DELETE), (Grant(T, Op.READ),)),
    Row(19, "topic", _create_topics, Grant(T, Op.CREATE), topic=False),
    Row(
        20,
        "by name",
        lambda name, _: m.DeleteTopicsRequest(
            topics=[m.DeleteTopicsRequest_DeleteTopicState(name=name)], timeout_ms=10_000
        ),
        Grant(T, Op.DELETE),
    ),
    Row(
        20,
        "by id",
        lambda _, topic_id: m.DeleteTopicsRequest(
            topics=[m.DeleteTopicsRequest_DeleteTopicState(topic_id=topic_id)], timeout_ms=10_000
        ),
        Grant(T, Op.DELETE),
    ),
    Row(21, "topic", _delete_records, Grant(T, Op.DELETE)),
    Row(
        22,
        "cluster",
        lambda *_: m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000),
        Grant(C, Op.IDEMPOTENT_WRITE),
    ),
    Row(22, "transactional id", _init_transactional, Grant(X, Op.WRITE)),
    Row(23, "topic", _epochs, Grant(T, Op.DESCRIBE)),
    Row(24, "transactional id", _add_partitions, Grant(X, Op.WRITE), also=(Grant(T, Op.WRITE),), version=3),
    Row(24, "topic", _add_partitions, Grant(T, Op.WRITE), also=(Grant(X, Op.WRITE),), version=3),
    Row(24, "of brokers", _verify_partitions, Grant(C, Op.CLUSTER_ACTION)),
    Row(25, "transactional id", _add_offsets, Grant(X, Op.WRITE), also=(Grant(G, Op.READ),)),
    Row(25, "group", _add_offsets, Grant(G, Op.READ), also=(Grant(X, Op.WRITE),)),
    Row(26, "transactional id", _end, Grant(X, Op.WRITE)),
    Row(
        27,
        "cluster",
        _write_markers,
        Grant(C, Op.CLUSTER_ACTION),
        instead=Grant(C, Op.ALTER),
    ),
    Row(
        28,
        "transactional id",
        _commit_in_transaction,
        Grant(X, Op.WRITE),
        also=(Grant(G, Op.READ), Grant(T, Op.READ)),
        version=5,
    ),
    Row(28, "group", _commit_in_transaction, Grant(G, Op.READ), also=(Grant(X, Op.WRITE), Grant(T, Op.READ))),
    Row(
        28,
        "topic",
        _commit_in_transaction,
        Grant(T, Op.READ),
        also=(Grant(X, Op.WRITE), Grant(G, Op.READ)),
        version=5,
    ),
    Row(28, "by id", _commit_in_transaction, Grant(T, Op.READ), also=(Grant(X, Op.WRITE), Grant(G, Op.READ))),
    Row(29, "cluster", lambda *_: _any_acl(m.DescribeAclsRequest), Grant(C, Op.DESCRIBE)),
    Row(30, "cluster", lambda *_: m.CreateAclsRequest(creations=[_ANY_ENTRY]), Grant(C, Op.ALTER)),
    Row(
        31,
        "cluster",
        lambda *_: m.DeleteAclsRequest(filters=[_any_acl(m.DeleteAclsRequest_DeleteAclsFilter)]),
        Grant(C, Op.ALTER),
    ),
    Row(32, "topic", lambda name, _: _describe_configs(TOPIC_CONFIG, name), Grant(T, Op.DESCRIBE_CONFIGS)),
    Row(32, "broker", lambda *_: _describe_configs(BROKER_CONFIG, "1"), Grant(C, Op.DESCRIBE_CONFIGS)),
    Row(32, "group", lambda name, _: _describe_configs(GROUP_CONFIG, name), Grant(G, Op.DESCRIBE_CONFIGS)),
    Row(33, "topic", lambda name, _: _alter_configs(TOPIC_CONFIG, name), Grant(T, Op.ALTER_CONFIGS)),
    Row(33, "broker", lambda *_: _alter_configs(BROKER_CONFIG, "1"), Grant(C, Op.ALTER_CONFIGS)),
    Row(33, "group", lambda name, _: _alter_configs(GROUP_CONFIG, name), Grant(G, Op.ALTER_CONFIGS)),
    Row(34, "cluster", _move, Grant(C, Op.ALTER)),
    Row(35, "cluster", lambda *_: m.DescribeLogDirsRequest(topics=None), Grant(C, Op.DESCRIBE)),
    Row(
        37,
        "topic",
        lambda name, _: m.CreatePartitionsRequest(
            topics=[m.CreatePartitionsRequest_CreatePartitionsTopic(name=name, count=2, assignments=None)],
            timeout_ms=10_000,
            validate_only=True,
        ),
        Grant(T, Op.ALTER),
    ),
    Row(38, "owner", lambda name, _: _create_token(name), Grant(U, Op.CREATE_TOKENS)),
    Row(
        41,
        "owner",
        lambda name, _: m.DescribeDelegationTokenRequest(
            owners=[m.DescribeDelegationTokenRequest_DescribeDelegationTokenOwner("User", name)]
        ),
        Grant(U, Op.DESCRIBE_TOKENS),
        hidden=lambda answer, _: not answer.tokens,
        before=lambda name, _: _create_token(name),
    ),
    Row(42, "group", lambda name, _: m.DeleteGroupsRequest(groups_names=[name]), Grant(G, Op.DELETE)),
    Row(43, "cluster", _elect, Grant(C, Op.ALTER)),
    Row(44, "topic", lambda name, _: _incremental(TOPIC_CONFIG, name), Grant(T, Op.ALTER_CONFIGS)),
    Row(44, "broker", lambda *_: _incremental(BROKER_CONFIG, "1"), Grant(C, Op.ALTER_CONFIGS)),
    Row(44, "group", lambda name, _: _incremental(GROUP_CONFIG, name), Grant(G, Op.ALTER_CONFIGS)),
    Row(45, "cluster", _reassign, Grant(C, Op.ALTER)),
    Row(46, "cluster", lambda *_: m.ListPartitionReassignmentsRequest(topics=None), Grant(C, Op.DESCRIBE)),
    Row(47, "group", _offset_delete, Grant(G, Op.DELETE), also=(Grant(T, Op.READ),)),
    Row(47, "topic", _offset_delete, Grant(T, Op.READ), also=(Grant(G, Op.DELETE), Grant(G, Op.READ))),
    Row(48, "cluster", lambda *_: m.DescribeClientQuotasRequest(), Grant(C, Op.DESCRIBE_CONFIGS)),
    Row(
        49,
        "cluster",
        lambda name, _: m.AlterClientQuotasRequest(
            entries=[
                m.AlterClientQuotasRequest_EntryData(
                    entity=[m.AlterClientQuotasRequest_EntityData(entity_type="user", entity_name=name)]
                )
            ]
        ),
        Grant(C, Op.ALTER_CONFIGS),
    ),
    Row(50, "cluster", lambda *_: m.DescribeUserScramCredentialsRequest(users=None), Grant(C, Op.DESCRIBE)),
    Row(
        51,
        "cluster",
        lambda *_: m.AlterUserScramCredentialsRequest(
            deletions=[m.AlterUserScramCredentialsRequest_ScramCredentialDeletion(name="nobody", mechanism=1)]
        ),
        Grant(C, Op.ALTER),
    ),
    Row(57, "cluster", lambda *_: m.UpdateFeaturesRequest(timeout_ms=10_000), Grant(C, Op.ALTER)),
    Row(
        60,
        "operations",
        lambda *_: m.DescribeClusterRequest(include_cluster_authorized_operations=True),
        Grant(C, Op.DESCRIBE),
        hidden=lambda answer, _: answer.cluster_authorized_operations == 0,
    ),
    Row(61, "topic", _producers, Grant(T, Op.READ)),
    Row(64, "cluster", lambda *_: m.UnregisterBrokerRequest(broker_id=99), Grant(C, Op.ALTER)),
    Row(
        65,
        "transactional id",
        lambda name, _: m.DescribeTransactionsRequest(transactional_ids=[name]),
        Grant(X, Op.DESCRIBE),
    ),
    Row(
        66,
        "transactional id",
        lambda *_: m.ListTransactionsRequest(),
        Grant(X, Op.DESCRIBE),
        hidden=lambda answer, name: name not in [one.transactional_id for one in answer.transaction_states],
        before=_init_transactional,
    ),
    Row(74, "cluster", lambda *_: m.ListConfigResourcesRequest(), Grant(C, Op.DESCRIBE_CONFIGS)),
    Row(
        75,
        "by name",
        lambda name, _: m.DescribeTopicPartitionsRequest(
            topics=[m.DescribeTopicPartitionsRequest_TopicRequest(name=name)]
        ),
        Grant(T, Op.DESCRIBE),
    ),
    Row(
        75,
        "all",
        lambda *_: m.DescribeTopicPartitionsRequest(),
        Grant(T, Op.DESCRIBE),
        hidden=lambda answer, name: name not in [topic.name for topic in answer.topics],
    ),
    Row(
        32142,
        "all",
        lambda *_: m.ListTopicsRequest(),
        Grant(T, Op.DESCRIBE),
        hidden=lambda answer, name: name not in [topic.name for topic in answer.topic_listing],
    ),
    Row(
        32143,
        "topic",
        lambda _, topic_id: m.UndeleteTopicsRequest(
            topics=[m.UndeleteTopicsRequest_UndeletableTopic(topic_id=topic_id)], timeout_ms=10_000
        ),
        Grant(T, Op.DELETE),
    ),
    Row(
        32144,
        "topic",
        lambda name, _: m.TruncateTopicsRequest(
            topics=[m.TruncateTopicsRequest_TruncatableTopic(name=name)], timeout_ms=10_000
        ),
        Grant(T, Op.DELETE),
    ),
    Row(
        32145,
        "topic",
        lambda name, _: m.DescribeTopicHistoryRequest(topics=[m.DescribeTopicHistoryRequest_HistoryTopic(name=name)]),
        Grant(T, Op.DESCRIBE),
    ),
    Row(
        32146,
        "all",
        lambda *_: m.DescribeDeletionsRequest(topics=None),
        Grant(T, Op.DESCRIBE),
        hidden=lambda answer, name: name not in [deletion.name for deletion in answer.deletions],
        before=lambda name, _: m.DeleteTopicsRequest(
            topics=[m.DeleteTopicsRequest_DeleteTopicState(name=name, topic_id=Uuid.ZERO)], timeout_ms=10_000
        ),
    ),
    Row(32147, "cluster", lambda *_: m.DescribeClusterStateRequest(), Grant(C, Op.DESCRIBE)),
    Row(32148, "group", _delete_offsets, Grant(G, Op.DELETE), also=(Grant(T, Op.READ),)),
    Row(32148, "topic", _delete_offsets, Grant(T, Op.READ), also=(Grant(G, Op.DELETE), Grant(G, Op.READ))),
    Row(
        32149,
        "topic",
        lambda _, topic_id: m.PurgeTopicsRequest(
            topics=[m.PurgeTopicsRequest_PurgeableTopic(topic_id=topic_id)], delay_ms=0, timeout_ms=10_000
        ),
        Grant(T, Op.DELETE),
    ),
    Row(32150, "topic", _begin, Grant(T, Op.WRITE)),
    Row(
        32151,
        "topic",
        lambda name, topic_id: m.IngestAppendRequest(topic_id=topic_id, ingest_id=name),
        Grant(T, Op.WRITE),
    ),
    Row(
        32152,
        "topic",
        lambda name, topic_id: m.IngestCommitRequest(cluster_id=THIS_CLUSTER, topic_id=topic_id, ingest_id=name),
        Grant(T, Op.WRITE),
    ),
    Row(
        32153,
        "writer",
        lambda name, topic_id: m.IngestAbortRequest(cluster_id=THIS_CLUSTER, topic_id=topic_id, ingest_id=name),
        Grant(T, Op.WRITE),
        instead=Grant(T, Op.ALTER),
    ),
    Row(
        32153,
        "keeper",
        lambda name, topic_id: m.IngestAbortRequest(cluster_id=THIS_CLUSTER, topic_id=topic_id, ingest_id=name),
        Grant(T, Op.ALTER),
        instead=Grant(T, Op.WRITE),
    ),
    Row(
        32154,
        "all",
        lambda *_: m.ListIngestsRequest(topic_ids=None, ingest_id=None),
        Grant(T, Op.DESCRIBE),
        hidden=lambda answer, name: name not in [ingest.topic_name for ingest in answer.ingests],
        before=_begin,
    ),
)
