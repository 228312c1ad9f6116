"""What clients may know of the cluster: brokers, ids, topics, as this broker sees them. Knows no protocol version."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

import msgspec

from pybroker.broker.metadata.cache import CachedTopic, MetadataCache
from pybroker.broker.metadata.control_messages import UpdateMetadataPartitionState
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

OPERATIONS_NOT_ASKED = -(1 << 31)


class BrokerAddress(msgspec.Struct, frozen=True):
    """A broker as the asker can reach it."""

    broker_id: int
    host: str
    port: int
    rack: str | None


class ClusterAdmin:
    """Reads the metadata cache."""

    def __init__(self, cache: MetadataCache) -> None:
        self._cache = cache

    @property
    def cluster_id(self) -> str:
        """The cluster's id (KIP-78)."""
        return self._cache.cluster_id

    @property
    def controller_id(self) -> int:
        """The controller's broker id; -1 while unknown."""
        return self._cache.controller_id

    def brokers(self, listener: str) -> list[BrokerAddress]:
        """Live brokers that have the listener the question came through."""
        return [
            BrokerAddress(broker.id, endpoint.host, endpoint.port, broker.rack)
            for broker in self._cache.brokers.values()
            for endpoint in broker.endpoints
            if endpoint.listener == listener
        ]

    @property
    def topics(self) -> Mapping[str, CachedTopic]:
        """All topics by name."""
        return self._cache.topics

    def topic(self, which: str | Uuid) -> CachedTopic | None:
        """A topic by name or id."""
        return self._cache.topic(which) if isinstance(which, str) else self._cache.topic_by_id(which)

    def sorted_names(self, first: str = "") -> Sequence[str]:
        """Names of all topics from `first` on, sorted."""
        return sorted(name for name in self._cache.topics if name >= first)


def offline_replicas(partition: UpdateMetadataPartitionState, live: Container[int]) -> list[int]:
    """The replicas on brokers that are not live, and on log directories that failed."""
    return [one for one in partition.replicas if one not in live or one in partition.offline_replicas]


def partition_error(partition: UpdateMetadataPartitionState) -> int:
    """The error code that Metadata shows for a partition."""
    return int(ErrorCode.LEADER_NOT_AVAILABLE if partition.leader < 0 else ErrorCode.NONE)
