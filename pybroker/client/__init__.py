"""The client library: `AdminClient`, `Producer`, `Consumer` and the types they use.

asyncio first; `pybroker.client.blocking` has the same classes for programs without it. Names are imported when they are
first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pybroker.client.admin import AdminClient, ClusterDescription
    from pybroker.client.admin_groups import GroupDescription, GroupListing, MemberDescription
    from pybroker.client.cluster import Cluster, Node, PartitionInfo, TopicIdPartition, TopicPartition
    from pybroker.client.configs import AlterConfigOp, ConfigEntry, ConfigResource, ConfigResourceType, OpType
    from pybroker.client.connection import BrokerConnection
    from pybroker.client.consumer import Consumer
    from pybroker.client.errors import (
        AuthenticationError,
        BrokerConnectionError,
        ClientConfigError,
        CommitFailedError,
        KafkaTimeoutError,
        NoOffsetError,
        RecordTooLargeError,
        TopicRecreatedError,
        UnknownTopicError,
        UnsupportedVersionError,
    )
    from pybroker.client.interceptors import ConsumerInterceptor, MetricReporter, ProducerInterceptor
    from pybroker.client.metrics import ClientMetrics
    from pybroker.client.offsets import OffsetAndMetadata, OffsetAndTimestamp, OffsetSpec
    from pybroker.client.producer import Producer
    from pybroker.client.rebalances import RebalanceListener
    from pybroker.client.records import Delivery, ProducerRecord, RecordMetadata
    from pybroker.client.results import (
        CreateTopicsResult,
        DeleteTopicsResult,
        DescribeTopicsResult,
        TopicMetadataAndConfig,
    )
    from pybroker.client.security import (
        AclBinding,
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        PatternType,
        ResourceType,
        ScramDeletion,
        ScramMechanism,
        ScramUpsertion,
    )
    from pybroker.client.serialization import (
        Deserializer,
        JsonDeserializer,
        JsonSerializer,
        Serializer,
        StringDeserializer,
        StringSerializer,
    )
    from pybroker.client.topics import (
        ListTopicsResult,
        NewPartitions,
        NewTopic,
        TopicCollection,
        TopicDescription,
        TopicListing,
        TopicPartitionInfo,
    )
    from pybroker.cluster_resource import ClusterResource, ClusterResourceListener
    from pybroker.errors import KafkaError
    from pybroker.native import ConsumerRecord, Uuid

__all__ = [
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
    "Cluster",
    "ClusterDescription",
    "ClusterResource",
    "ClusterResourceListener",
    "CommitFailedError",
    "ConfigEntry",
    "ConfigResource",
    "ConfigResourceType",
    "Consumer",
    "ConsumerInterceptor",
    "ConsumerRecord",
    "CreateTopicsResult",
    "DeleteTopicsResult",
    "Delivery",
    "DescribeTopicsResult",
    "Deserializer",
    "GroupDescription",
    "GroupListing",
    "JsonDeserializer",
    "JsonSerializer",
    "KafkaError",
    "KafkaTimeoutError",
    "ListTopicsResult",
    "MemberDescription",
    "MetricReporter",
    "NewPartitions",
    "NewTopic",
    "NoOffsetError",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetSpec",
    "OpType",
    "PartitionInfo",
    "PatternType",
    "Producer",
    "ProducerInterceptor",
    "ProducerRecord",
    "RebalanceListener",
    "RecordMetadata",
    "RecordTooLargeError",
    "ResourceType",
    "ScramDeletion",
    "ScramMechanism",
    "ScramUpsertion",
    "Serializer",
    "StringDeserializer",
    "StringSerializer",
    "TopicCollection",
    "TopicDescription",
    "TopicIdPartition",
    "TopicListing",
    "TopicMetadataAndConfig",
    "TopicPartition",
    "TopicPartitionInfo",
    "TopicRecreatedError",
    "UnknownTopicError",
    "UnsupportedVersionError",
    "Uuid",
]

_MODULES = {
    "pybroker.client.admin": (
        "AdminClient",
        "ClusterDescription",
    ),
    "pybroker.client.admin_groups": (
        "GroupDescription",
        "GroupListing",
        "MemberDescription",
    ),
    "pybroker.client.cluster": (
        "Cluster",
        "Node",
        "PartitionInfo",
        "TopicIdPartition",
        "TopicPartition",
    ),
    "pybroker.client.configs": (
        "AlterConfigOp",
        "ConfigEntry",
        "ConfigResource",
        "ConfigResourceType",
        "OpType",
    ),
    "pybroker.client.connection": ("BrokerConnection",),
    "pybroker.client.consumer": ("Consumer",),
    "pybroker.client.rebalances": ("RebalanceListener",),
    "pybroker.client.errors": (
        "AuthenticationError",
        "BrokerConnectionError",
        "ClientConfigError",
        "CommitFailedError",
        "KafkaTimeoutError",
        "NoOffsetError",
        "RecordTooLargeError",
        "TopicRecreatedError",
        "UnknownTopicError",
        "UnsupportedVersionError",
    ),
    "pybroker.client.interceptors": (
        "ConsumerInterceptor",
        "MetricReporter",
        "ProducerInterceptor",
    ),
    "pybroker.client.metrics": ("ClientMetrics",),
    "pybroker.client.offsets": (
        "OffsetAndMetadata",
        "OffsetAndTimestamp",
        "OffsetSpec",
    ),
    "pybroker.client.producer": ("Producer",),
    "pybroker.client.records": (
        "Delivery",
        "ProducerRecord",
        "RecordMetadata",
    ),
    "pybroker.client.results": (
        "CreateTopicsResult",
        "DeleteTopicsResult",
        "DescribeTopicsResult",
        "TopicMetadataAndConfig",
    ),
    "pybroker.client.security": (
        "AclBinding",
        "AclBindingFilter",
        "AclOperation",
        "AclPermissionType",
        "PatternType",
        "ResourceType",
        "ScramDeletion",
        "ScramMechanism",
        "ScramUpsertion",
    ),
    "pybroker.client.serialization": (
        "Deserializer",
        "JsonDeserializer",
        "JsonSerializer",
        "Serializer",
        "StringDeserializer",
        "StringSerializer",
    ),
    "pybroker.client.topics": (
        "ListTopicsResult",
        "NewPartitions",
        "NewTopic",
        "TopicCollection",
        "TopicDescription",
        "TopicListing",
        "TopicPartitionInfo",
    ),
    "pybroker.cluster_resource": (
        "ClusterResource",
        "ClusterResourceListener",
    ),
    "pybroker.errors": ("KafkaError",),
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
