"""Builds the objects of one broker. Each gets its dependencies in its constructor, so they are built in the order of
their dependencies.

The controller notifies brokers, and brokers submit events to the controller. The controller client (`local_controller`)
breaks this cycle: it queues events, and the controller, which is built last, takes them from the queue.
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
from pybroker.broker.metadata.metadata_store import MetadataSession, StoreSession
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
from pybroker.broker.security.authorizer import Authorizer, PendingAcls
from pybroker.broker.security.broker_gate import BrokerGate
from pybroker.broker.security.credentials import Credentials, secret_of
from pybroker.broker.security.mutation_usage import NativeMutationUsage
from pybroker.broker.security.oauth.oauth_listeners import OAuthListeners
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
    from pybroker.broker.replicas.partition_visibility import PartitionVisibility
    from pybroker.broker.replicas.quorum_registration import QuorumRegistration

log = logging.getLogger(__name__)


def build(dependencies: BrokerDependencies, on_fatal: Callable[[FatalError], None]) -> BrokerParts:
    """Build and connect all objects. `on_fatal` is called when the broker cannot continue."""
    local_controller, leadership = LocalControllerClient(dependencies.broker_id), ControllerLeadership()
    changes = PartitionChangeMetrics(dependencies.broker_id, lambda: local_controller.is_open)
    view, authorizer, credentials = _view(dependencies, changes)
    use_names(view.name_of)
    between_brokers = dependencies.config.between_brokers
    open_connection: Connector | None = None
    lines: ConnectionPool | None = None
    peers: PeerWatch | None = None
    controller: ControllerClient = local_controller
    disconnect: Callable[[], None] | None = None
    quorum, visibility = dependencies.quorum, _visibility(dependencies)
    if between_brokers is not None:
        from pybroker.broker.interbroker.cluster_controller_client import ClusterControllerClient
        from pybroker.broker.interbroker.connection_pool import ConnectionPool
        from pybroker.broker.interbroker.connector import Connector

        open_connection = Connector(dependencies.broker_id, between_brokers, dependencies.login)
        controller = cluster = ClusterControllerClient(
            broker_id=dependencies.broker_id,
            local=local_controller,
            changes=lambda: election.changes,
            leadership=leadership,
            view=view,
            open_connection=open_connection,
            address_of=_no_address if quorum is None else quorum.address_of,
            pulls=quorum is not None,
            clients_see=None if visibility is None else visibility.shown,
        )
        lines = ConnectionPool(view, open_connection)
        disconnect = partial(_close_all, cluster, lines)
    staging, replicas, following = _replicas(dependencies, view, controller)
    local = Local(
        view,
        MetadataCache(dependencies.native, dependencies.cluster_id),
        staging,
        replicas,
        following,
        authorizer,
        credentials,
    )
    topics = TopicAdmin(local.view, controller, dependencies.config, dependencies.clock)
    followers = topic_listeners(dependencies, local, topics, controller, open_connection)
    fence = ControllerFence()
    closing = TopicClosing(dependencies.native.partitions, followers.groups, local.view)
    receiver = _receiver(dependencies, local, followers, fence, closing)

    def make_controller(terms: ControllerTerms) -> Controller:
        return Controller(
            client=local_controller,
            terms=terms,
            clock=dependencies.clock,
            broker_id=dependencies.broker_id,
            channels=_channels(dependencies, LocalChannel(receiver.handle, fence.term_ended), open_connection),
            between=between_brokers,
            settings=dependencies.config,
            unclean_elections=dependencies.config.with_dynamic(cluster={}, broker={})["unclean.leader.election.enable"],
            on_fatal=on_fatal,
            mutations=NativeMutationUsage(dependencies.native.quotas),
            acls=PendingAcls(dependencies.config) if authorizer.enabled else None,
        )

    election: SoleController | ControllerElection | QuorumElection
    if quorum is not None:
        from pybroker.broker.lifecycle.quorum_composition import quorum_election

        election = quorum_election(dependencies, quorum, leadership, make_controller, on_fatal)
    elif open_connection is None:
        election = SoleController(leadership, dependencies.broker_id, make_controller(_store_terms(dependencies)))
    else:
        election = _store_election(dependencies, leadership, make_controller, on_fatal)
    if open_connection is not None:
        assert not isinstance(election, SoleController)
        peers = _peer_watch(
            dependencies, local.view, leadership, local_controller, open_connection=open_connection, election=election
        )
    isr = IsrProposals(
        dependencies.native,
        controller,
        dependencies.broker_id,
        lambda: fence.broker_epoch,
        bring=followers.ingests.joining.bring,
        leaving=lambda: view.image.leaving,
    )
    figures = Figures(
        is_controller=lambda: local_controller.is_open,
        events_waiting=lambda: local_controller.waiting,
        queue=local_controller.figures,
        changes=changes,
        failed_isr_updates=lambda: isr.failed_updates,
        commits=None if dependencies.quorum is None else dependencies.quorum.commits,
    )
    roles = RoleReconciler(
        broker_id=dependencies.broker_id,
        broker_epoch=lambda: fence.broker_epoch,
        partitions=dependencies.native.partitions,
        view=view,
        cache=local.cache,
        closing=closing,
        replicas=local.replicas,
        on_led=followers.transactions.owed.led,
        controller=controller,
    )
    membership: BrokerRegistration | QuorumRegistration
    following_log: QuorumParts | None = None
    if quorum is not None and visibility is not None:
        from pybroker.broker.lifecycle.quorum_composition import quorum_parts

        following_log = quorum_parts(
            dependencies, quorum, view, controller, on_fatal, receiver=receiver, closing=closing, visibility=visibility
        )
        membership = following_log.registration
    else:
        membership = _registration(dependencies, on_fatal)
    return BrokerParts(
        services=_services(
            dependencies,
            local,
            followers,
            topics,
            InterBrokerParts(local.view, controller, open_connection, lines),
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
        failed=None
        if open_connection is None
        else FailedReplicas(controller, dependencies.broker_id, lambda: fence.broker_epoch),
        controller=controller,
        local_controller=local_controller,
        election=election,
        peers=peers,
        disconnect=disconnect,
    )


def _visibility(dependencies: BrokerDependencies) -> PartitionVisibility | None:
    if dependencies.quorum is None:
        return None
    from pybroker.broker.replicas.partition_visibility import PartitionVisibility

    return PartitionVisibility(dependencies.broker_id, dependencies.quorum.reports.offsets)


def _no_address(broker_id: int) -> BrokerImage | None:
    """Return None: with a metadata store, the controller is always a registered broker."""
    del broker_id
    return None


def _store_terms(dependencies: BrokerDependencies) -> StoreTerms:
    assert dependencies.store is not None
    return StoreTerms(dependencies.store, dependencies.clock, dependencies.broker_id)


def _store_election(
    dependencies: BrokerDependencies,
    leadership: ControllerLeadership,
    make_controller: Callable[[ControllerTerms], Controller],
    on_fatal: Callable[[FatalError], None],
) -> ControllerElection:
    assert dependencies.store is not None
    return ControllerElection(
        store=dependencies.store,
        broker_id=dependencies.broker_id,
        leadership=leadership,
        make_controller=lambda: make_controller(_store_terms(dependencies)),
        on_fatal=on_fatal,
        check=None if dependencies.guard is None else dependencies.guard.check,
    )


def _registration(dependencies: BrokerDependencies, on_fatal: Callable[[FatalError], None]) -> BrokerRegistration:
    assert dependencies.store is not None
    return BrokerRegistration(
        dependencies.store,
        dependencies.clock,
        dependencies.broker_id,
        dependencies.config["log.flush.mode"],
        on_fatal,
        check=None if dependencies.guard is None else dependencies.guard.check,
        log_dirs=dependencies.config.log_dirs,
        cordoned=dependencies.config.cordoned_log_dirs,
    )


def _close_all(*connections: ClusterControllerClient | ConnectionPool) -> None:
    for each in connections:
        each.close()


def _peer_watch(
    dependencies: BrokerDependencies,
    view: KnownCluster,
    leadership: ControllerLeadership,
    local_controller: LocalControllerClient,
    *,
    open_connection: Connector,
    election: ControllerElection | QuorumElection,
) -> PeerWatch:
    from pybroker.broker.interbroker.peer_watch import PeerWatch

    async def fence(broker: BrokerImage) -> None:
        try:
            kind = FenceBroker if dependencies.quorum is None else BrokerSessionEnded
            await local_controller.submit(kind(broker.broker_id, broker.epoch))
        except KafkaError as error:
            log.info("broker not fenced broker=%d: %s", broker.broker_id, error)

    async def unseat(broker: BrokerImage) -> None:
        await election.unseat(broker.broker_id)

    return PeerWatch(
        broker_id=dependencies.broker_id,
        view=view,
        leadership=leadership,
        open_connection=open_connection,
        fence=fence,
        unseat=unseat,
    )


def _channels(dependencies: BrokerDependencies, local: LocalChannel, open_connection: Connector | None) -> Channels:
    if open_connection is None:
        return LocalOnly(dependencies.broker_id, local)
    from pybroker.broker.interbroker.channels import BrokerChannels
    from pybroker.broker.interbroker.remote_channel import RemoteChannel

    reach, config = open_connection, dependencies.config
    turn = asyncio.Lock()

    def open_channel(broker: BrokerImage) -> RemoteChannel:
        return RemoteChannel(broker.broker_id, lambda: reach(broker), turn, lambda: config.topic_ids)

    return BrokerChannels(dependencies.broker_id, local, open_channel)


def _view(
    dependencies: BrokerDependencies, changes: PartitionChangeMetrics
) -> tuple[KnownCluster, Authorizer, Credentials]:
    native, config = dependencies.native, dependencies.config
    authorizer, credentials = Authorizer(native.authorizer, config), Credentials(secret_of(config), dependencies.clock)
    # Apply ACLs before topic settings, so that they do not wait for the settings.
    guard = () if dependencies.guard is None else (dependencies.guard,)
    view = KnownCluster(
        [
            *guard,
            Security(authorizer, credentials),
            DynamicConfigs(dependencies.broker_id, config, native),
            PublishedFeatures(native),
            ClientQuotas(native),
            changes,
        ]
    )
    # Features and group settings are read from the image; native code is notified of the rest.
    view.on_image_replaced(native.control_queue.take_answers_back)
    return view, authorizer, credentials


def _is_doubtful(dependencies: BrokerDependencies) -> bool:
    """Return whether an operator has restored the store and accepted it. The broker must then verify it before use."""
    guard = dependencies.guard or dependencies.quorum
    if guard is None or guard.accepted_ms < 0:
        return False
    delay_ms: int = dependencies.config["delete.topic.delay.ms"]
    return dependencies.clock.wall_ms() < guard.accepted_ms + delay_ms


def _replicas(
    dependencies: BrokerDependencies, view: KnownCluster, controller: ControllerClient
) -> tuple[Staging, ReplicaManager, LeaderFollowing | None]:
    native, config = dependencies.native, dependencies.config
    known: TopicEvidence
    marks: StagedMarks
    if dependencies.store is None:
        known, marks = (
            LoggedTopics(view, controller, dependencies.broker_id),
            LoggedMarks(controller, view, dependencies.broker_id),
        )
    else:
        known = TopicEvidence(
            view,
            dependencies.store,
            dependencies.broker_id,
            complete=config.in_cluster,
            doubtful=lambda: _is_doubtful(dependencies),
        )
        marks = StoredMarks(dependencies.store, dependencies.broker_id)
    staging = Staging(
        native,
        marks,
        dependencies.clock,
        known=known,
        close=lambda topic_id: controller.submit(CloseDeletions((topic_id,))),
        found=StrayReports(native, controller, dependencies.clock, dependencies.broker_id),
    )
    view.add_observer(Purges(staging))
    following = LeaderFollowing(native, dependencies.broker_id) if config.in_cluster else None
    log_ends = LogEndReports(native.partitions, view, controller, dependencies.broker_id) if config.in_cluster else None
    replicas = ReplicaManager(
        native=native,
        view=view,
        config=config,
        staging=staging,
        strays=Strays(native, dependencies.store, known, lambda: config.get_int("stale.replicas.max.percent")),
        following=following,
        log_ends=log_ends,
    )
    return staging, replicas, following


def _receiver(
    dependencies: BrokerDependencies,
    local: Local,
    followers: TopicListeners,
    fence: ControllerFence,
    closing: TopicClosing,
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


def _rooms(dependencies: BrokerDependencies) -> Callable[[], Sequence[Room]]:
    rooms, quorum = dependencies.native.log_dirs.rooms, dependencies.quorum
    if quorum is None:
        return rooms
    return lambda: with_metadata_log(rooms(), dependencies.config.metadata_log_dir, quorum.full_refusals())


def _session(dependencies: BrokerDependencies) -> MetadataSession:
    if isinstance(dependencies.metadata, QuorumMember):
        from pybroker.broker.quorum.loader import QuorumSession

        return QuorumSession(dependencies.metadata.loader)
    return StoreSession(dependencies.metadata)


def _services(
    dependencies: BrokerDependencies,
    local: Local,
    followers: TopicListeners,
    topics: TopicAdmin,
    interbroker: InterBrokerParts,
    *,
    figures: Figures,
    roles: RoleReconciler,
) -> Services:
    native, config, view, controller = dependencies.native, dependencies.config, local.view, interbroker.controller
    cluster = ClusterAdmin(
        local.cache, lambda: view.image, None if dependencies.quorum is None else dependencies.quorum.voter_ids
    )
    gate = BrokerGate(config, local.authorizer) if config.in_cluster else None
    return Services(
        broker_id=dependencies.broker_id,
        cluster_id=dependencies.cluster_id,
        config=config,
        native=native,
        view=view,
        cache=local.cache,
        topics=topics,
        admin=Administration(
            broker_id=dependencies.broker_id,
            cluster_id=dependencies.cluster_id,
            config=config,
            clock=dependencies.clock,
            native=native,
            view=view,
            controller=controller,
            cache=local.cache,
            topics=topics,
            replicas=local.replicas,
            staging=local.staging,
            others=interbroker.lines,
            authorizes=local.authorizer.enabled,
            voters=None if dependencies.quorum is None else dependencies.quorum.voter_ids,
        ),
        cluster=cluster,
        figures=figures,
        cluster_state=ClusterState(
            dependencies.broker_id,
            cluster,
            Conditions(view, config, dependencies.broker_id),
            _session(dependencies),
            lambda: roles.wrong,
            None if dependencies.quorum is None else dependencies.quorum.status,
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
            config,
            local.credentials,
            dependencies.clock,
            gate,
            OAuthListeners(config, dependencies.clock, dependencies.loop),
        ),
        gate=gate,
        tokens=TokenAdmin(view, controller, config, dependencies.clock),
        telemetry=Telemetry(view, config, dependencies.clock),
        disk_room=DiskRoom(_rooms(dependencies), dependencies.clock),
        deleted_bytes=DeletedBytes(native.log_dirs.staged, dependencies.clock),
    )
