"""Brokers, ids and topics of the cluster as `MetadataCache` shows them to clients, and the state of the cluster for
health checks. Independent of protocol versions."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from pybroker.broker.admin.partition_health import Conditions
from pybroker.broker.cluster.queue_metrics import QueueFigures
from pybroker.broker.metadata.control_messages import UpdateMetadataPartitionState
from pybroker.broker.metadata.image import ClusterImage
from pybroker.broker.metadata.metadata_cache import CachedTopic, MetadataCache
from pybroker.broker.metadata.metadata_store import MetadataSession
from pybroker.broker.replicas.image_observers import PartitionChangeMetrics
from pybroker.broker.replicas.role_reconciler import Mismatch
from pybroker.native import Uuid
from pybroker.native_quorum import QuorumStatus
from pybroker.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pybroker.broker.quorum.quorum_log import CommitLatency

OPERATIONS_NOT_ASKED = -(1 << 31)


class BrokerAddress(msgspec.Struct, frozen=True):
    """The address of a broker on the client's listener."""

    broker_id: int
    host: str
    port: int
    rack: str | None


class ClusterAdmin:
    """Describes the cluster from `MetadataCache`."""

    def __init__(
        self,
        cache: MetadataCache,
        image: Callable[[], ClusterImage],
        voters: Callable[[], frozenset[int]] | None = None,
    ) -> None:
        """`voters` returns the voters of the metadata quorum, if there is one."""
        self._cache = cache
        self._image = image
        self._voters = voters

    @property
    def cluster_id(self) -> str:
        """Return the cluster's id (KIP-78)."""
        return self._cache.cluster_id

    @property
    def controller_id(self) -> int:
        """Return the controller's broker id; -1 if it is unknown."""
        return self._cache.controller_id

    def brokers(self, listener: str) -> list[BrokerAddress]:
        """Return the live brokers that have the listener of the request."""
        return [
            BrokerAddress(broker.id, endpoint.host, endpoint.port, broker.rack)
            for broker in self._cache.brokers.values()
            for endpoint in broker.endpoints
            if endpoint.listener == listener
        ]

    def fenced_brokers(self, listener: str) -> list[BrokerAddress]:
        """Return the registered brokers that do not run and had the listener of the request."""
        return [
            BrokerAddress(broker.broker_id, endpoint.host, endpoint.port, broker.rack)
            for broker in self._image().fenced.values()
            for endpoint in broker.endpoints
            if endpoint.listener == listener
        ]

    def controllers(self, listener: str) -> list[BrokerAddress] | None:
        """Return the live voters of the metadata quorum that have the listener of the request, because each of them can
        be the controller. None with a metadata store."""
        if self._voters is None:
            return None
        voters = self._voters()
        return [broker for broker in self.brokers(listener) if broker.broker_id in voters]

    @property
    def topics(self) -> Mapping[str, CachedTopic]:
        """Return all topics by name."""
        return self._cache.topics

    def topic(self, which: str | Uuid) -> CachedTopic | None:
        """Return a topic by name or id."""
        return self._cache.topic(which) if isinstance(which, str) else self._cache.topic_by_id(which)

    def sorted_names(self, first: str = "") -> Sequence[str]:
        """Return the sorted names of all topics, beginning with `first`."""
        return sorted(name for name in self._cache.topics if name >= first)


def offline_replicas(partition: UpdateMetadataPartitionState, live: Container[int]) -> list[int]:
    """Return the replicas on dead brokers and in failed log directories."""
    return [replica for replica in partition.replicas if replica not in live or replica in partition.offline_replicas]


def partition_error(partition: UpdateMetadataPartitionState) -> int:
    """Return the error code of a partition in a Metadata response."""
    return int(ErrorCode.LEADER_NOT_AVAILABLE if partition.leader < 0 else ErrorCode.NONE)


class ClusterState(msgspec.Struct, frozen=True):
    """The sources of the cluster's state."""

    broker_id: int
    """The broker from which the state is seen."""
    cluster: ClusterAdmin
    conditions: Conditions
    session: MetadataSession
    """The session with the metadata store."""
    wrong_roles: Callable[[], Sequence[Mismatch]]
    """Returns partitions whose role on this broker differs from the published metadata."""
    quorum: Callable[[], QuorumStatus] | None = None
    """Returns this node's view of the metadata quorum; None with a metadata store."""


class Figures(msgspec.Struct, frozen=True):
    """Metrics of this broker since its start, for responses."""

    is_controller: Callable[[], bool]
    events_waiting: Callable[[], int]
    """Number of events that wait in this broker's controller."""
    queue: QueueFigures
    changes: PartitionChangeMetrics
    failed_isr_updates: Callable[[], int]
    commits: CommitLatency | None
    """Changes that this broker has committed as the leader of the metadata quorum; None with a metadata store."""
