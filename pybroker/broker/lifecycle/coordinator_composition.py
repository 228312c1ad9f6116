"""Builds the coordinators of one broker: groups, transactions, share groups, ingests, and what follows their topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from pybroker.broker.admin.restored_offsets import LateOffsets, RestoredOffsets
from pybroker.broker.admin.topics import TopicAdmin
from pybroker.broker.cluster.controller_client import ControllerClient
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
from pybroker.broker.coordinators.transaction.coordinator import TransactionCoordinator
from pybroker.broker.coordinators.transaction.dead_topics import KeptOutcomes, OwedMarkers
from pybroker.broker.coordinators.transaction.finishing import Finishing
from pybroker.broker.coordinators.transaction.markers import LocalMarkers, OnlyHere
from pybroker.broker.coordinators.transaction.membership import TransactionMembership, TransactionPeers
from pybroker.broker.coordinators.transaction.offset_commits import TransactionalCommits
from pybroker.broker.coordinators.transaction.ports import MarkerWriter, TransactionSettings
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
    ground: BrokerDependencies,
    local: Local,
    topics: TopicAdmin,
    port: ControllerClient,
    open_connection: Connector | None,
) -> TopicListeners:
    """Build the coordinators, and what else follows topics."""
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

    shares = Shares(
        ShareCoordination(groups, group_topics, persister, ground.loop),
        partial(
            _share_partitions,
            ground,
            local,
            topics,
            ports,
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


def _share_partitions(
    ground: BrokerDependencies,
    local: Local,
    topics: TopicAdmin,
    ports: Ports,
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

    view, partitions = local.view, ground.native.partitions
    statistics = ShareStatistics()
    queues = DeadLetterQueues(
        DeadLetterDependencies(
            ground.clock,
            ground.loop,
            ports.topics,
            partitions,
            DeadLetterTopics(topics, local.replicas.resolved_config),
            dead_letters,
            settings.share,
            lambda: view.image.features.level(SHARE_VERSION) >= 2,
        ),
        statistics,
    )
    dependencies = SharePartitionDependencies(
        ground.clock,
        ground.loop,
        groups.timers,
        partitions,
        persister,
        settings.share,
        queues,
        appends.watched,
        appends.unwatched,
    )
    return SharePartitions(ground.broker_id, ports.topics, dependencies, statistics)


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
    coordinator = TransactionCoordinator(ports, TransactionSettings(ground.config), ids, finishing)
    owed = OwedMarkers(ground.broker_id, between.view, between.port, ground.native.partitions, markers)
    membership = TransactionMembership(ground.broker_id, coordinator, ports.topics, colleagues)
    commits = TransactionalCommits(groups, membership, ports.topics, ports.creator)
    return Transactions(coordinator, membership, markers, owed, commits, ground.clock, close)
