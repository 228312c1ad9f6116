"""The client library: `AdminClient`, `Producer`, `Consumer` and the types they use.

The classes here use asyncio; `pybroker.client.blocking` has the same classes for programs without asyncio. A name's
module is imported when the name is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pybroker.client.admin.admin_client import AdminClient, ClusterDescription
    from pybroker.client.admin.admin_results import (
        CreateTopicsResult,
        DeleteTopicsResult,
        DescribeTopicsResult,
        KeyedResult,
        TopicMetadataAndConfig,
    )
    from pybroker.client.admin.cluster_state_admin import ClusterState, TroubledPartition
    from pybroker.client.admin.config_admin import LogDirDescription, ReplicaInfo
    from pybroker.client.admin.config_types import (
        AlterConfigOp,
        ConfigEntry,
        ConfigResource,
        ConfigResourceType,
        ConfigSource,
        OpType,
    )
    from pybroker.client.admin.group_admin import GroupDescription, GroupListing, MemberDescription
    from pybroker.client.admin.incarnation_types import (
        DeletedReplica,
        LogEnds,
        PurgedTopic,
        TopicDeletion,
        TopicEvent,
        TopicIncarnation,
        TruncatedTopic,
        UndeletedTopic,
    )
    from pybroker.client.admin.ingest_admin import IngestListing, IngestPartition, IngestState
    from pybroker.client.admin.placement_admin import ElectionType, PartitionReassignment
    from pybroker.client.admin.quorum_admin import QuorumInfo, QuorumReplica, RaftVoterEndpoint
    from pybroker.client.admin.quota_admin import ClientQuota, QuotaEntity
    from pybroker.client.admin.security_types import (
        AclBinding,
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        PatternType,
        ResourceType,
        ScramCredentialInfo,
        ScramDeletion,
        ScramMechanism,
        ScramUpsertion,
    )
    from pybroker.client.admin.share_group_admin import SharePartitionOffset
    from pybroker.client.admin.topic_types import (
        ListTopicsResult,
        NewPartitions,
        NewTopic,
        TopicCollection,
        TopicDescription,
        TopicListing,
        TopicPage,
        TopicPartitionInfo,
    )
    from pybroker.client.admin.transaction_admin import (
        OpenTransaction,
        ProducerState,
        TransactionDescription,
        TransactionListing,
    )
    from pybroker.client.client_errors import (
        AuthenticationError,
        BrokerConnectionError,
        ClientConfigError,
        CommitFailedError,
        ErrorCode,
        KafkaError,
        KafkaTimeoutError,
        NoOffsetError,
        ProducerFencedError,
        RecordTooLargeError,
        TopicRecreatedError,
        TransactionFailedError,
        UnknownHostError,
        UnknownTopicError,
        UnsupportedVersionError,
    )
    from pybroker.client.cluster_metadata import Cluster, Node, PartitionInfo, TopicIdPartition, TopicPartition
    from pybroker.client.connection.broker_connection import BrokerConnection
    from pybroker.client.consumer.async_consumer import Consumer
    from pybroker.client.consumer.group.group_membership import GroupMetadata
    from pybroker.client.consumer.group.rebalances import RebalanceListener
    from pybroker.client.deletion_impact import DeletionImpact, GroupPosition, deletion_impact
    from pybroker.client.offset_types import OffsetAndMetadata, OffsetAndTimestamp, OffsetSpec
    from pybroker.client.plugins.client_metrics import ClientMetrics
    from pybroker.client.plugins.interceptors import ConsumerInterceptor, MetricReporter, ProducerInterceptor
    from pybroker.client.plugins.serialization import (
        Deserializer,
        JsonDeserializer,
        JsonSerializer,
        Serializer,
        StringDeserializer,
        StringSerializer,
    )
    from pybroker.client.producer.async_producer import Producer
    from pybroker.client.producer.delivery import Delivery, OnDelivery
    from pybroker.client.producer.transactional_producer import TransactionalProducer
    from pybroker.client.producer_records import ProducerRecord, RecordMetadata
    from pybroker.client.share.acknowledgements import AcknowledgeType
    from pybroker.client.share.async_share_consumer import ShareConsumer
    from pybroker.cluster_resource import ClusterResource, ClusterResourceListener
    from pybroker.native import ConsumerRecord, Uuid

__all__ = [
    "AcknowledgeType",
    "AclBinding",
    "AclBindingFilter",
    "AclOperation",
    "AclPermissionType",
    "AdminClient",
    "AlterConfigOp",
    "AuthenticationError",
    "BrokerConnection",
    "BrokerConnectionError",
    "ClientConfigError",
    "ClientMetrics",
    "ClientQuota",
    "Cluster",
    "ClusterDescription",
    "ClusterResource",
    "ClusterResourceListener",
    "ClusterState",
    "CommitFailedError",
    "ConfigEntry",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSource",
    "Consumer",
    "ConsumerInterceptor",
    "ConsumerRecord",
    "CreateTopicsResult",
    "DeleteTopicsResult",
    "DeletedReplica",
    "DeletionImpact",
    "Delivery",
    "DescribeTopicsResult",
    "Deserializer",
    "ElectionType",
    "ErrorCode",
    "GroupDescription",
    "GroupListing",
    "GroupMetadata",
    "GroupPosition",
    "IngestListing",
    "IngestPartition",
    "IngestState",
    "JsonDeserializer",
    "JsonSerializer",
    "KafkaError",
    "KafkaTimeoutError",
    "KeyedResult",
    "ListTopicsResult",
    "LogDirDescription",
    "LogEnds",
    "MemberDescription",
    "MetricReporter",
    "NewPartitions",
    "NewTopic",
    "NoOffsetError",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetSpec",
    "OnDelivery",
    "OpType",
    "OpenTransaction",
    "PartitionInfo",
    "PartitionReassignment",
    "PatternType",
    "Producer",
    "ProducerFencedError",
    "ProducerInterceptor",
    "ProducerRecord",
    "ProducerState",
    "PurgedTopic",
    "QuorumInfo",
    "QuorumReplica",
    "QuotaEntity",
    "RaftVoterEndpoint",
    "RebalanceListener",
    "RecordMetadata",
    "RecordTooLargeError",
    "ReplicaInfo",
    "ResourceType",
    "ScramCredentialInfo",
    "ScramDeletion",
    "ScramMechanism",
    "ScramUpsertion",
    "Serializer",
    "ShareConsumer",
    "SharePartitionOffset",
    "StringDeserializer",
    "StringSerializer",
    "TopicCollection",
    "TopicDeletion",
    "TopicDescription",
    "TopicEvent",
    "TopicIdPartition",
    "TopicIncarnation",
    "TopicListing",
    "TopicMetadataAndConfig",
    "TopicPage",
    "TopicPartition",
    "TopicPartitionInfo",
    "TopicRecreatedError",
    "TransactionDescription",
    "TransactionFailedError",
    "TransactionListing",
    "TransactionalProducer",
    "TroubledPartition",
    "TruncatedTopic",
    "UndeletedTopic",
    "UnknownHostError",
    "UnknownTopicError",
    "UnsupportedVersionError",
    "Uuid",
    "deletion_impact",
]

_MODULES = {
    "pybroker.client.admin.admin_client": (
        "AdminClient",
        "ClusterDescription",
    ),
    "pybroker.client.admin.quota_admin": ("ClientQuota", "QuotaEntity"),
    "pybroker.client.admin.cluster_state_admin": ("ClusterState", "TroubledPartition"),
    "pybroker.client.admin.quorum_admin": ("QuorumInfo", "QuorumReplica", "RaftVoterEndpoint"),
    "pybroker.client.admin.config_types": (
        "AlterConfigOp",
        "ConfigEntry",
        "ConfigResource",
        "ConfigResourceType",
        "ConfigSource",
        "OpType",
    ),
    "pybroker.client.admin.config_admin": (
        "LogDirDescription",
        "ReplicaInfo",
    ),
    "pybroker.client.admin.group_admin": (
        "GroupDescription",
        "GroupListing",
        "MemberDescription",
    ),
    "pybroker.client.admin.ingest_admin": (
        "IngestListing",
        "IngestPartition",
        "IngestState",
    ),
    "pybroker.client.admin.placement_admin": ("ElectionType", "PartitionReassignment"),
    "pybroker.client.admin.admin_results": (
        "CreateTopicsResult",
        "DeleteTopicsResult",
        "DescribeTopicsResult",
        "KeyedResult",
        "TopicMetadataAndConfig",
    ),
    "pybroker.client.admin.security_types": (
        "AclBinding",
        "AclBindingFilter",
        "AclOperation",
        "AclPermissionType",
        "PatternType",
        "ResourceType",
        "ScramCredentialInfo",
        "ScramDeletion",
        "ScramMechanism",
        "ScramUpsertion",
    ),
    "pybroker.client.admin.share_group_admin": ("SharePartitionOffset",),
    "pybroker.client.admin.incarnation_types": (
        "DeletedReplica",
        "LogEnds",
        "TopicDeletion",
        "TopicEvent",
        "TopicIncarnation",
        "PurgedTopic",
        "TruncatedTopic",
        "UndeletedTopic",
    ),
    "pybroker.client.admin.topic_types": (
        "ListTopicsResult",
        "NewPartitions",
        "NewTopic",
        "TopicCollection",
        "TopicDescription",
        "TopicListing",
        "TopicPage",
        "TopicPartitionInfo",
    ),
    "pybroker.client.admin.transaction_admin": (
        "OpenTransaction",
        "ProducerState",
        "TransactionDescription",
        "TransactionListing",
    ),
    "pybroker.client.cluster_metadata": (
        "Cluster",
        "Node",
        "PartitionInfo",
        "TopicIdPartition",
        "TopicPartition",
    ),
    "pybroker.client.connection.broker_connection": ("BrokerConnection",),
    "pybroker.client.consumer.async_consumer": ("Consumer",),
    "pybroker.client.consumer.group.group_membership": ("GroupMetadata",),
    "pybroker.client.consumer.group.rebalances": ("RebalanceListener",),
    "pybroker.client.client_errors": (
        "AuthenticationError",
        "BrokerConnectionError",
        "ClientConfigError",
        "CommitFailedError",
        "ErrorCode",
        "KafkaError",
        "KafkaTimeoutError",
        "NoOffsetError",
        "ProducerFencedError",
        "RecordTooLargeError",
        "TopicRecreatedError",
        "TransactionFailedError",
        "UnknownHostError",
        "UnknownTopicError",
        "UnsupportedVersionError",
    ),
    "pybroker.client.deletion_impact": (
        "DeletionImpact",
        "GroupPosition",
        "deletion_impact",
    ),
    "pybroker.client.offset_types": (
        "OffsetAndMetadata",
        "OffsetAndTimestamp",
        "OffsetSpec",
    ),
    "pybroker.client.plugins.interceptors": (
        "ConsumerInterceptor",
        "MetricReporter",
        "ProducerInterceptor",
    ),
    "pybroker.client.plugins.client_metrics": ("ClientMetrics",),
    "pybroker.client.plugins.serialization": (
        "Deserializer",
        "JsonDeserializer",
        "JsonSerializer",
        "Serializer",
        "StringDeserializer",
        "StringSerializer",
    ),
    "pybroker.client.producer.delivery": (
        "Delivery",
        "OnDelivery",
    ),
    "pybroker.client.producer.async_producer": ("Producer",),
    "pybroker.client.producer.transactional_producer": ("TransactionalProducer",),
    "pybroker.client.producer_records": (
        "ProducerRecord",
        "RecordMetadata",
    ),
    "pybroker.client.share.acknowledgements": ("AcknowledgeType",),
    "pybroker.client.share.async_share_consumer": ("ShareConsumer",),
    "pybroker.cluster_resource": (
        "ClusterResource",
        "ClusterResourceListener",
    ),
    "pybroker.native": (
        "ConsumerRecord",
        "Uuid",
    ),
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'pybroker.client' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(place), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
