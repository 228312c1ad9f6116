"""Builds the objects of one broker, bottom up: each gets its dependencies in its constructor.

The controller notifies brokers, and brokers submit events to the controller. The controller client (`port`) breaks this
cycle: it queues events, and the controller, built last, takes them from it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from pybroker.broker.admin.administration import Administration
from pybroker.broker.admin.cluster_description import ClusterAdmin, ClusterState, Figures
from pybroker.broker.admin.delegation_tokens import TokenAdmin
from pybroker.broker.admin.deleted_bytes import DeletedBytes
from pybroker.broker.admin.disk_room import DiskRoom
from pybroker.broker.admin.partition_health import Conditions
from pybroker.broker.admin.restored_offsets import LateOffsets, RestoredOffsets
from pybroker.broker.admin.topics import TopicAdmin
from pybroker.broker.api.controller_messages import ControlReceiver
from pybroker.broker.client_metrics.client_instances import Telemetry
from pybroker.broker.clock import Clock
from pybroker.broker.cluster.channel import Channels
from pybroker.broker.cluster.cluster_view import ControllerLeadership
from pybroker.broker.cluster.controller_client import ControllerClient
from pybroker.broker.cluster.events import CloseDeletions
from pybroker.broker.controller.controller import Controller
from pybroker.broker.controller.controller_election import ControllerElection, SoleController
from pybroker.broker.controller.internal_events import BrokerSessionEnded, FenceBroker
from pybroker.broker.controller.local_channel import LocalChannel, LocalOnly
from pybroker.broker.controller.local_controller_client import LocalControllerClient
from pybroker.broker.controller.quorum_election import QuorumElection
from pybroker.broker.controller.quorum_terms import QuorumTerms
from pybroker.broker.controller.terms import ControllerTerms, StoreTerms
from pybroker.broker.coordinators.group.coordinator import GroupCoordinator
from pybroker.broker.coordinators.group.ports import GroupCoordinatorSettings
from pybroker.broker.coordinators.group.share import ShareCoordination
from pybroker.broker.coordinators.producer_ids import AllocatedBlocks, ProducerIds, StoredBlocks
from pybroker.broker.coordinators.shards.appends import NativeAppends
from pybroker.broker.coordinators.shards.end_of_batch import EndOfBatchHook
from pybroker.broker.coordinators.shards.ports import Ports
from pybroker.broker.coordinators.shards.topic_view import CachedTopics
from pybroker.broker.coordinators.share_partition.dead_letter_appends import DeadLetterAppends
from pybroker.broker.coordinators.share_partition.ends import PartitionEnds
from pybroker.broker.coordinators.share_parts import Shares
from pybroker.broker.coordinators.share_state.coordinator import Persister, ShareStateCoordinator
from pybroker.broker.coordinators.transaction import ports as transaction_ports
from pybroker.broker.coordinators.transaction.coordinator import TransactionCoordinator
from pybroker.broker.coordinators.transaction.dead_topics import KeptOutcomes, OwedMarkers
from pybroker.broker.coordinators.transaction.finishing import Finishing
from pybroker.broker.coordinators.transaction.markers import LocalMarkers, OnlyHere
from pybroker.broker.coordinators.transaction.membership import TransactionMembership, TransactionPeers
from pybroker.broker.coordinators.transaction.offset_commits import TransactionalCommits
from pybroker.broker.coordinators.transaction.ports import MarkerWriter
from pybroker.broker.coordinators.transaction.transactions import Transactions
from pybroker.broker.ingest.ingest_leader import IngestLeader
from pybroker.broker.ingest.ingests import Ingests
from pybroker.broker.metadata.deletion_records import DeletionRecord
from pybroker.broker.metadata.feature_levels import SHARE_VERSION
from pybroker.broker.metadata.image import BrokerImage
from pybroker.broker.metadata.lineage import TopicLineage
from pybroker.broker.metadata.metadata_cache import MetadataCache
from pybroker.broker.metadata.metadata_store import MetadataStore
from pybroker.broker.metadata.store_session import StoreSession
from pybroker.broker.quorum.loader import MetadataLoader, QuorumSession
from pybroker.broker.quorum.quorum_log import MetadataLog
from pybroker.broker.replicas.broker_registration import BrokerRegistration
from pybroker.broker.replicas.controller_fence import ControllerFence
from pybroker.broker.replicas.controller_notifier import FailedReplicas
from pybroker.broker.replicas.dynamic_configs import DynamicConfigs
from pybroker.broker.replicas.fenced_topics import TopicClosing
from pybroker.broker.replicas.image_observers import PartitionChangeMetrics, PublishedFeatures, Purges
from pybroker.broker.replicas.isr_proposals import IsrProposals
from pybroker.broker.replicas.known_cluster import KnownCluster
from pybroker.broker.replicas.leader_following import Addresses, LeaderFollowing
from pybroker.broker.replicas.log_end_reports import LogEndReports
from pybroker.broker.replicas.metadata_publisher import BrokerMetadataPublisher
from pybroker.broker.replicas.metadata_updates import MetadataUpdates
from pybroker.broker.replicas.order_results import ReplicaReports
from pybroker.broker.replicas.quorum_registration import QuorumRegistration
from pybroker.broker.replicas.quota_publisher import ClientQuotas
from pybroker.broker.replicas.replica_manager import ReplicaManager
from pybroker.broker.replicas.role_reconciler import RoleReconciler
from pybroker.broker.replicas.staged_marks import LoggedMarks, StagedMarks, StoredMarks
from pybroker.broker.replicas.staging import Staging
from pybroker.broker.replicas.store_guard import StoreGuard
from pybroker.broker.replicas.stray_evidence import LoggedTopics, TopicEvidence
from pybroker.broker.replicas.stray_reports import StrayReports
from pybroker.broker.replicas.strays import Strays
from pybroker.broker.security.authorizer import Authorizer
from pybroker.broker.security.broker_gate import BrokerGate
from pybroker.broker.security.credentials import Credentials, secret_of
from pybroker.broker.security.mutation_usage import NativeMutationUsage
from pybroker.broker.security.oauth.oauth_listeners import OAuthListeners
from pybroker.broker.security.pending_acls import PendingAcls
from pybroker.broker.security.sasl_server import SaslServer
from pybroker.broker.security.security_state import Security
from pybroker.broker.services import Services
from pybroker.config import BrokerConfig
from pybroker.errors import FatalError, KafkaError
from pybroker.log_topic_names import use_names
from pybroker.native import NativeBroker, Uuid

if TYPE_CHECKING:
    from pybroker.broker.coordinators.share_partition.manager import SharePartitions
    from pybroker.broker.interbroker.cluster_controller_client import ClusterControllerClient
    from pybroker.broker.interbroker.connection_pool import ConnectionPool

    # Import modules of clusters only in a cluster.
    from pybroker.broker.interbroker.connector import Connector
    from pybroker.broker.interbroker.peer_watch import PeerWatch

log = logging.getLogger(__name__)


class QuorumMember(msgspec.Struct, frozen=True):
    """This broker's node of the metadata quorum."""

    log: MetadataLog
    loader: MetadataLoader
    incarnation: Uuid
    """The id of this process."""
    address_of: Callable[[int], BrokerImage | None]
    """Returns the address of a voter that is not registered as a broker."""


class BrokerDependencies(msgspec.Struct, frozen=True):
    """The objects that all others depend on."""

    broker_id: int
    cluster_id: str
    config: BrokerConfig
    clock: Clock
    loop: asyncio.AbstractEventLoop
    native: NativeBroker
    metadata: MetadataStore | QuorumMember
    """What keeps the cluster's metadata."""
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
    port: ControllerClient
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


class BrokerParts(msgspec.Struct):
    """The parts of a broker that has not started."""

    services: Services
    """The objects that handlers use."""
    membership: BrokerRegistration | QuorumRegistration
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
    port: ControllerClient
    own_port: LocalControllerClient
    """The queue from which this broker's controller takes events while it leads."""
    publisher: BrokerMetadataPublisher | None
    """Applies the metadata log; None with a metadata store."""
    reports: ReplicaReports | None
    """Reports what became of orders from the metadata log; None with a metadata store."""
    election: SoleController | ControllerElection | QuorumElection
    """How this broker becomes the controller."""
    peers: PeerWatch | None
    """Detects killed brokers; None on a single broker."""
    disconnect: Callable[[], None] | None
    """Closes the connections to other brokers at a stop; None on a single broker."""

    def lives(self, broker_epoch: int) -> None:
        """Pass on the broker epoch of this broker's registration."""
        self.fence.registered(broker_epoch)
        if self.following is not None:
            self.following.registered(broker_epoch)


def build(ground: BrokerDependencies, on_fatal: Callable[[FatalError], None]) -> BrokerParts:
    """Build and connect all objects. `on_fatal` is called when the broker cannot go on."""
    own_port, leadership = LocalControllerClient(ground.broker_id), ControllerLeadership()
    changes = PartitionChangeMetrics(ground.broker_id, lambda: own_port.is_open)
    view, authorizer, credentials = _view(ground, changes)
    use_names(view.name_of)
    between = ground.config.between_brokers
    open_connection: Connector | None = None
    lines: ConnectionPool | None = None
    peers: PeerWatch | None = None
    port: ControllerClient = own_port
    disconnect: Callable[[], None] | None = None
    check = None if ground.guard is None else ground.guard.check
    quorum = ground.quorum
    if between is not None:
        from pybroker.broker.interbroker.cluster_controller_client import ClusterControllerClient
        from pybroker.broker.interbroker.connection_pool import ConnectionPool
        from pybroker.broker.interbroker.connector import Connector

        open_connection = Connector(ground.broker_id, between, ground.login)
        port = cluster = ClusterControllerClient(
            broker_id=ground.broker_id,
            local=own_port,
            changes=lambda: election.changes,
            leadership=leadership,
            view=view,
            open_connection=open_connection,
            address_of=_no_address if quorum is None else quorum.address_of,
            pulls=quorum is not None,
        )
        lines = ConnectionPool(view, open_connection)
        disconnect = partial(_close_all, cluster, lines)
    staging, replicas, following = _replicas(ground, view, port)
    local = Local(
        view, MetadataCache(ground.native, ground.cluster_id), staging, replicas, following, authorizer, credentials
    )
    topics = TopicAdmin(local.view, port, ground.config, ground.clock)
    followers = _followers(ground, local, topics, port, open_connection)
    fence = ControllerFence()
    closing = TopicClosing(ground.native.partitions, followers.groups, local.view)
    receiver = _receiver(ground, local, followers, fence, closing)

    def make_controller(terms: ControllerTerms) -> Controller:
        return Controller(
            port=own_port,
            terms=terms,
            clock=ground.clock,
            broker_id=ground.broker_id,
            channels=_channels(ground, LocalChannel(receiver.handle), open_connection),
            between=between,
            settings=ground.config,
            unclean_elections=ground.config.with_dynamic(cluster={}, broker={})["unclean.leader.election.enable"],
            on_fatal=on_fatal,
            mutations=NativeMutationUsage(ground.native.quotas),
            acls=PendingAcls(ground.config) if authorizer.enabled else None,
        )

    election: SoleController | ControllerElection | QuorumElection
    if quorum is not None:
        election = _quorum_election(ground, quorum, leadership, make_controller, on_fatal)
    else:
        store = ground.store
        assert store is not None

        def store_controller() -> Controller:
            return make_controller(StoreTerms(store, ground.clock, ground.broker_id))

        if open_connection is None:
            election = SoleController(leadership, ground.broker_id, store_controller())
        else:
            election = ControllerElection(
                store=store,
                broker_id=ground.broker_id,
                leadership=leadership,
                make_controller=store_controller,
                on_fatal=on_fatal,
                check=check,
            )
    if open_connection is not None:
        assert not isinstance(election, SoleController)
        peers = _peer_watch(
            ground, local.view, leadership, own_port, open_connection=open_connection, election=election
        )
    isr = IsrProposals(
        ground.native,
        port,
        ground.broker_id,
        lambda: fence.broker_epoch,
        bring=followers.ingests.joining.bring,
        leaving=lambda: view.image.leaving,
    )
    figures = Figures(
        is_controller=lambda: own_port.is_open,
        events_waiting=lambda: own_port.waiting,
        queue=own_port.figures,
        changes=changes,
        failed_isr_updates=lambda: isr.failed_updates,
    )
    roles = RoleReconciler(
        broker_id=ground.broker_id,
        broker_epoch=lambda: fence.broker_epoch,
        partitions=ground.native.partitions,
        view=view,
        cache=local.cache,
        closing=closing,
        replicas=local.replicas,
        on_led=followers.transactions.owed.led,
        port=port,
    )
    membership, reports, publisher = _registration(ground, view, port, on_fatal, receiver=receiver, closing=closing)
    return BrokerParts(
        services=_services(
            ground,
            local,
            followers,
            topics,
            InterBrokerParts(local.view, port, open_connection, lines),
            figures=figures,
            roles=roles,
        ),
        membership=membership,
        publisher=publisher,
        reports=reports,
        fence=fence,
        receiver=receiver,
        security=Security(local.authorizer, local.credentials),
        replicas=local.replicas,
        roles=roles,
        staging=local.staging,
        appends=followers.appends,
        end_of_batch=followers.end_of_batch,
        late_offsets=followers.late_offsets,
        returned_offsets=followers.returned_offsets,
        following=local.following,
        isr=isr,
        failed=None if open_connection is None else FailedReplicas(port, ground.broker_id, lambda: fence.broker_epoch),
        port=port,
        own_port=own_port,
        election=election,
        peers=peers,
        disconnect=disconnect,
    )


def _no_address(broker_id: int) -> BrokerImage | None:
    """Return None: with a metadata store, a controller is a registered broker."""
    del broker_id
    return None


def _quorum_election(
    ground: BrokerDependencies,
    quorum: QuorumMember,
    leadership: ControllerLeadership,
    make_controller: Callable[[ControllerTerms], Controller],
    on_fatal: Callable[[FatalError], None],
) -> QuorumElection:
    session_s = ground.config.get_int("broker.session.timeout.ms") / 1000

    def of_epoch(epoch: int) -> Controller:
        return make_controller(QuorumTerms(quorum.log, quorum.loader, epoch, ground.broker_id, session_s))

    return QuorumElection(
        log=quorum.log,
        loader=quorum.loader,
        broker_id=ground.broker_id,
        leadership=leadership,
        make_controller=of_epoch,
        on_fatal=on_fatal,
    )


def _registration(
    ground: BrokerDependencies,
    view: KnownCluster,
    port: ControllerClient,
    on_fatal: Callable[[FatalError], None],
    *,
    receiver: ControlReceiver,
    closing: TopicClosing,
) -> tuple[BrokerRegistration | QuorumRegistration, ReplicaReports | None, BrokerMetadataPublisher | None]:
    config, quorum = ground.config, ground.quorum
    flush_mode = config["log.flush.mode"]
    if quorum is None:
        assert ground.store is not None
        stored = BrokerRegistration(
            ground.store,
            ground.clock,
            ground.broker_id,
            flush_mode,
            on_fatal,
            check=None if ground.guard is None else ground.guard.check,
            log_dirs=config.log_dirs,
            cordoned=config.cordoned_log_dirs,
        )
        return stored, None, None
    registration = QuorumRegistration(
        port,
        ground.broker_id,
        flush_mode,
        on_fatal,
        incarnation=quorum.incarnation,
        heartbeat_s=config.get_int("broker.heartbeat.interval.ms") / 1000,
        log_dirs=config.log_dirs,
        cordoned=config.cordoned_log_dirs,
    )
    reports = ReplicaReports(port, ground.broker_id)
    publisher = BrokerMetadataPublisher(
        broker_id=ground.broker_id,
        incarnation=quorum.incarnation,
        between=config.between_brokers,
        loader=quorum.loader,
        view=view,
        execute=receiver.execute,
        expire_fences=closing.expire,
        results=reports,
        listener=registration,
        on_fatal=on_fatal,
    )
    return registration, reports, publisher


def _close_all(*connections: ClusterControllerClient | ConnectionPool) -> None:
    for each in connections:
        each.close()


def _peer_watch(
    ground: BrokerDependencies,
    view: KnownCluster,
    leadership: ControllerLeadership,
    own_port: LocalControllerClient,
    *,
    open_connection: Connector,
    election: ControllerElection | QuorumElection,
) -> PeerWatch:
    from pybroker.broker.interbroker.peer_watch import PeerWatch

    async def fence(broker: BrokerImage) -> None:
        try:
            kind = FenceBroker if ground.quorum is None else BrokerSessionEnded
            await own_port.submit(kind(broker.broker_id, broker.epoch))
        except KafkaError as error:
            log.info("broker not fenced broker=%d: %s", broker.broker_id, error)

    async def unseat(broker: BrokerImage) -> None:
        await election.unseat(broker.broker_id)

    return PeerWatch(
        broker_id=ground.broker_id,
        view=view,
        leadership=leadership,
        open_connection=open_connection,
        fence=fence,
        unseat=unseat,
    )


def _channels(ground: BrokerDependencies, local: LocalChannel, open_connection: Connector | None) -> Channels:
    if open_connection is None:
        return LocalOnly(ground.broker_id, local)
    from pybroker.broker.interbroker.channels import BrokerChannels
    from pybroker.broker.interbroker.remote_channel import RemoteChannel

    reach, config = open_connection, ground.config
    turn = asyncio.Lock()

    def open_channel(broker: BrokerImage) -> RemoteChannel:
        return RemoteChannel(broker.broker_id, lambda: reach(broker), turn, lambda: config.topic_ids)

    return BrokerChannels(ground.broker_id, local, open_channel)


def _view(ground: BrokerDependencies, changes: PartitionChangeMetrics) -> tuple[KnownCluster, Authorizer, Credentials]:
    native, config = ground.native, ground.config
    authorizer, credentials = Authorizer(native.authorizer, config), Credentials(secret_of(config), ground.clock)
    # ACLs come before topic settings: they must not wait for them.
    guard = () if ground.guard is None else (ground.guard,)
    view = KnownCluster(
        [
            *guard,
            Security(authorizer, credentials),
            DynamicConfigs(ground.broker_id, config, native),
            PublishedFeatures(native),
            ClientQuotas(native),
            changes,
        ]
    )
    # Features and group settings are read from the image; native code is notified of the rest.
    view.on_image_replaced(native.control_queue.take_answers_back)
    return view, authorizer, credentials


def _is_doubtful(ground: BrokerDependencies) -> bool:
    """Return whether the store was restored and accepted, so that the broker must verify it before use."""
    if ground.guard is None or ground.guard.accepted_ms < 0:
        return False
    delay_ms: int = ground.config["delete.topic.delay.ms"]
    return ground.clock.wall_ms() < ground.guard.accepted_ms + delay_ms


def _replicas(
    ground: BrokerDependencies, view: KnownCluster, port: ControllerClient
) -> tuple[Staging, ReplicaManager, LeaderFollowing | None]:
    native, config = ground.native, ground.config
    known: TopicEvidence
    marks: StagedMarks
    if ground.store is None:
        known, marks = LoggedTopics(view, port, ground.broker_id), LoggedMarks(port, view, ground.broker_id)
    else:
        known = TopicEvidence(
            view, ground.store, ground.broker_id, complete=config.in_cluster, doubtful=lambda: _is_doubtful(ground)
        )
        marks = StoredMarks(ground.store, ground.broker_id)
    staging = Staging(
        native,
        marks,
        ground.clock,
        known=known,
        close=lambda topic_id: port.submit(CloseDeletions((topic_id,))),
        found=StrayReports(native, port, ground.clock, ground.broker_id),
    )
    view.add_observer(Purges(staging))
    following = LeaderFollowing(native, ground.broker_id) if config.in_cluster else None
    log_ends = LogEndReports(native.partitions, view, port, ground.broker_id) if config.in_cluster else None
    replicas = ReplicaManager(
        native=native,
        view=view,
        config=config,
        staging=staging,
        strays=Strays(native, ground.store, known, lambda: config.get_int("stale.replicas.max.percent")),
        following=following,
        log_ends=log_ends,
    )
    return staging, replicas, following


def _followers(
    ground: BrokerDependencies,
    local: Local,
    topics: TopicAdmin,
    port: ControllerClient,
    open_connection: Connector | None,
) -> TopicListeners:
    native, view = ground.native, local.view

    def lineage(topic_id: Uuid) -> TopicLineage | None:
        topic = view.image.topic_by_id(topic_id)
        return None if topic is None else topic.lineage

    def deletions() -> Mapping[Uuid, DeletionRecord]:
        return view.image.deletions

    def own_settings(group_id: str) -> Mapping[str, str]:
        return view.image.group_config(group_id)

    appends = NativeAppends(native.partitions, ground.loop)
    group_topics = CachedTopics(local.cache, lineage, deletions)
    end_of_batch = EndOfBatchHook(ground.loop)
    ports = Ports(
        ground.broker_id, ground.clock, ground.loop, end_of_batch, appends, native.partitions, group_topics, topics
    )
    settings = GroupCoordinatorSettings(ground.config, own_settings)
    states, persister, ends, dead_letters, disconnect = _share_states(
        ground, ports, InterBrokerParts(view, port, open_connection), appends
    )
    late_offsets = LateOffsets(view, port)
    groups = GroupCoordinator(ports, settings, persister, late_offsets.keep)

    def share_partitions() -> SharePartitions:
        from pybroker.broker.admin.automatic_topics import DeadLetterTopics
        from pybroker.broker.coordinators.share_partition.dead_letters import DeadLetterDependencies, DeadLetterQueues
        from pybroker.broker.coordinators.share_partition.manager import SharePartitions
        from pybroker.broker.coordinators.share_partition.partition import SharePartitionDependencies
        from pybroker.broker.coordinators.share_partition.share_statistics import ShareStatistics

        figures = ShareStatistics()
        return SharePartitions(
            ground.broker_id,
            group_topics,
            SharePartitionDependencies(
                ground.clock,
                ground.loop,
                groups.timers,
                native.partitions,
                persister,
                settings.share,
                DeadLetterQueues(
                    DeadLetterDependencies(
                        ground.clock,
                        ground.loop,
                        group_topics,
                        native.partitions,
                        DeadLetterTopics(topics, local.replicas.resolved_config),
                        dead_letters,
                        settings.share,
                        lambda: view.image.features.level(SHARE_VERSION) >= 2,
                    ),
                    figures,
                ),
                appends.watched,
                appends.unwatched,
            ),
            figures,
        )

    shares = Shares(
        ShareCoordination(groups, group_topics, persister, ground.loop),
        share_partitions,
        states,
        settings.share,
        dead_letters=dead_letters,
        disconnect=disconnect,
    )
    producer_ids = ProducerIds(
        AllocatedBlocks(port, view, ground.broker_id)
        if ground.store is None
        else StoredBlocks(ground.store, ground.broker_id)
    )
    transactions = _transactions(
        ground,
        ports,
        groups,
        ids=producer_ids,
        markers=LocalMarkers(appends, groups, ground.clock),
        between=InterBrokerParts(view, port, open_connection),
    )
    colleagues = None
    if open_connection is not None:
        from pybroker.broker.interbroker.remote_ingest_orders import IngestOrders

        colleagues = IngestOrders(view, open_connection)
    ingests = Ingests(
        broker_id=ground.broker_id,
        leader=IngestLeader(native.ingests),
        colleagues=colleagues,
        view=view,
        port=port,
        config=ground.config,
        clock=ground.clock,
        resolved_config=local.replicas.resolved_config,
    )
    view.add_observer(ingests)
    returned_offsets = RestoredOffsets(
        view,
        port,
        groups.give_back,
        groups.loaded,
        is_shown=lambda topic_id: group_topics.topic_name(topic_id) is not None,
    )
    view.add_observer(returned_offsets)
    if (between := ground.config.between_brokers) is not None:
        view.add_observer(Addresses(native, ground.broker_id, between))
    return TopicListeners(
        appends,
        end_of_batch,
        group_topics,
        groups,
        producer_ids,
        transactions,
        shares,
        ends,
        ingests,
        late_offsets,
        returned_offsets,
    )


def _share_states(
    ground: BrokerDependencies, ports: Ports, between: InterBrokerParts, appends: NativeAppends
) -> tuple[ShareStateCoordinator, Persister, PartitionEnds, DeadLetterAppends, Callable[[], None] | None]:
    native, here = ground.native, ground.broker_id
    states = ShareStateCoordinator(ports, ground.config, native.partitions)
    if between.open_connection is None:
        ends = PartitionEnds(here, ports.topics, native.partitions, None)
        return states, Persister(ports, states, None), ends, DeadLetterAppends(here, appends, None), None
    from pybroker.broker.coordinators.share_state.share_state_peers import OtherShareCoordinators
    from pybroker.broker.interbroker.connection_pool import ConnectionPool

    lines = ConnectionPool(between.view, between.open_connection)
    # An append waits for replicas; a query must not wait behind it, so it has other connections.
    letters = ConnectionPool(between.view, between.open_connection)
    others = OtherShareCoordinators(lines)
    ends = PartitionEnds(here, ports.topics, native.partitions, lines)

    def disconnect() -> None:
        others.close()
        letters.close()

    return states, Persister(ports, states, others), ends, DeadLetterAppends(here, appends, letters), disconnect


def _transactions(
    ground: BrokerDependencies,
    ports: Ports,
    groups: GroupCoordinator,
    *,
    ids: ProducerIds,
    markers: LocalMarkers,
    between: InterBrokerParts,
) -> Transactions:
    writer: MarkerWriter = OnlyHere(ground.broker_id, markers)
    colleagues: TransactionPeers | None = None
    close = None
    if between.open_connection is not None:
        from pybroker.broker.coordinators.transaction.everywhere import Everywhere
        from pybroker.broker.interbroker.connection_pool import ConnectionPool

        everywhere = Everywhere(
            ground.broker_id,
            markers,
            ConnectionPool(between.view, between.open_connection),
            ConnectionPool(between.view, between.open_connection),
        )
        writer = colleagues = everywhere
        close = everywhere.close
    finishing = Finishing(ports.topics, writer, between.port, KeptOutcomes(between.port), ground.clock)
    coordinator = TransactionCoordinator(ports, transaction_ports.TransactionSettings(ground.config), ids, finishing)
    owed = OwedMarkers(ground.broker_id, between.view, between.port, ground.native.partitions, markers)
    membership = TransactionMembership(ground.broker_id, coordinator, ports.topics, colleagues)
    commits = TransactionalCommits(groups, membership, ports.topics, ports.creator)
    return Transactions(coordinator, membership, markers, owed, commits, ground.clock, close)


def _receiver(
    ground: BrokerDependencies, local: Local, followers: TopicListeners, fence: ControllerFence, closing: TopicClosing
) -> ControlReceiver:
    return ControlReceiver(
        fence=fence,
        cluster=local.view,
        replicas=local.replicas,
        metadata=MetadataUpdates(
            local.cache,
            local.view,
            on_removed=[
                followers.groups.topics_removed,
                followers.shares.topics_removed,
                followers.ingests.topics_removed,
            ],
            on_shown=[followers.ingests.topics_shown, followers.returned_offsets.topics_shown],
        ),
        closing=closing,
        on_led=followers.transactions.owed.led,
    )


def _services(
    ground: BrokerDependencies,
    local: Local,
    followers: TopicListeners,
    topics: TopicAdmin,
    between: InterBrokerParts,
    *,
    figures: Figures,
    roles: RoleReconciler,
) -> Services:
    native, config, view, port = ground.native, ground.config, local.view, between.port
    cluster = ClusterAdmin(local.cache)
    gate = BrokerGate(config, local.authorizer) if config.in_cluster else None
    return Services(
        broker_id=ground.broker_id,
        cluster_id=ground.cluster_id,
        config=config,
        native=native,
        view=view,
        cache=local.cache,
        topics=topics,
        admin=Administration(
            broker_id=ground.broker_id,
            config=config,
            clock=ground.clock,
            native=native,
            view=view,
            port=port,
            cache=local.cache,
            topics=topics,
            replicas=local.replicas,
            staging=local.staging,
            others=between.lines,
            authorizes=local.authorizer.enabled,
        ),
        cluster=cluster,
        figures=figures,
        cluster_state=ClusterState(
            ground.broker_id,
            cluster,
            Conditions(view, config, ground.broker_id),
            QuorumSession(ground.metadata.loader)
            if isinstance(ground.metadata, QuorumMember)
            else StoreSession(ground.metadata),
            lambda: roles.wrong,
        ),
        groups=followers.groups,
        ingests=followers.ingests,
        group_topics=followers.group_topics,
        producer_ids=followers.producer_ids,
        transactions=followers.transactions,
        shares=followers.shares,
        ends=followers.ends,
        authorizer=local.authorizer,
        sasl=SaslServer(
            config, local.credentials, ground.clock, gate, OAuthListeners(config, ground.clock, ground.loop)
        ),
        gate=gate,
        tokens=TokenAdmin(view, port, config, ground.clock),
        telemetry=Telemetry(view, config, ground.clock),
        disk_room=DiskRoom(native.log_dirs.rooms, ground.clock),
        deleted_bytes=DeletedBytes(native.log_dirs.staged, ground.clock),
    )
