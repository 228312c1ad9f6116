"""Builds the coordinators of one broker (groups, transactions, share groups, ingests) and the listeners for changes of
their topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from pybroker.broker.admin.restored_offsets import LateOffsets, RestoredOffsets
from pybroker.broker.admin.topics import TopicAdmin
from pybroker.broker.cluster.controller_client import ControllerClient
from pybroker.broker.coordinators.group.coordinator import GroupCoordinator
from pybroker.broker.coordinators.group.interfaces import GroupCoordinatorSettings
from pybroker.broker.coordinators.group.share import ShareCoordination
from pybroker.broker.coordinators.producer_ids import AllocatedBlocks, ProducerIds, StoredBlocks
from pybroker.broker.coordinators.shards.appends import NativeAppends
from pybroker.broker.coordinators.shards.end_of_batch import EndOfBatchHook
from pybroker.broker.coordinators.shards.interfaces import CoordinatorDependencies
from pybroker.broker.coordinators.shards.topic_view import CachedTopics
from pybroker.broker.coordinators.share_partition.dead_letter_appends import DeadLetterAppends
from pybroker.broker.coordinators.share_partition.ends import PartitionEnds
from pybroker.broker.coordinators.share_parts import Shares
from pybroker.broker.coordinators.share_state.coordinator import Persister, ShareStateCoordinator
from pybroker.broker.coordinators.transaction.coordinator import TransactionCoordinator
from pybroker.broker.coordinators.transaction.dead_topics import KeptOutcomes, OwedMarkers
from pybroker.broker.coordinators.transaction.finishing import Finishing
from pybroker.broker.coordinators.transaction.interfaces import MarkerWriter, TransactionSettings
from pybroker.broker.coordinators.transaction.markers import LocalMarkers, OnlyHere
from pybroker.broker.coordinators.transaction.membership import TransactionMembership, TransactionPeers
from pybroker.broker.coordinators.transaction.offset_commits import TransactionalCommits
from pybroker.broker.coordinators.transaction.transactions import Transactions
from pybroker.broker.ingest.ingest_leader import IngestLeader
from pybroker.broker.ingest.ingests import Ingests
from pybroker.broker.lifecycle.broker_parts import BrokerDependencies, InterBrokerParts, Local, TopicListeners
from pybroker.broker.metadata.deletion_records import DeletionRecord
from pybroker.broker.metadata.feature_levels import SHARE_VERSION
from pybroker.broker.metadata.lineage import TopicLineage
from pybroker.broker.replicas.leader_following import Addresses
from pybroker.native import Uuid

if TYPE_CHECKING:
    from pybroker.broker.coordinators.share_partition.manager import SharePartitions
    from pybroker.broker.interbroker.connector import Connector


def topic_listeners(
    dependencies: BrokerDependencies,
    local: Local,
    topics: TopicAdmin,
    controller: ControllerClient,
    open_connection: Connector | None,
) -> TopicListeners:
    """Build the coordinators and the other listeners for topic changes."""
    native, view = dependencies.native, local.view

    def lineage(topic_id: Uuid) -> TopicLineage | None:
        topic = view.image.topic_by_id(topic_id)
        return None if topic is None else topic.lineage

    def deletions() -> Mapping[Uuid, DeletionRecord]:
        return view.image.deletions

    def own_settings(group_id: str) -> Mapping[str, str]:
        return view.image.group_config(group_id)

    appends = NativeAppends(native.partitions, dependencies.loop)
    group_topics = CachedTopics(local.cache, lineage, deletions)
    end_of_batch = EndOfBatchHook(dependencies.loop)
    shared = CoordinatorDependencies(
        dependencies.broker_id,
        dependencies.clock,
        dependencies.loop,
        end_of_batch,
        appends,
        native.partitions,
        group_topics,
        topics,
    )
    settings = GroupCoordinatorSettings(dependencies.config, own_settings)
    states, persister, ends, dead_letters, disconnect = _share_states(
        dependencies, shared, InterBrokerParts(view, controller, open_connection), appends
    )
    late_offsets = LateOffsets(view, controller)
    groups = GroupCoordinator(shared, settings, persister, late_offsets.keep)

    shares = Shares(
        ShareCoordination(groups, group_topics, persister, dependencies.loop),
        partial(
            _share_partitions,
            dependencies,
            local,
            topics,
            shared,
            settings,
            groups=groups,
            persister=persister,
            dead_letters=dead_letters,
            appends=appends,
        ),
        states,
        settings.share,
        dead_letters=dead_letters,
        disconnect=disconnect,
    )
    producer_ids = ProducerIds(
        AllocatedBlocks(controller, view, dependencies.broker_id)
        if dependencies.store is None
        else StoredBlocks(dependencies.store, dependencies.broker_id)
    )
    transactions = _transactions(
        dependencies,
        shared,
        groups,
        ids=producer_ids,
        markers=LocalMarkers(appends, groups, dependencies.clock),
        interbroker=InterBrokerParts(view, controller, open_connection),
    )
    peers = None
    if open_connection is not None:
        from pybroker.broker.interbroker.remote_ingest_orders import IngestOrders

        peers = IngestOrders(view, open_connection)
    ingests = Ingests(
        broker_id=dependencies.broker_id,
        leader=IngestLeader(native.ingests),
        peers=peers,
        view=view,
        controller=controller,
        config=dependencies.config,
        clock=dependencies.clock,
        resolved_config=local.replicas.resolved_config,
    )
    view.add_observer(ingests)
    returned_offsets = RestoredOffsets(
        view,
        controller,
        groups.give_back,
        groups.loaded,
        is_shown=lambda topic_id: group_topics.topic_name(topic_id) is not None,
    )
    view.add_observer(returned_offsets)
    if (interbroker := dependencies.config.between_brokers) is not None:
        view.add_observer(Addresses(native, dependencies.broker_id, interbroker))
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


def _share_partitions(
    dependencies: BrokerDependencies,
    local: Local,
    topics: TopicAdmin,
    shared: CoordinatorDependencies,
    settings: GroupCoordinatorSettings,
    *,
    groups: GroupCoordinator,
    persister: Persister,
    dead_letters: DeadLetterAppends,
    appends: NativeAppends,
) -> SharePartitions:
    from pybroker.broker.admin.automatic_topics import DeadLetterTopics
    from pybroker.broker.coordinators.share_partition.dead_letters import DeadLetterDependencies, DeadLetterQueues
    from pybroker.broker.coordinators.share_partition.manager import SharePartitions
    from pybroker.broker.coordinators.share_partition.partition import SharePartitionDependencies
    from pybroker.broker.coordinators.share_partition.share_statistics import ShareStatistics

    view, partitions = local.view, dependencies.native.partitions
    statistics = ShareStatistics()
    queues = DeadLetterQueues(
        DeadLetterDependencies(
            dependencies.clock,
            dependencies.loop,
            shared.topics,
            partitions,
            DeadLetterTopics(topics, local.replicas.resolved_config),
            dead_letters,
            settings.share,
            lambda: view.image.features.level(SHARE_VERSION) >= 2,
        ),
        statistics,
    )
    share_dependencies = SharePartitionDependencies(
        dependencies.clock,
        dependencies.loop,
        groups.timers,
        partitions,
        persister,
        settings.share,
        queues,
        appends.watched,
        appends.unwatched,
    )
    return SharePartitions(dependencies.broker_id, shared.topics, share_dependencies, statistics)


def _share_states(
    dependencies: BrokerDependencies,
    shared: CoordinatorDependencies,
    interbroker: InterBrokerParts,
    appends: NativeAppends,
) -> tuple[ShareStateCoordinator, Persister, PartitionEnds, DeadLetterAppends, Callable[[], None] | None]:
    native, here = dependencies.native, dependencies.broker_id
    states = ShareStateCoordinator(shared, dependencies.config, native.partitions)
    if interbroker.open_connection is None:
        ends = PartitionEnds(here, shared.topics, native.partitions, None)
        return states, Persister(shared, states, None), ends, DeadLetterAppends(here, appends, None), None
    from pybroker.broker.coordinators.share_state.share_state_peers import OtherShareCoordinators
    from pybroker.broker.interbroker.connection_pool import ConnectionPool

    lines = ConnectionPool(interbroker.view, interbroker.open_connection)
    # An append waits for replicas. Queries use other connections, so that they do not wait behind appends.
    letters = ConnectionPool(interbroker.view, interbroker.open_connection)
    others = OtherShareCoordinators(lines)
    ends = PartitionEnds(here, shared.topics, native.partitions, lines)

    def disconnect() -> None:
        others.close()
        letters.close()

    return states, Persister(shared, states, others), ends, DeadLetterAppends(here, appends, letters), disconnect


def _transactions(
    dependencies: BrokerDependencies,
    shared: CoordinatorDependencies,
    groups: GroupCoordinator,
    *,
    ids: ProducerIds,
    markers: LocalMarkers,
    interbroker: InterBrokerParts,
) -> Transactions:
    writer: MarkerWriter = OnlyHere(dependencies.broker_id, markers)
    peers: TransactionPeers | None = None
    close = None
    if interbroker.open_connection is not None:
        from pybroker.broker.coordinators.transaction.everywhere import Everywhere
        from pybroker.broker.interbroker.connection_pool import ConnectionPool

        everywhere = Everywhere(
            dependencies.broker_id,
            markers,
            ConnectionPool(interbroker.view, interbroker.open_connection),
            ConnectionPool(interbroker.view, interbroker.open_connection),
        )
        writer = peers = everywhere
        close = everywhere.close
    finishing = Finishing(
        shared.topics, writer, interbroker.controller, KeptOutcomes(interbroker.controller), dependencies.clock
    )
    coordinator = TransactionCoordinator(shared, TransactionSettings(dependencies.config), ids, finishing)
    owed = OwedMarkers(
        dependencies.broker_id, interbroker.view, interbroker.controller, dependencies.native.partitions, markers
    )
    membership = TransactionMembership(dependencies.broker_id, coordinator, shared.topics, peers)
    commits = TransactionalCommits(groups, membership, shared.topics, shared.creator)
    return Transactions(coordinator, membership, markers, owed, commits, dependencies.clock, close)
