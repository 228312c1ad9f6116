"""The parts of a broker: the objects on which all other objects depend, and the objects that `composition` builds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from pybroker.config import BrokerConfig
from pybroker.native import NativeBroker, Uuid
from pybroker.native_quorum import QuorumStatus

if TYPE_CHECKING:
    from pybroker.broker.admin.restored_offsets import LateOffsets, RestoredOffsets
    from pybroker.broker.api.controller_messages import ControlReceiver
    from pybroker.broker.clock import Clock
    from pybroker.broker.cluster.controller_client import ControllerClient
    from pybroker.broker.cluster.quorum_events import QuorumAddress
    from pybroker.broker.controller.controller_election import ControllerElection, SoleController
    from pybroker.broker.controller.local_controller_client import LocalControllerClient
    from pybroker.broker.controller.quorum_election import QuorumElection
    from pybroker.broker.coordinators.group.coordinator import GroupCoordinator
    from pybroker.broker.coordinators.producer_ids import ProducerIds
    from pybroker.broker.coordinators.shards.appends import NativeAppends
    from pybroker.broker.coordinators.shards.end_of_batch import EndOfBatchHook
    from pybroker.broker.coordinators.shards.topic_view import CachedTopics
    from pybroker.broker.coordinators.share_partition.ends import PartitionEnds
    from pybroker.broker.coordinators.share_parts import Shares
    from pybroker.broker.coordinators.transaction.transactions import Transactions
    from pybroker.broker.ingest.ingests import Ingests
    from pybroker.broker.interbroker.connection_pool import ConnectionPool
    from pybroker.broker.interbroker.connector import Connector
    from pybroker.broker.interbroker.peer_watch import PeerWatch
    from pybroker.broker.metadata.image import BrokerImage
    from pybroker.broker.metadata.metadata_cache import MetadataCache
    from pybroker.broker.metadata.metadata_store import MetadataStore
    from pybroker.broker.quorum.fetch_reports import FetchReports
    from pybroker.broker.quorum.loader import MetadataLoader
    from pybroker.broker.quorum.quorum_log import CommitLatency, MetadataLog
    from pybroker.broker.quorum.quorum_node import QuorumNode
    from pybroker.broker.replicas.broker_registration import BrokerRegistration
    from pybroker.broker.replicas.controller_fence import ControllerFence
    from pybroker.broker.replicas.controller_notifier import FailedReplicas
    from pybroker.broker.replicas.isr_proposals import IsrProposals
    from pybroker.broker.replicas.known_cluster import KnownCluster
    from pybroker.broker.replicas.leader_following import LeaderFollowing
    from pybroker.broker.replicas.metadata_publisher import BrokerMetadataPublisher
    from pybroker.broker.replicas.order_results import ReplicaReports
    from pybroker.broker.replicas.quorum_registration import QuorumRegistration
    from pybroker.broker.replicas.replica_manager import ReplicaManager
    from pybroker.broker.replicas.role_reconciler import RoleReconciler
    from pybroker.broker.replicas.staging import Staging
    from pybroker.broker.replicas.store_guard import StoreGuard
    from pybroker.broker.replicas.voter_offers import VoterOffers
    from pybroker.broker.security.authorizer import Authorizer
    from pybroker.broker.security.credentials import Credentials
    from pybroker.broker.security.security_state import Security
    from pybroker.broker.services import Services


class QuorumMember(msgspec.Struct, frozen=True):
    """This broker's node of the metadata quorum."""

    log: MetadataLog
    loader: MetadataLoader
    incarnation: Uuid
    """The id of this process."""
    reports: FetchReports
    address_of: Callable[[int], BrokerImage | None]
    """Returns the address of a voter that is not registered as a broker."""
    status: Callable[[], QuorumStatus]
    """Returns this node's view of the quorum."""
    full_refusals: Callable[[], int]
    """Returns the number of writes of the log that failed because the disk was full."""
    commits: CommitLatency
    """Latency of the changes that this node has committed as leader."""
    accepted_ms: int
    """The time (ms) at which an operator restored the log or accepted a restored log; -1 if that has never happened."""
    directory_id: Uuid
    addresses: tuple[QuorumAddress, ...]
    """The address at which this node listens to brokers."""
    node: QuorumNode

    def voter_ids(self) -> frozenset[int]:
        """Return the node ids of the voters."""
        return frozenset(voter.node_id for voter in self.status().voters)


class BrokerDependencies(msgspec.Struct, frozen=True):
    """The objects on which all other objects depend."""

    broker_id: int
    cluster_id: str
    config: BrokerConfig
    clock: Clock
    loop: asyncio.AbstractEventLoop
    native: NativeBroker
    metadata: MetadataStore | QuorumMember
    """The store or the quorum with the cluster's metadata."""
    guard: StoreGuard | None
    """Detects a store that was set back; None on a single broker and in a metadata quorum."""
    login: Mapping[str, str] = {}
    """The login to other brokers, as client settings."""

    @property
    def quorum(self) -> QuorumMember | None:
        """The node of the metadata quorum, if there is one."""
        return self.metadata if isinstance(self.metadata, QuorumMember) else None

    @property
    def store(self) -> MetadataStore | None:
        """The metadata store, if there is one."""
        return None if isinstance(self.metadata, QuorumMember) else self.metadata


class Local(msgspec.Struct, frozen=True):
    """This broker's metadata and replicas, which the controller's notifications update."""

    view: KnownCluster
    cache: MetadataCache
    staging: Staging
    replicas: ReplicaManager
    following: LeaderFollowing | None
    authorizer: Authorizer
    credentials: Credentials


class InterBrokerParts(msgspec.Struct, frozen=True):
    """The connections to other brokers."""

    view: KnownCluster
    controller: ControllerClient
    open_connection: Connector | None
    """None on a single broker."""
    lines: ConnectionPool | None = None
    """Connections for administrators' requests that other brokers must answer."""


class TopicListeners(msgspec.Struct, frozen=True):
    """Background work that follows the creation and deletion of topics."""

    appends: NativeAppends
    end_of_batch: EndOfBatchHook
    group_topics: CachedTopics
    groups: GroupCoordinator
    producer_ids: ProducerIds
    transactions: Transactions
    shares: Shares
    ends: PartitionEnds
    ingests: Ingests
    late_offsets: LateOffsets
    returned_offsets: RestoredOffsets


class QuorumParts(msgspec.Struct, frozen=True):
    """The components that follow the metadata log on this broker."""

    registration: QuorumRegistration
    publisher: BrokerMetadataPublisher
    """Applies the log."""
    reports: ReplicaReports
    """Reports the results of orders from the log."""
    offers: VoterOffers
    """Offers this broker as a voter."""

    def start(self, lives: Callable[[int], None]) -> None:
        """Follow the log. `lives` is called with each new broker epoch, before the first order for it."""
        self.registration.on_life(lives)
        self.publisher.start()
        self.offers.start()

    async def stop(self) -> None:
        """Stop following."""
        await self.offers.stop()
        await self.registration.stop()
        await self.publisher.stop()
        await self.reports.stop()


class BrokerParts(msgspec.Struct):
    """The parts of a broker that has not started."""

    services: Services
    """The objects that handlers use."""
    membership: BrokerRegistration | QuorumRegistration
    quorum: QuorumParts | None
    """The components that follow the metadata log; None with a metadata store."""
    fence: ControllerFence
    receiver: ControlReceiver
    security: Security
    replicas: ReplicaManager
    roles: RoleReconciler
    staging: Staging
    appends: NativeAppends
    end_of_batch: EndOfBatchHook
    late_offsets: LateOffsets
    returned_offsets: RestoredOffsets
    isr: IsrProposals
    failed: FailedReplicas | None
    """None on a single broker."""
    following: LeaderFollowing | None
    """None on a single broker."""
    controller: ControllerClient
    local_controller: LocalControllerClient
    """The queue from which this broker's controller takes events while it leads."""
    election: SoleController | ControllerElection | QuorumElection
    """How this broker becomes the controller."""
    peers: PeerWatch | None
    """Detects killed brokers; None on a single broker."""
    disconnect: Callable[[], None] | None
    """Closes the connections to other brokers at a stop; None on a single broker."""

    def lives(self, broker_epoch: int) -> None:
        """Pass the broker epoch of this broker's registration to its components."""
        self.fence.registered(broker_epoch)
        if self.following is not None:
            self.following.registered(broker_epoch)
