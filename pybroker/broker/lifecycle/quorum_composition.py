"""Builds the parts that a broker has only in a metadata quorum."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pybroker.broker.controller.quorum_election import QuorumElection
from pybroker.broker.controller.quorum_terms import QuorumTerms
from pybroker.broker.controller.voter_changes import VoterChanges
from pybroker.broker.lifecycle.broker_parts import BrokerDependencies, QuorumMember, QuorumParts
from pybroker.broker.quorum.bootstrap_users import BootstrapUsers
from pybroker.broker.quorum.voter_membership import VoterMembership
from pybroker.broker.replicas.metadata_publisher import BrokerMetadataPublisher
from pybroker.broker.replicas.order_results import ReplicaReports
from pybroker.broker.replicas.quorum_registration import QuorumRegistration
from pybroker.broker.replicas.voter_offers import VoterOffers
from pybroker.errors import FatalError

if TYPE_CHECKING:
    from pybroker.broker.api.controller_messages import ControlReceiver
    from pybroker.broker.cluster.cluster_view import ControllerLeadership
    from pybroker.broker.cluster.controller_client import ControllerClient
    from pybroker.broker.controller.controller import Controller
    from pybroker.broker.controller.terms import ControllerTerms
    from pybroker.broker.replicas.fenced_topics import TopicClosing
    from pybroker.broker.replicas.known_cluster import KnownCluster
    from pybroker.broker.replicas.partition_visibility import PartitionVisibility


def quorum_election(
    dependencies: BrokerDependencies,
    quorum: QuorumMember,
    leadership: ControllerLeadership,
    make_controller: Callable[[ControllerTerms], Controller],
    on_fatal: Callable[[FatalError], None],
) -> QuorumElection:
    """Build the election. It creates a controller for each epoch in which this node leads."""
    session_s = dependencies.config.get_int("broker.session.timeout.ms") / 1000

    bootstrap = BootstrapUsers(Path(dependencies.config.metadata_log_dir))
    quorum.loader.follow(bootstrap.observe)

    changes = VoterChanges(quorum.node, dependencies.broker_id, dependencies.config.voters_wanted)
    changes.image = lambda: quorum.loader.image

    def of_epoch(epoch: int) -> Controller:
        return make_controller(
            QuorumTerms(
                quorum.log,
                quorum.loader,
                epoch,
                dependencies.broker_id,
                session_s,
                offsets=quorum.reports.offsets,
                answer_fetches=quorum.node.answer_fetches,
                idle_interval_s=dependencies.config.get_int("metadata.max.idle.interval.ms") / 1000,
                bootstrap_users=bootstrap.users,
                changes=changes,
            )
        )

    return QuorumElection(
        log=quorum.log,
        loader=quorum.loader,
        broker_id=dependencies.broker_id,
        leadership=leadership,
        make_controller=of_epoch,
        on_fatal=on_fatal,
    )


def quorum_parts(
    dependencies: BrokerDependencies,
    quorum: QuorumMember,
    view: KnownCluster,
    controller: ControllerClient,
    on_fatal: Callable[[FatalError], None],
    *,
    receiver: ControlReceiver,
    closing: TopicClosing,
    visibility: PartitionVisibility,
) -> QuorumParts:
    """Build the registration and the parts that apply the log."""
    config = dependencies.config
    registration = QuorumRegistration(
        controller,
        dependencies.broker_id,
        config["log.flush.mode"],
        on_fatal,
        incarnation=quorum.incarnation,
        reports=quorum.reports,
        heartbeat_s=config.get_int("broker.heartbeat.interval.ms") / 1000,
        leads=lambda: quorum.loader.leader[1] == dependencies.broker_id,
        log_dirs=config.log_dirs,
        cordoned=config.cordoned_log_dirs,
    )
    reports = ReplicaReports(controller, dependencies.broker_id)
    publisher = BrokerMetadataPublisher(
        broker_id=dependencies.broker_id,
        incarnation=quorum.incarnation,
        between=config.between_brokers,
        loader=quorum.loader,
        view=view,
        visibility=visibility,
        execute=receiver.execute,
        expire_fences=closing.expire,
        results=reports,
        listener=registration,
        on_fatal=on_fatal,
    )
    offers = VoterOffers(
        controller,
        dependencies.broker_id,
        quorum.directory_id,
        quorum.addresses,
        status=quorum.status,
        broker_epoch=lambda: registration.epoch,
        membership=VoterMembership(Path(config.metadata_log_dir), dependencies.broker_id, quorum.directory_id),
        offers=config.joins_voters,
    )
    quorum.node.follow_voters(offers.voters_changed)
    return QuorumParts(registration, publisher, reports, offers)
