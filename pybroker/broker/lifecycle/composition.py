"""Builds the objects of one broker, bottom up: each gets its dependencies in its constructor.

The controller notifies brokers, and brokers submit events to the controller. The controller client (`port`) breaks this
cycle: it queues events, and the controller, built last, takes them from it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pybroker.broker.admin.administration import Administration
from pybroker.broker.admin.cluster_description import ClusterAdmin, ClusterState, Figures
from pybroker.broker.admin.delegation_tokens import TokenAdmin
from pybroker.broker.admin.deleted_bytes import DeletedBytes
from pybroker.broker.admin.disk_room import DiskRoom, Room, with_metadata_log
from pybroker.broker.admin.partition_health import Conditions
from pybroker.broker.admin.topics import TopicAdmin
from pybroker.broker.api.controller_messages import ControlReceiver
from pybroker.broker.client_metrics.client_instances import Telemetry
from pybroker.broker.cluster.channel import Channels
from pybroker.broker.cluster.cluster_view import ControllerLeadership
from pybroker.broker.cluster.controller_client import ControllerClient
from pybroker.broker.cluster.events import CloseDeletions
from pybroker.broker.controller.controller import Controller
from pybroker.broker.controller.controller_election import ControllerElection, SoleController
from pybroker.broker.controller.internal_events import BrokerSessionEnded, FenceBroker
from pybroker.broker.controller.local_channel import LocalChannel, LocalOnly
from pybroker.broker.controller.local_controller_client import LocalControllerClient
from pybroker.broker.controller.terms import ControllerTerms, StoreTerms
from pybroker.broker.lifecycle.broker_parts import (
    BrokerDependencies,
    BrokerParts,
    InterBrokerParts,
    Local,
    QuorumMember,
    QuorumParts,
    TopicListeners,
)
from pybroker.broker.lifecycle.coordinator_composition import topic_listeners
from pybroker.broker.metadata.image import BrokerImage
from pybroker.broker.metadata.metadata_cache import MetadataCache
from pybroker.broker.metadata.store_session import MetadataSession, StoreSession
from pybroker.broker.replicas.broker_registration import BrokerRegistration
from pybroker.broker.replicas.controller_fence import ControllerFence
from pybroker.broker.replicas.controller_notifier import FailedReplicas
from pybroker.broker.replicas.dynamic_configs import DynamicConfigs
from pybroker.broker.replicas.fenced_topics import TopicClosing
from pybroker.broker.replicas.image_observers import PartitionChangeMetrics, PublishedFeatures, Purges
from pybroker.broker.replicas.isr_proposals import IsrProposals
from pybroker.broker.replicas.known_cluster import KnownCluster
from pybroker.broker.replicas.leader_following import LeaderFollowing
from pybroker.broker.replicas.log_end_reports import LogEndReports
from pybroker.broker.replicas.metadata_updates import MetadataUpdates
from pybroker.broker.replicas.quota_publisher import ClientQuotas
from pybroker.broker.replicas.replica_manager import ReplicaManager
from pybroker.broker.replicas.role_reconciler import RoleReconciler
from pybroker.broker.replicas.staged_marks import LoggedMarks, StagedMarks, StoredMarks
from pybroker.broker.replicas.staging import Staging
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
from pybroker.errors import FatalError, KafkaError
from pybroker.log_topic_names import use_names

if TYPE_CHECKING:
    # Import modules of clusters only in a cluster.
    from pybroker.broker.controller.quorum_election import QuorumElection
    from pybroker.broker.interbroker.cluster_controller_client import ClusterControllerClient
    from pybroker.broker.interbroker.connection_pool import ConnectionPool
    from pybroker.broker.interbroker.connector import Connector
    from pybroker.broker.interbroker.peer_watch import PeerWatch
    from pybroker.broker.replicas.quorum_registration import QuorumRegistration

log = logging.getLogger(__name__)


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
    followers = topic_listeners(ground, local, topics, port, open_connection)
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
        from pybroker.broker.lifecycle.quorum_composition import quorum_election

        election = quorum_election(ground, quorum, leadership, make_controller, on_fatal)
    elif open_connection is None:
        election = SoleController(leadership, ground.broker_id, make_controller(_store_terms(ground)))
    else:
        election = _store_election(ground, leadership, make_controller, on_fatal)
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
        commits=None if ground.quorum is None else ground.quorum.commits,
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
    membership: BrokerRegistration | QuorumRegistration
    following_log: QuorumParts | None = None
    if quorum is not None:
        from pybroker.broker.lifecycle.quorum_composition import quorum_parts

        following_log = quorum_parts(ground, quorum, view, port, on_fatal, receiver=receiver, closing=closing)
        membership = following_log.registration
    else:
        membership = _registration(ground, on_fatal)
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
        quorum=following_log,
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


def _store_terms(ground: BrokerDependencies) -> StoreTerms:
    assert ground.store is not None
    return StoreTerms(ground.store, ground.clock, ground.broker_id)


def _store_election(
    ground: BrokerDependencies,
    leadership: ControllerLeadership,
    make_controller: Callable[[ControllerTerms], Controller],
    on_fatal: Callable[[FatalError], None],
) -> ControllerElection:
    assert ground.store is not None
    return ControllerElection(
        store=ground.store,
        broker_id=ground.broker_id,
        leadership=leadership,
        make_controller=lambda: make_controller(_store_terms(ground)),
        on_fatal=on_fatal,
        check=None if ground.guard is None else ground.guard.check,
    )


def _registration(ground: BrokerDependencies, on_fatal: Callable[[FatalError], None]) -> BrokerRegistration:
    assert ground.store is not None
    return BrokerRegistration(
        ground.store,
        ground.clock,
        ground.broker_id,
        ground.config["log.flush.mode"],
        on_fatal,
        check=None if ground.guard is None else ground.guard.check,
        log_dirs=ground.config.log_dirs,
        cordoned=ground.config.cordoned_log_dirs,
    )


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
    guard = ground.guard or ground.quorum
    if guard is None or guard.accepted_ms < 0:
        return False
    delay_ms: int = ground.config["delete.topic.delay.ms"]
    return ground.clock.wall_ms() < guard.accepted_ms + delay_ms


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


def _rooms(ground: BrokerDependencies) -> Callable[[], Sequence[Room]]:
    rooms, quorum = ground.native.log_dirs.rooms, ground.quorum
    if quorum is None:
        return rooms
    return lambda: with_metadata_log(rooms(), ground.config.log_dirs[0], quorum.full_refusals())


def _session(ground: BrokerDependencies) -> MetadataSession:
    if isinstance(ground.metadata, QuorumMember):
        from pybroker.broker.quorum.loader import QuorumSession

        return QuorumSession(ground.metadata.loader)
    return StoreSession(ground.metadata)


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
    cluster = ClusterAdmin(local.cache, None if ground.quorum is None else ground.quorum.voter_ids)
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
            cluster_id=ground.cluster_id,
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
            voters=None if ground.quorum is None else ground.quorum.voter_ids,
        ),
        cluster=cluster,
        figures=figures,
        cluster_state=ClusterState(
            ground.broker_id,
            cluster,
            Conditions(view, config, ground.broker_id),
            _session(ground),
            lambda: roles.wrong,
            None if ground.quorum is None else ground.quorum.status,
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
        disk_room=DiskRoom(_rooms(ground), ground.clock),
        deleted_bytes=DeletedBytes(native.log_dirs.staged, ground.clock),
    )
